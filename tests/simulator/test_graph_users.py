"""Users over Graph: pages, filters and permissions of GET /users."""

import itertools

import pytest

ADVANCED = {"consistencylevel": "eventual"}
_tenants = itertools.count(1)


@pytest.fixture
def user(sim, microsoft):
    """Return one of three users of a tenant of their own."""
    domain = f"tenant{next(_tenants)}.test"
    for name in ("ben.berg", "cora"):
        sim.create("outlook", f"{name}@{domain}")
    sim.create("outlook", f"dora@other-{domain}")
    return microsoft.connect(sim, f"ann@{domain}", "User.Read.All")


def names(page):
    return [one["userPrincipalName"].partition("@")[0] for one in page]


def test_the_users_of_the_tenant_are_listed_page_by_page(user):
    """Documented in "List users"."""
    first = user.get("/users", **{"$top": 2, "$select": "id,userPrincipalName"})
    assert len(first["value"]) == 2
    assert "$skiptoken=" in first["@odata.nextLink"]
    everyone = user.pages("/users", **{"$top": 2, "$orderby": "displayName"})
    assert names(everyone) == ["ann", "ben.berg", "cora"]
    assert user.get(f"/users/{everyone[1]['id']}")["displayName"] == "Ben Berg"


@pytest.mark.parametrize(
    "where, found",
    [
        ("startswith(displayName,'ben')", ["ben.berg"]),
        ("mail eq '{ann}'", ["ann"]),
        ("accountEnabled eq false", []),
        ("mail in ('{ann}', 'nobody@example.org')", ["ann"]),
        ("givenName in ('Cora','Ben') and accountEnabled", ["ben.berg", "cora"]),
        ("proxyAddresses/any(p:p eq 'SMTP:{ann}')", ["ann"]),
        ("surname eq 'Berg' or startswith(givenName,'Cor')", ["ben.berg", "cora"]),
    ],
)
def test_users_are_filtered(user, where, found):
    """Documented in "Advanced query capabilities on Microsoft Entra ID objects", default properties."""
    page = user.get("/users", **{"$filter": where.format(ann=user.address)})
    assert sorted(names(page["value"])) == found


@pytest.mark.parametrize(
    "where", ["endswith(mail,'berg@{domain}')", "not(startswith(mail,'ann')) and mail ne 'cora@{domain}'"]
)
def test_advanced_filters_need_the_header_and_the_count(user, where):
    """Documented in "Advanced query capabilities on Microsoft Entra ID objects"."""
    options = {"$filter": where.format(domain=user.address.partition("@")[2])}
    for headers, more in (({}, {"$count": "true"}), (ADVANCED, {})):
        error = user.expect_error(400, "/users", params=options | more, headers=headers)
        assert error["code"] == "Request_UnsupportedQuery"
    page = user.get("/users", ADVANCED, **options, **{"$count": "true"})
    assert (names(page["value"]), page["@odata.count"]) == (["ben.berg"], 1)


def test_properties_outside_the_default_set_are_returned_if_selected(user):
    """Documented in "user resource type"."""
    assert "department" not in user.get("/me")
    shown = user.get("/me", **{"$select": "department,mailNickname,otherMails,proxyAddresses"})
    shown.pop("@odata.context")
    assert shown == {
        "department": None,
        "mailNickname": "ann",
        "otherMails": [],
        "proxyAddresses": [f"SMTP:{user.address}"],
    }


def test_users_are_counted_only_with_the_header(user):
    """Documented in "List users" and in "Advanced query capabilities on Microsoft Entra ID objects"."""
    assert user.request("GET", "/users/$count", headers=ADVANCED).text == "3"
    user.expect_error(400, "/users/$count")
    assert "@odata.count" not in user.get("/users", **{"$count": "true"})


@pytest.mark.parametrize(
    "options, code",
    [
        ({"$top": 1000}, "Request_BadRequest"),
        ({"$skip": 1}, "Request_BadRequest"),
        ({"$skiptoken": "abc"}, "Directory_ExpiredPageToken"),
        ({"$filter": "contains(displayName,'a')"}, "Request_UnsupportedQuery"),
    ],
)
def test_options_that_the_directory_does_not_support_are_refused(user, options, code):
    assert user.expect_error(400, "/users", params=options)["code"] == code


def test_listing_users_needs_more_than_the_own_profile(sim, microsoft, user):
    """Documented in "List users": least privileged User.ReadBasic.All."""
    reader = microsoft.sign_in(sim, user.address, "User.Read", "Mail.Read")
    for path in ("/users", f"/users/{user.address.replace('ann', 'cora')}"):
        assert reader.expect_error(403, path)["code"] == "Authorization_RequestDenied"
    assert len(microsoft.sign_in(sim, user.address, "User.ReadBasic.All").get("/users")["value"]) == 3
    application = microsoft.sign_in(sim, user.address, roles=["User.Read.All"])
    assert len(application.get("/users")["value"]) == 3
