"""Gmail's settings: aliases, forwarding, delegates, vacation, IMAP, POP and language.

Follows the discovery document `gmail:v1`, whose descriptions say which methods are restricted to service
accounts, and "Managing email settings" (developers.google.com/workspace/gmail/api/guides).
"""

import base64
import time

import httpx2
import jwt
import pytest

from simulator import conformance_google
from simulator.google_user import MODIFY, READONLY, SCOPE, GoogleUser, make_message

BASIC, SHARING = SCOPE + "settings.basic", SCOPE + "settings.sharing"
DENIED = "Access restricted to service accounts that have been delegated domain-wide authority"


@pytest.fixture
def user(sim, google, address):
    return google.connect(sim, address, BASIC, SHARING, name="Ada Lovelace")


@pytest.fixture
def delegated(sim, user):
    """The same mailbox, opened by a service account."""
    key = sim.post("google/service-accounts", name="settings")
    delegation = {"client_id": key["client_id"], "domain": "example.com", "scopes": [BASIC, SHARING]}
    sim.post("google/delegations", **delegation)
    now = int(time.time())
    claims = {"iss": key["client_email"], "sub": user.address, "scope": f"{BASIC} {SHARING}", "iat": now}
    claims |= {"exp": now + 600, "aud": key["token_uri"]}
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": jwt.encode(claims, key["private_key"], algorithm="RS256"),
    }
    with httpx2.Client(base_url=sim.http, trust_env=False) as http:
        tokens = http.post("/token", data=form).json()
        http.headers["authorization"] = f"Bearer {tokens['access_token']}"
        yield GoogleUser(sim, user.address, tokens, http)


def put(user, path, **body):
    answer = user.request("PUT", f"settings/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    "name, body",
    [
        ("imap", {"enabled": False, "expungeBehavior": "trash", "maxFolderSize": 1000}),
        ("pop", {"accessWindow": "allMail", "disposition": "archive"}),
        ("language", {"displayLanguage": "de"}),
        ("vacation", {"enableAutoReply": True, "responseSubject": "Away", "startTime": "1", "endTime": "2"}),
    ],
)
def test_a_setting_is_replaced_and_read_back(user, name, body):
    before = user.get(f"settings/{name}")
    assert before != before | body
    assert put(user, name, **body) == user.get(f"settings/{name}") == before | body


def test_times_of_the_vacation_may_be_numbers(user):
    vacation = {"enableAutoReply": True, "responseBodyPlainText": "Away", "startTime": 1_700_000_000_000}
    assert put(user, "vacation", **vacation)["startTime"] == "1700000000000"


@pytest.mark.parametrize(
    "name, body",
    [
        ("imap", {"expungeBehavior": "shred"}),
        ("imap", {"maxFolderSize": 3}),
        ("imap", {"enabled": "yes"}),
        ("pop", {"accessWindow": "sometimes"}),
        ("language", {}),
        ("vacation", {"enableAutoReply": True}),
        ("vacation", {"startTime": "soon"}),
        ("vacation", {"startTime": "2", "endTime": "1"}),
        ("vacation", {"colour": "red"}),
    ],
)
def test_invalid_settings_are_rejected_and_change_nothing(user, name, body):
    before = user.get(f"settings/{name}")
    user.expect_error(400, f"settings/{name}", "PUT", json=body)
    assert user.get(f"settings/{name}") == before


def test_the_primary_alias_is_the_address_and_its_signature_can_be_changed(user):
    [primary] = user.get("settings/sendAs")["sendAs"]
    assert (primary["sendAsEmail"], primary["displayName"]) == (user.address, "Ada Lovelace")
    assert (primary["isPrimary"], primary["isDefault"]) == (True, True)
    path = f"settings/sendAs/{user.address}"
    changed = user.request("PATCH", path, json={"signature": "<b>Ada</b>"}).json()
    assert changed == user.get(path) == primary | {"signature": "<b>Ada</b>"}
    user.expect_error(404, "settings/sendAs/other@example.com")


def read_sender(user, sent):
    shown = user.get(f"messages/{sent['id']}", format="metadata", metadataHeaders="From")
    [header] = shown["payload"]["headers"]
    return header["value"]


def test_only_verified_aliases_are_kept_as_the_sender(sim, google, delegated):
    """Documented in the resource SendAs and in "Manage aliases and signatures with the Gmail API".

    Gmail sends from the account's primary address otherwise, and drops the given display name:
    "Add an example setting the from field?", https://github.com/r-lib/gmailr/issues/134
    """
    delegated.post("settings/sendAs", {"sendAsEmail": "sales@example.com"})
    delegated.post("settings/sendAs", {"sendAsEmail": "ada@elsewhere.example"})
    user = google.sign_in(sim, delegated.address, MODIFY)
    own = user.address
    for given, expected in (
        ("Sales <Sales@example.com>", "Sales <Sales@example.com>"),
        (f"Ada <{own}>", f"Ada <{own}>"),
        ("Ada <ada@elsewhere.example>", f"Ada Lovelace <{own}>"),
        ("boss@example.org", f"Ada Lovelace <{own}>"),
        (f"{own}, boss@example.org", f"Ada Lovelace <{own}>"),
        ("Boss\r\n <boss@example.org>", f"Ada Lovelace <{own}>"),
        ("", f"Ada Lovelace <{own}>"),
    ):
        raw = make_message(From=given)
        message = {"raw": base64.urlsafe_b64encode(raw).decode()}
        sent = user.post("messages/send", message)
        assert read_sender(user, sent) == expected
        assert user.raw(sent["id"]).count(b"From:") == 1
        draft = user.post("drafts", {"message": message})
        assert read_sender(user, draft["message"]) == " ".join(given.split())
        assert read_sender(user, user.post("drafts/send", {"id": draft["id"]})) == expected


def test_a_service_account_manages_aliases(delegated):
    alias = {"sendAsEmail": "sales@example.com", "displayName": "Sales", "isDefault": True}
    server = {"host": "smtp.example.com", "port": 587, "password": "secret", "securityMode": "starttls"}
    created = delegated.post("settings/sendAs", alias | {"smtpMsa": server})
    assert created["verificationStatus"] == "accepted"
    assert "password" not in created["smtpMsa"]
    assert [entry.get("isDefault", False) for entry in delegated.get("settings/sendAs")["sendAs"]] == [
        False,
        True,
    ]
    delegated.expect_error(400, "settings/sendAs", "POST", json=alias)
    changed = delegated.request("PUT", "settings/sendAs/sales@example.com", json={"displayName": "Shop"})
    assert changed.json()["displayName"] == "Shop"
    delegated.post("settings/sendAs", {"sendAsEmail": "ada@elsewhere.example"})
    assert delegated.request("POST", "settings/sendAs/ada@elsewhere.example/verify").status_code == 204
    delegated.expect_error(400, "settings/sendAs/sales@example.com/verify", "POST")
    assert delegated.request("DELETE", "settings/sendAs/sales@example.com").status_code == 204
    delegated.expect_error(400, f"settings/sendAs/{delegated.address}", "DELETE")
    assert len(delegated.get("settings/sendAs")["sendAs"]) == 2


def test_forwarding_needs_a_verified_address(delegated):
    target, pending = "archive@example.com", "ada@elsewhere.example"
    delegated.expect_error(
        400, "settings/autoForwarding", "PUT", json={"enabled": True, "emailAddress": target}
    )
    for address, status in ((target, "accepted"), (pending, "pending")):
        created = delegated.post("settings/forwardingAddresses", {"forwardingEmail": address})
        assert created == {"forwardingEmail": address, "verificationStatus": status}
        assert delegated.get(f"settings/forwardingAddresses/{address}") == created
    assert len(delegated.get("settings/forwardingAddresses")["forwardingAddresses"]) == 2
    forwarding = {"enabled": True, "emailAddress": target, "disposition": "markRead"}
    delegated.expect_error(400, "settings/autoForwarding", "PUT", json=forwarding | {"emailAddress": pending})
    assert put(delegated, "autoForwarding", **forwarding) == forwarding
    assert delegated.request("DELETE", f"settings/forwardingAddresses/{target}").status_code == 204
    assert delegated.get("settings/autoForwarding") == {"enabled": False}


def test_delegates_are_users_of_the_same_workspace(sim, delegated):
    colleague = f"colleague-of-{delegated.address}"
    sim.create("gmail", colleague)
    assert delegated.get("settings/delegates") == {}
    created = delegated.post("settings/delegates", {"delegateEmail": colleague})
    assert delegated.get("settings/delegates") == {"delegates": [created]}
    for wrong in ("missing@example.com", colleague, "nonsense"):
        delegated.expect_error(400, "settings/delegates", "POST", json={"delegateEmail": wrong})
    assert delegated.request("DELETE", f"settings/delegates/{colleague}").status_code == 204
    delegated.expect_error(404, f"settings/delegates/{colleague}")


def test_methods_that_google_restricts_to_service_accounts_reject_others(user):
    methods = conformance_google.list_methods()
    restricted = {
        name: method
        for name, method in methods.items()
        if "This method is only available to service account clients" in method["description"]
    }
    assert len(restricted) == 10
    for method in restricted.values():
        path = method["path"].removeprefix("gmail/v1/users/{userId}/")
        for name in ("sendAsEmail", "forwardingEmail", "delegateEmail"):
            path = path.replace(f"{{{name}}}", user.address)
        error = user.expect_error(403, path, method["httpMethod"], json={} if "request" in method else None)
        assert error["message"] == DENIED, path


def test_reading_mail_does_not_allow_changes_of_settings(sim, google, address):
    reader = google.connect(sim, address, READONLY)
    assert reader.get("settings/language") == {"displayLanguage": "en"}
    error = reader.expect_error(403, "settings/language", "PUT", json={"displayLanguage": "de"})
    assert error["details"][0]["reason"] == "ACCESS_TOKEN_SCOPE_INSUFFICIENT"
