"""Endpoints that only the providers have answer 501, in the body and once in the log.

RFC 9110, section 15.6.2, defines 501. Which endpoints the providers have:
"Microsoft Graph REST API v1.0 endpoint reference", https://learn.microsoft.com/graph/api/overview
"Gmail API", https://developers.google.com/workspace/gmail/api/reference/rest
"""

import json
import re
from pathlib import Path

import httpx2
import msgraph
import pytest

from simulator.google_user import SCOPE

FORWARDING = {"criteria": {"from": "amy@example.org"}, "action": {"forward": "other@example.com"}}


def connect_forwarding(sim, google, address):
    """Return a user whose forwarding address is verified."""
    sim.create("gmail", address)
    key = sim.post("google/service-accounts", name="settings")
    scopes = [SCOPE + "settings.basic", SCOPE + "settings.sharing"]
    sim.post("google/delegations", client_id=key["client_id"], domain="example.com", scopes=scopes)
    user = google.sign_in(sim, address, *scopes, client_id=key["client_id"])
    user.post("settings/forwardingAddresses", {"forwardingEmail": "other@example.com"})
    return user


def test_what_a_gmail_filter_cannot_do_says_so(sim, google, address):
    user = connect_forwarding(sim, google, address)
    error = user.expect_error(501, "settings/filters", "POST", json=FORWARDING)
    assert error["status"] == "UNIMPLEMENTED"
    assert "mailsim does not simulate" in error["message"]
    for unknown in ("nothing", "settings", "settings/nothing", "settings/sendAs/me@example.com/nothing"):
        assert user.request("GET", unknown).status_code == 404


@pytest.mark.parametrize(
    "method, path",
    [
        ("PUT", "messages/{}/$value"),
        ("DELETE", "mailFolders/inbox/messages/{}/$value"),
        ("GET", "presence"),
        ("GET", "outlook/supportedLanguages"),
        ("GET", "calendar/events"),
        ("POST", "/users"),
        ("GET", "/users/delta"),
        ("GET", "/me?$expand=manager"),
        ("GET", "/me?$select=assignedLicenses"),
        ("GET", "/me?$select=mailboxSettings"),
        ("POST", "/groups"),
        ("GET", "/$metadata"),
        ("GET", "/subscribedSkus"),
        ("GET", "/"),
    ],
)
def test_graph_operations_that_are_not_simulated_say_so(sim, microsoft, address, method, path):
    user = microsoft.connect(sim, address, messages=1)
    message = user.get("messages")["value"][0]["id"]
    error = user.expect_error(501, path.format(message), method)
    assert error["code"] == "NotImplemented"
    assert "mailsim does not simulate" in error["message"]


def test_paths_that_graph_does_not_have_get_graphs_own_error(sim, microsoft, address):
    user = microsoft.connect(sim, address, messages=1)
    message = user.get("messages")["value"][0]["id"]
    assert "Resource not found" in user.expect_error(400, f"messages/{message}/nothing")["message"]
    assert "Resource not found" in user.expect_error(400, "nothing")["message"]
    user.expect_error(405, "messages", "PUT")


def test_what_only_beta_has_says_so_and_is_unknown_to_v1(sim, microsoft, address):
    """Documented in the reference of the version beta: profile, message: mentions, mailFolder: operations."""
    user = microsoft.connect(sim, address, messages=1)
    message = user.get("messages")["value"][0]["id"]
    for path in (
        "me/profile",
        "users/me/analytics/activityStatistics",
        "riskyUsers",
        "me/mailFolders/inbox/userConfigurations",
        f"me/messages/{message}/mentions",
        f"me/mailFolders/inbox/messages/{message}/mentions/$count",
        "me/messages?$select=unsubscribeEnabled",
        "me?$expand=invitedBy",
    ):
        error = user.expect_error(501, f"{sim.http}/beta/{path}")
        assert "mailsim does not simulate" in error["message"]
        assert "mailsim" not in user.expect_error(400, f"/{path}")["message"]
    for path in ("me/nothing", "nothing", f"me/messages/{message}/nothing", "me/messages?$select=nothing"):
        assert "mailsim" not in user.expect_error(400, f"{sim.http}/beta/{path}")["message"]


GENERATED = Path(msgraph.__file__).parent / "generated"


def list_names(folder: str) -> list[str]:
    """List the path segments that Microsoft's client has in a folder of its generated code."""
    entries = (GENERATED / folder).iterdir()
    names = [entry.name for entry in entries if entry.is_dir() and "_with_" not in entry.name]
    return [name.replace("_", "") for name in names if name not in {"item", "models", "__pycache__"}]


def test_every_path_of_microsofts_client_is_simulated_or_says_so(sim, microsoft, address):
    """The client is generated from the description of v1.0."""
    user = microsoft.connect(sim, address)
    paths = [f"/{name}" for name in list_names(".")] + [f"/me/{name}" for name in list_names("users/item")]
    unknown = [path for path in paths if "Resource not found" in user.request("GET", path).text]
    assert len(paths) > 100
    assert unknown == []


@pytest.mark.parametrize(
    "path, folder",
    [
        ("/users", "users"),
        ("/users/me@example.com", "users/item"),
        ("/users/$count", "users/count"),
        ("/users/delta", "users/delta"),
        ("/users/getByIds", "users/get_by_ids"),
        ("/users/validateProperties", "users/validate_properties"),
        ("/users/getAvailableExtensionProperties", "users/get_available_extension_properties"),
        ("/groups", "groups"),
        ("/groups/0", "groups/item"),
        ("/groups/$count", "groups/count"),
        ("/groups/delta()", "groups/delta"),
        ("outlook", "users/item/outlook"),
        ("outlook/masterCategories", "users/item/outlook/master_categories"),
        ("outlook/masterCategories/0", "users/item/outlook/master_categories/item"),
        ("outlook/supportedLanguages", "users/item/outlook/supported_languages"),
        ("outlook/supportedTimeZones()", "users/item/outlook/supported_time_zones"),
        (
            "outlook/supportedTimeZones(TimeZoneStandard=microsoft.graph.timeZoneStandard'Iana')",
            "users/item/outlook/supported_time_zones_with_time_zone_standard",
        ),
    ],
)
def test_methods_that_graph_does_not_have_are_not_allowed(sim, microsoft, address, path, folder):
    """The methods are those of Microsoft's client, which is generated from the description of v1.0.

    "outlookUser resource type", https://learn.microsoft.com/graph/api/resources/outlookuser
    "user resource type", https://learn.microsoft.com/graph/api/resources/user
    "group resource type", https://learn.microsoft.com/graph/api/resources/group
    """
    user = microsoft.connect(sim, address, "MailboxSettings.ReadWrite")
    (builder,) = (GENERATED / folder).glob("*_request_builder.py")
    described = set(re.findall(r"async def (get|post|put|patch|delete)\(", builder.read_text("utf-8")))
    assert described
    for method in ("get", "post", "put", "patch", "delete"):
        answer = user.request(method.upper(), path, json={})
        assert (answer.status_code != 405) == (method in described), (method, answer.text)


def test_actions_of_beta_are_called_with_post_only(sim, microsoft, address):
    """Follows "message: markAsJunk", https://learn.microsoft.com/graph/api/message-markasjunk?view=graph-rest-beta"""
    user = microsoft.connect(sim, address, messages=1)
    path = (
        f"me/mailFolders/inbox/messages/{user.get('messages')['value'][0]['id']}/microsoft.graph.markAsJunk"
    )
    user.expect_error(501, f"{sim.http}/beta/{path}", "POST")
    user.expect_error(405, f"{sim.http}/beta/{path}", "GET")
    assert "Resource not found" in user.expect_error(400, f"/{path}", "POST")["message"]


def test_names_below_outlook_that_graph_does_not_have_get_graphs_own_error(sim, microsoft, address):
    """Follows "outlookUser resource type", of v1.0 and of beta, which has more names:

    https://learn.microsoft.com/graph/api/resources/outlookuser
    """
    user = microsoft.connect(sim, address)
    for path in ("nothing", "masterCategories/0/nothing", "taskFolders", "supportedLanguages/0/nothing"):
        assert "Resource not found" in user.expect_error(400, f"outlook/{path}")["message"]
    user.expect_error(501, f"{sim.http}/beta/me/outlook/taskFolders")


def test_parts_of_a_batch_say_it_too(sim, microsoft, address):
    user = microsoft.connect(sim, address)
    part = {"id": "1", "method": "GET", "url": "/me/presence"}
    answer = user.post("/$batch", {"requests": [part]}, 200)
    assert [response["status"] for response in answer["responses"]] == [501]


@pytest.mark.parametrize(
    "path",
    [
        "/calendar/v3/calendars/primary/events",
        "/discovery/v1/apis/gmail/v1/rest",
        "/$discovery/rest",
        "/v1/people/me",
        "/common/oauth2/authorize",
        "/common/oauth2/token",
    ],
)
def test_other_apis_of_the_providers_say_so(sim, path):
    answer = httpx2.get(f"{sim.http}{path}", trust_env=False)
    assert answer.status_code == 501
    assert answer.json()["error"].startswith(f"mailsim does not simulate GET {path}")
    assert httpx2.get(f"{sim.http}/nothing/at/all", trust_env=False).status_code == 404


def test_each_endpoint_is_logged_once(start, google, microsoft):
    sim = start("--clock", "manual")
    directory = "https://www.googleapis.com/auth/admin.directory.user.readonly"
    gmail = google.connect(sim, "a@example.com", directory)
    outlook = microsoft.connect(sim, "b@example.com", messages=2)
    for _ in range(2):
        gmail.request("GET", "/admin/directory/v1/customers")
    for message in outlook.get("messages")["value"]:
        outlook.expect_error(501, f"messages/{message['id']}/$value", "PUT")
        part = {"id": "1", "method": "GET", "url": "/me/presence"}
        outlook.post("/$batch", {"requests": [part]}, 200)
    lines = sim.process.read_output()[1].splitlines()
    assert len(lines) == 3, lines
    assert "GET /admin/directory/v1/customers" in lines[0]
    assert "PUT /v1.0/*/messages/*/$value" in lines[1]
    assert "GET /v1.0/*/presence" in lines[2]


def test_the_log_names_the_option_that_is_not_simulated(start, google, microsoft):
    """The path alone would mislead: the endpoint is simulated. Parts of Gmail's batches count too."""
    sim = start("--clock", "manual")
    outlook = microsoft.connect(sim, "b@example.com", "Mail.Read", "MailboxSettings.ReadWrite")
    rule = {"displayName": "r", "sequence": 1, "actions": {"permanentDelete": True}}
    for _ in range(2):
        outlook.expect_error(501, "mailFolders/inbox?$expand=messages")
        outlook.expect_error(501, "mailFolders/inbox?$expand=messageRules")
        outlook.expect_error(501, "messages", params={"$filter": "length(subject) gt 3"})
        outlook.expect_error(501, "mailFolders/inbox/messageRules", "POST", json=rule)
    pubsub = google.connect(sim, "c@example.com", "https://www.googleapis.com/auth/pubsub")
    for topic in ("one", "two"):
        pubsub.expect_error(501, f"/v1/projects/mailsim/topics/{topic}", "PATCH", json={})
    gmail = connect_forwarding(sim, google, "a@example.com")
    part = "Content-Type: application/http\r\n\r\nPOST /gmail/v1/users/me/settings/filters HTTP/1.1\r\n"
    part += f"Content-Type: application/json\r\n\r\n{json.dumps(FORWARDING)}"
    answer = gmail.request(
        "POST",
        "/batch/gmail/v1",
        content=f"--b\r\n{part}\r\n--b--\r\n",
        headers={"Content-Type": "multipart/mixed; boundary=b"},
    )
    assert "HTTP/1.1 501" in answer.text
    explained = [
        "GET /v1.0/*/mailFolders/inbox?$expand=messages()",
        "GET /v1.0/*/mailFolders/inbox?$expand=messageRules()",
        "'length' in $filter",
        "POST /v1.0/*/mailFolders/inbox/messageRules with permanentDelete",
        "PATCH Pub/Sub topics",
        "forwarding by a filter",
    ]
    logged = sim.process.read_output()[1].splitlines()
    assert [line.removeprefix("mailsim does not simulate ") for line in logged] == [
        f"{subject}. The provider has it." for subject in explained
    ]
