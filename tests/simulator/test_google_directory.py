"""The Directory API: an administrator lists the users, groups and members of a Workspace.

Follows the discovery document `admin:directory_v1` and "Search for users"
(developers.google.com/workspace/admin/directory/v1/guides/search-users).
"""

from contextlib import closing
from itertools import count

import google.auth.transport.requests
import google.oauth2.credentials
import httplib2
import pytest
from google.oauth2 import service_account
from google_auth_httplib2 import AuthorizedHttp
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

SCOPE = "https://www.googleapis.com/auth/admin.directory."
SCOPES = (f"{SCOPE}user.readonly", f"{SCOPE}group.readonly")
_domains = count(1)


@pytest.fixture
def domain():
    return f"workspace{next(_domains)}.example"


@pytest.fixture
def admin(sim, google, domain):
    """The administrator of a domain with two more people, in the directory's own order."""
    user = google.connect(sim, f"admin@{domain}", *SCOPES, name="Ada Admin")
    sim.create("gmail", f"bob@{domain}", name="Bob Jones")
    sim.create("gmail", f"cleo@{domain}", name="Cleo Miller")
    sim.post(f"google/accounts/admin@{domain}/admin", admin=True)
    return user


@pytest.fixture
def directory(admin):
    credentials = google.oauth2.credentials.Credentials(admin.tokens["access_token"])
    with closing(AuthorizedHttp(credentials, httplib2.Http(timeout=60))) as http:
        options = {"api_endpoint": admin.simulation.http}
        with closing(build("admin", "directory_v1", http=http, client_options=options)) as api:
            yield api


def names(page):
    return [user["primaryEmail"].partition("@")[0] for user in page.get("users", [])]


def test_googles_client_lists_all_users_of_a_customer_in_pages(directory, domain):
    found, request = [], directory.users().list(customer="my_customer", maxResults=2)
    while request is not None:
        page = request.execute()
        assert len(page["users"]) <= 2
        found += page["users"]
        request = directory.users().list_next(request, page)
    assert [user["primaryEmail"] for user in found] == [
        f"{name}@{domain}" for name in ("admin", "bob", "cleo")
    ]
    assert [user["isAdmin"] for user in found] == [True, False, False]
    [customer] = {user["customerId"] for user in found}
    assert names(directory.users().list(customer=customer).execute()) == ["admin", "bob", "cleo"]
    assert names(directory.users().list(domain=domain, sortOrder="DESCENDING").execute())[0] == "cleo"
    by_id = directory.users().get(userKey=found[1]["id"]).execute()
    assert by_id == directory.users().get(userKey=f"bob@{domain}").execute() == found[1]


@pytest.mark.parametrize(
    "query, found",
    [
        ("email:bob*", ["bob"]),
        ("bob", ["bob"]),
        ("givenName:Cleo familyName=miller", ["cleo"]),
        ("name='Bob Jones'", ["bob"]),
        ("name:'Bob Miller'", []),
        ("isSuspended=true", ["cleo"]),
        ("isSuspended=false", ["admin", "bob"]),
        ("isAdmin=true", ["admin"]),
        ("orgUnitPath=/", ["admin", "bob", "cleo"]),
        ("isDelegatedAdmin=false email:c*", ["cleo"]),
        ("phone=+491234567", []),
        ("address:Berlin", []),
        ("orgTitle:'Head of Sales'", []),
    ],
)
def test_users_are_searched(sim, admin, domain, query, found):
    sim.post(f"google/accounts/cleo@{domain}", trouble="suspended")
    page = admin.get("/admin/directory/v1/users", customer="my_customer", query=query)
    assert names(page) == found


def test_a_query_outside_the_documented_syntax_is_refused(admin):
    """Documented in "Search for users": the fields, the operators of each, and quoted values."""
    for query in (
        "shoeSize=3", "'x", "name:", "=x", ":", "email==bob", "email:=bob", "email>bob", "(bob)", "a.b:c",
        "email:bob:x", "email:b*b", "name:'Bob'Jones", "orgUnitPath:/", "address=Berlin", "isAdmin:true",
        "isAdmin=perhaps", "name=''",
    ):  # fmt: skip
        selection = {"customer": "my_customer", "query": query}
        error = admin.expect_error(400, "/admin/directory/v1/users", params=selection)
        assert error["message"] == "Invalid Input: query"


def test_a_suspended_user_is_listed_with_the_reason_and_a_deleted_one_is_not(sim, admin, domain):
    sim.post(f"google/accounts/cleo@{domain}", trouble="suspended")
    sim.post(f"google/accounts/bob@{domain}", trouble="account_deleted")
    page = admin.get("/admin/directory/v1/users", customer="my_customer")
    assert names(page) == ["admin", "cleo"]
    assert (page["users"][1]["suspended"], page["users"][1]["suspensionReason"]) == (True, "ADMIN")


def test_fields_select_properties(admin):
    page = admin.get("/admin/directory/v1/users", customer="my_customer", fields="users(name/givenName)")
    assert page["users"][0] == {"name": {"givenName": "Ada"}}


@pytest.mark.parametrize(
    "path, status",
    [
        ("users", 400),
        ("users?customer=C0wrong", 400),
        ("users?domain=other.example", 404),
        ("users?customer=my_customer&maxResults=501", 400),
        ("users?customer=my_customer&pageToken=x", 400),
        ("users?customer=my_customer&orderBy=age", 400),
        ("users?customer=my_customer&colour=red", 400),
        ("users/missing@example.com", 404),
        ("groups/missing@example.com/members", 404),
        ("groups?customer=my_customer&query=email:a*", 501),
        ("customer/my_customer/domains", 501),
    ],
)
def test_wrong_requests_get_googles_errors(admin, path, status):
    admin.expect_error(status, f"/admin/directory/v1/{path}")


def test_only_administrators_with_the_scope_read_their_own_workspace(sim, google, admin, domain):
    person = google.sign_in(sim, f"bob@{domain}", *SCOPES)
    error = person.expect_error(403, "/admin/directory/v1/users?customer=my_customer")
    assert error["message"] == "Not Authorized to access this resource/api"
    mail_only = google.sign_in(sim, f"admin@{domain}")
    error = mail_only.expect_error(403, "/admin/directory/v1/users?customer=my_customer")
    assert error["details"][0]["reason"] == "ACCESS_TOKEN_SCOPE_INSUFFICIENT"
    admin.expect_error(401, "/admin/directory/v1/users", headers={"authorization": "Bearer wrong"})
    assert admin.expect_error(501, "/admin/directory/v1/users", "POST")["status"] == "UNIMPLEMENTED"
    admin.expect_error(501, "/admin/directory/v1/groups/all@example.com", "DELETE")
    sim.post(f"google/accounts/admin@{domain}/admin", admin=False)
    admin.expect_error(403, "/admin/directory/v1/users?customer=my_customer")


@pytest.mark.parametrize("trouble", ["suspended", "account_deleted"])
def test_a_token_ends_with_its_account(sim, admin, domain, trouble):
    admin.get("/admin/directory/v1/users", customer="my_customer")
    sim.post(f"google/accounts/admin@{domain}", trouble=trouble)
    admin.expect_error(401, "/admin/directory/v1/users?customer=my_customer")


def test_a_token_ends_with_its_service_account(sim, admin, domain):
    key_file = sim.post("google/service-accounts", name=domain.partition(".")[0])
    sim.post("google/delegations", client_id=key_file["client_id"], domain=domain, scopes=SCOPES)
    credentials = service_account.Credentials.from_service_account_info(
        key_file, scopes=SCOPES, subject=f"admin@{domain}"
    )
    credentials.refresh(google.auth.transport.requests.Request())
    headers = {"authorization": f"Bearer {credentials.token}"}
    path = "/admin/directory/v1/users?customer=my_customer"
    assert admin.request("GET", path, headers=headers).status_code == 200
    sim.delete(f"google/service-accounts/{key_file['client_email']}")
    admin.expect_error(401, path, headers=headers)


def test_groups_and_members_are_listed(sim, admin, directory, domain):
    inner = f"inner@{domain}"
    sim.post("google/groups", email=inner, members=[{"email": f"cleo@{domain}"}])
    members = [
        {"email": f"bob@{domain}", "role": "OWNER"},
        {"email": inner},
        {"email": "guest@elsewhere.example"},
    ]
    sim.post("google/groups", email=f"all@{domain}", name="Everyone", members=members)
    sim.post("google/groups", email="others@elsewhere.example")
    page = directory.groups().list(customer="my_customer", orderBy="email").execute()
    assert [group["name"] for group in page["groups"]] == ["Everyone", "inner"]
    assert page["groups"][0]["directMembersCount"] == "3"
    listing = directory.members()
    direct = listing.list(groupKey=page["groups"][0]["id"]).execute()["members"]
    assert [(member["role"], member["type"]) for member in direct] == [
        ("OWNER", "USER"),
        ("MEMBER", "GROUP"),
        ("MEMBER", "USER"),
    ]
    owners = listing.list(groupKey=f"all@{domain}", roles="OWNER").execute()["members"]
    assert [member["email"] for member in owners] == [f"bob@{domain}"]
    derived = listing.list(groupKey=f"all@{domain}", includeDerivedMembership=True).execute()["members"]
    assert f"cleo@{domain}" in {member["email"] for member in derived}
    of_bob = directory.groups().list(userKey=f"bob@{domain}").execute()["groups"]
    assert [group["email"] for group in of_bob] == [f"all@{domain}"]
    sim.delete(f"google/groups?email=all@{domain}")
    with pytest.raises(HttpError, match="404"):
        listing.list(groupKey=f"all@{domain}").execute()
