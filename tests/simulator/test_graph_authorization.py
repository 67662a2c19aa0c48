"""Authorization of Graph requests: tokens, permissions, access policies, missing mailboxes."""

import base64
import json

import pytest


@pytest.fixture
def own(sim, microsoft, address):
    return microsoft.connect(sim, address, messages=12)  # enough that some are in the inbox


def as_application(sim, microsoft, address, *roles):
    return microsoft.sign_in(sim, address, roles=roles)


@pytest.mark.parametrize(
    "header, words",
    [
        (None, "Access token is empty."),
        ("Basic abc", "Access token is empty."),
        ("Bearer abc", "CompactToken parsing failed with error code: 80049217"),
        ("Bearer a.b.c", "Access token validation failure. Invalid signature."),
    ],
)
def test_a_request_without_a_valid_token_is_unauthenticated(own, header, words):
    own.http.headers.pop("authorization")
    answer = own.request("GET", "messages", headers={"authorization": header} if header else {})
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "InvalidAuthenticationToken"
    assert answer.json()["error"]["message"] == words
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith('Bearer realm="", authorization_uri="')
    assert 'client_id="00000003-0000-0000-c000-000000000000"' in challenge  # as in "Claims challenges"


def test_errors_contain_the_request_ids(own):
    answer = own.request(
        "GET", "messages/x", headers={"client-request-id": "11111111-2222-4333-8444-555555555555"}
    )
    inner = answer.json()["error"]["innerError"]
    assert (
        inner["client-request-id"]
        == answer.headers["client-request-id"]
        == "11111111-2222-4333-8444-555555555555"
    )
    assert inner["request-id"] == answer.headers["request-id"]
    assert inner["date"] == "2026-03-02T09:00:00"


def test_a_user_is_found_by_id_address_and_me(own):
    me = own.get("/me")
    assert own.get(f"/users/{me['id']}")["userPrincipalName"] == own.address
    assert own.get(f"/users/{own.address.upper()}")["id"] == me["id"]
    assert own.get("/me", **{"$select": "id,accountEnabled"})["accountEnabled"] is True
    assert own.expect_error(404, "/users/nobody@example.com")["code"] == "Request_ResourceNotFound"
    assert own.expect_error(404, "/users/nobody@example.com/messages")["code"] == "ResourceNotFound"


def test_a_user_cannot_read_another_mailbox(sim, microsoft, own):
    other = microsoft.connect(sim, f"other-{own.address}")
    assert own.expect_error(403, f"/users/{other.address}/messages")["code"] == "ErrorAccessDenied"
    assert own.expect_error(403, f"/users/{other.address}")["code"] == "Authorization_RequestDenied"


def test_an_application_reads_every_mailbox_of_its_tenant_and_has_no_me(sim, microsoft, own):
    app = as_application(sim, microsoft, own.address, "Mail.Read")
    assert app.request("GET", f"/users/{own.address}/messages/$count").text == "12"
    assert app.expect_error(400, "/me")["code"] == "BadRequest"
    assert app.expect_error(403, f"/users/{own.address}")["code"] == "Authorization_RequestDenied"
    elsewhere = own.address.replace("example.com", "example.net")
    sim.create("outlook", elsewhere)
    assert app.expect_error(404, f"/users/{elsewhere}/messages")["code"] == "ResourceNotFound"


def test_an_access_policy_restricts_an_application(sim, microsoft, own):
    application = sim.post("applications", provider="outlook")
    app = microsoft.sign_in(sim, own.address, roles=["Mail.Read"], client_id=application["client_id"])
    where = f"microsoft/applications/{application['client_id']}"
    sim.control.patch(where, json={"mailboxes": ["somebody@example.com"]})
    error = app.expect_error(403, f"/users/{own.address}/messages")
    assert "[RAOP]" in error["message"]
    sim.control.patch(where, json={"mailboxes": [own.address]})
    assert app.get(f"/users/{own.address}/messages")["value"]


@pytest.mark.parametrize("scopes", [("User.Read",), ("Mail.Send",)])
def test_reading_mail_requires_a_mail_permission(sim, microsoft, own, scopes):
    other = microsoft.sign_in(sim, own.address, *scopes)
    assert other.expect_error(403, "messages")["code"] == "ErrorAccessDenied"
    assert other.expect_error(403, "mailFolders")["code"] == "ErrorAccessDenied"


@pytest.mark.parametrize("roles", [(), ("Mail.ReadBasic.All",)])
def test_read_basic_shows_everything_but_the_body(sim, microsoft, own, roles):
    who = microsoft.sign_in(sim, own.address, *(() if roles else ("Mail.ReadBasic",)), roles=roles)
    base = f"/users/{own.address}"
    shown = who.get(f"{base}/messages")["value"][0]
    assert {"subject", "from", "hasAttachments", "categories"} <= set(shown)
    assert not {"body", "bodyPreview", "uniqueBody", "attachments"} & set(shown)
    reported, _ = who.delta(f"{base}/mailFolders/inbox/messages/delta")
    assert all("bodyPreview" not in one and "body" not in one for one in reported)
    message = f"{base}/messages/{shown['id']}"
    for path, params in [
        (message, {"$select": "body"}), (message, {"$select": "bodyPreview"}),
        (message, {"$expand": "attachments"}), (f"{message}/$value", None), (f"{message}/attachments", None),
        (f"{base}/messages", {"$filter": "contains(bodyPreview,'a')"}),
        (f"{base}/messages", {"$search": '"a"'}),
    ]:  # fmt: skip
        assert who.expect_error(403, path, params=params)["code"] == "ErrorAccessDenied"


def test_a_read_permission_does_not_allow_writes(own):
    message = own.get("messages")["value"][0]["id"]
    for method, path, body in [
        ("PATCH", f"messages/{message}", {"isRead": True}),
        ("DELETE", f"messages/{message}", None),
        ("POST", f"messages/{message}/move", {"destinationId": "archive"}),
        ("POST", "messages", {"subject": "x"}),
        ("POST", "mailFolders", {"displayName": "x"}),
        ("POST", "sendMail", {"message": {}}),
    ]:
        assert own.expect_error(403, path, method, json=body)["code"] == "ErrorAccessDenied"


def test_a_mailbox_on_premise_is_not_reachable(sim, own):
    sim.post(f"microsoft/accounts/{own.address}", mailbox=False)
    assert own.expect_error(404, "messages")["code"] == "MailboxNotEnabledForRESTAPI"
    assert own.get("/me")["mail"] == own.address
    sim.post(f"microsoft/accounts/{own.address}", mailbox=True)
    assert own.get("messages")["value"]


def test_access_tokens_can_be_expired(sim, microsoft, own):
    assert sim.post(f"mailboxes/{own.address}/expire-tokens")["count"] >= 1
    assert own.expect_error(401, "messages")["code"] == "InvalidAuthenticationToken"
    assert microsoft.sign_in(sim, own.address).get("messages")["value"]


def test_continuous_access_evaluation_requires_another_sign_in(sim, microsoft, own):
    sim.post(f"microsoft/accounts/{own.address}", challenge=True)
    answer = own.request("GET", "messages")
    assert answer.status_code == 401
    challenge = answer.headers["www-authenticate"]
    assert 'error="insufficient_claims"' in challenge
    claims = json.loads(base64.b64decode(challenge.partition('claims="')[2].partition('"')[0]))
    assert claims["access_token"]["nbf"]["essential"] is True
    assert microsoft.sign_in(sim, own.address).get("messages")["value"]


def test_paths_ignore_case_and_unknown_segments_are_refused(own):
    assert own.get("/ME/MailFolders/INBOX/Messages")["value"]
    assert own.get("/me/mailFolders('inbox')/messages/microsoft.graph.delta()")["value"]
    for path in ("/me/nothing", "/me/messages/a/b/c", "/me/mailFolders/inbox/messages/x/y"):
        assert own.expect_error(400, path)["code"] == "BadRequest"
    assert own.expect_error(405, "messages", "PUT")["code"] == "Request_BadRequest"
    assert own.request("HEAD", "messages").status_code == 405
