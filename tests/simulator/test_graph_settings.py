"""Mailbox settings and master categories over Graph."""

import pytest


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address, "MailboxSettings.ReadWrite")


def test_all_settings_or_one_are_read(user):
    """Documented in "Get user mailbox settings"."""
    settings = user.get("mailboxSettings")
    assert settings["automaticRepliesSetting"]["status"] == "disabled"
    assert settings["workingHours"]["startTime"] == "08:00:00.0000000"
    assert user.get("mailboxSettings/timeZone")["value"] == "UTC"
    assert user.get("mailboxSettings/language")["locale"] == "en-US"
    selected = user.get("mailboxSettings", **{"$select": "timeZone"})
    assert set(selected) == {"@odata.context", "timeZone"}
    user.expect_error(400, "mailboxSettings/nothing")


def test_changed_settings_are_kept(user):
    """Documented in "Update user mailbox settings": the rest stays as it is."""
    replies = {"status": "scheduled", "internalReplyMessage": "Away"}
    changed = user.request("PATCH", "mailboxSettings", json={"automaticRepliesSetting": replies}).json()
    assert set(changed) == {"@odata.context", "automaticRepliesSetting"}
    zone = {"timeZone": "Europe/Berlin", "workingHours": {"daysOfWeek": ["monday"]}}
    assert user.request("PATCH", "mailboxSettings", json=zone).status_code == 200
    settings = user.get("mailboxSettings")
    assert settings["automaticRepliesSetting"]["status"] == "scheduled"
    assert settings["automaticRepliesSetting"]["externalAudience"] == "all"
    assert (settings["timeZone"], settings["workingHours"]["daysOfWeek"]) == ("Europe/Berlin", ["monday"])
    assert settings["workingHours"]["endTime"] == "17:00:00.0000000"


def test_another_language_does_not_keep_the_name_of_the_former(user):
    """Follows "localeInfo resource type", https://learn.microsoft.com/graph/api/resources/localeinfo"""
    assert user.get("mailboxSettings/language")["displayName"] == "English (United States)"
    language = {"locale": "de-DE"}
    assert user.request("PATCH", "mailboxSettings", json={"language": language}).status_code == 200
    shown = user.get("mailboxSettings/language")
    assert (shown["locale"], shown["displayName"]) == ("de-DE", None)
    language["displayName"] = "German (Germany)"
    user.request("PATCH", "mailboxSettings", json={"language": language})
    assert user.get("mailboxSettings/language")["displayName"] == "German (Germany)"


@pytest.mark.parametrize(
    "body",
    [
        {"timeZone": 5}, {"userPurpose": "room"}, {"nothing": "x"}, {"language": "de"},
        {"automaticRepliesSetting": {"status": "perhaps"}}, {"workingHours": {"daysOfWeek": ["someday"]}},
        {"automaticRepliesSetting": {"scheduledEndDateTime": {"dateTime": 5}}},
        {"automaticRepliesSetting": {"scheduledEndDateTime": {"dateTime": "soon", "timeZone": "UTC"}}},
        {"workingHours": {"startTime": "early"}},
    ],
)  # fmt: skip
def test_invalid_settings_are_refused(user, body):
    before = user.get("mailboxSettings")
    user.expect_error(400, "mailboxSettings", "PATCH", json=body)
    assert user.get("mailboxSettings") == before


def test_time_zones_of_windows_and_of_iana_are_known(user):
    """Documented in "Update user mailbox settings" and "outlookUser: supportedTimeZones".

    Code and text of the error are those of microsoftgraph/microsoft-graph-docs#6870 and
    microsoftgraph/msgraph-sample-rubyrailsapp#195, observed for events.
    """
    for zone in ("Pacific Standard Time", "W. Europe Standard Time", "Asia/Kolkata", "Russia Time Zone 3"):
        assert user.request("PATCH", "mailboxSettings", json={"timeZone": zone}).status_code == 200
        assert user.get("mailboxSettings/timeZone")["value"] == zone
    moment = {"dateTime": "2026-01-05T09:00:00.0000000", "timeZone": "Mars Standard Time"}
    for body in (
        {"timeZone": "Greenwich Mean Time"},
        {"timeZone": ""},
        {"workingHours": {"timeZone": {"name": "Mars/Olympus"}}},
        {"automaticRepliesSetting": {"scheduledStartDateTime": moment}},
    ):
        error = user.expect_error(400, "mailboxSettings", "PATCH", json=body)
        assert error["code"] == "TimeZoneNotSupportedException"
        assert error["message"].startswith("A valid TimeZone value must be specified. The following ")
    assert user.get("mailboxSettings")["timeZone"] == "Russia Time Zone 3"


def test_a_new_mailbox_with_the_same_address_has_the_default_settings(sim, microsoft, user):
    assert user.request("PATCH", "mailboxSettings", json={"timeZone": "Europe/Berlin"}).status_code == 200
    sim.delete(f"mailboxes/{user.address}")
    again = microsoft.connect(sim, user.address, "MailboxSettings.Read")
    assert again.get("mailboxSettings/timeZone")["value"] == "UTC"


def test_settings_need_their_own_permission(sim, microsoft, user):
    """Documented in "Get user mailbox settings" and "List masterCategories"."""
    reader = microsoft.sign_in(sim, user.address, "MailboxSettings.Read")
    assert reader.get("outlook/masterCategories")["value"]
    reader.expect_error(403, "mailboxSettings", "PATCH", json={"timeZone": "UTC"})
    reader.expect_error(403, "outlook/masterCategories", "POST", json={"displayName": "x"})
    reader.expect_error(403, "messages")
    mail = microsoft.sign_in(sim, user.address, "Mail.ReadWrite")
    mail.expect_error(403, "mailboxSettings")


def test_categories_are_created_colored_and_deleted(user):
    """Documented in the outlookCategory resource and its methods."""
    assert [one["color"] for one in user.get("outlook/masterCategories")["value"]][:2] == [
        "preset0",
        "preset1",
    ]
    made = user.post("outlook/masterCategories", {"displayName": "Invoices", "color": "preset9"})
    path = f"outlook/masterCategories/{made['id']}"
    assert user.get(path)["displayName"] == "Invoices"
    assert user.request("PATCH", path, json={"color": "preset2"}).json()["color"] == "preset2"
    user.expect_error(400, path, "PATCH", json={"displayName": "Bills"})
    user.expect_error(409, "outlook/masterCategories", "POST", json={"displayName": "invoices"})
    assert user.request("DELETE", path).status_code == 204
    user.expect_error(404, path)
    for body in ({}, {"displayName": "x", "color": "red"}, {"displayName": 5}):
        user.expect_error(400, "outlook/masterCategories", "POST", json=body)


def test_all_default_categories_can_be_deleted(user):
    for one in user.get("outlook/masterCategories")["value"]:
        assert user.request("DELETE", f"outlook/masterCategories/{one['id']}").status_code == 204
    assert user.get("outlook/masterCategories")["value"] == []
    assert user.request("GET", "outlook/masterCategories/$count").text == "0"
