"""Changes of messages over Graph: updates, moves, copies, drafts, sending, deleting."""

import base64

import pytest

from simulator.microsoft_user import IMMUTABLE


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address, "Mail.ReadWrite", "Mail.Send", messages=3, spread=False)


@pytest.fixture
def message(user):
    return f"messages/{user.get('messages', IMMUTABLE)['value'][0]['id']}"


def truth(user, path):
    found = [one for one in user.simulation.truth(user.address) if path.endswith(one["id"])]
    return found[0] if found else None


def test_updates_change_the_state_and_the_change_key(user, message):
    before = user.get(message)
    wanted = {"isRead": True, "flag": {"flagStatus": "complete"}, "categories": ["Red"], "importance": "low"}
    after = user.request("PATCH", message, json=wanted).json()
    assert (after["isRead"], after["flag"]["flagStatus"], after["categories"]) == (True, "complete", ["Red"])
    assert after["changeKey"] != before["changeKey"]
    true = truth(user, message)
    assert (true["read"], true["flag"], true["importance"]) == (True, "complete", "low")


def test_read_only_properties_are_refused(user, message):
    refusals = [
        {"receivedDateTime": "2026-01-01T00:00:00Z"}, {"subject": "x"}, {"nothing": 1}, {"isRead": "yes"},
        {"flag": {"flagStatus": "purple"}}, {"categories": "Red"}, {"importance": "huge"},
    ]  # fmt: skip
    for body in refusals:
        user.expect_error(400, message, "PATCH", json=body)
    user.expect_error(400, message, "PATCH", content=b"{", headers={"content-type": "application/json"})


def test_a_wrong_etag_is_a_conflict(user, message):
    etag = user.get(message)["@odata.etag"]
    assert (
        user.request("PATCH", message, json={"isRead": True}, headers={"if-match": etag}).status_code == 200
    )
    error = user.expect_error(412, message, "PATCH", json={"isRead": False}, headers={"if-match": etag})
    assert error["code"] == "ErrorIrresolvableConflict"


def test_copying_keeps_the_original_and_duplicates_the_bytes(user, message):
    copied = user.post(f"{message}/copy", {"destinationId": "archive"}, headers=IMMUTABLE)
    assert not message.endswith(copied["id"])
    assert truth(user, message)["keys"] == ["inbox"]
    assert truth(user, copied["id"])["sha256"] == truth(user, message)["sha256"]
    user.expect_error(400, f"{message}/copy", "POST", json={})
    user.expect_error(404, f"{message}/move", "POST", json={"destinationId": "conflicts"})


def test_deleting_is_permanent(user, message):
    assert user.request("DELETE", message).status_code == 204
    assert user.expect_error(404, message)["code"] == "ErrorItemNotFound"
    assert truth(user, message) is None


def test_a_draft_is_created_edited_and_sent_to_simulated_recipients(sim, microsoft, user):
    other = microsoft.connect(sim, f"other-{user.address}")
    draft = user.post(
        "messages",
        {
            "subject": "Grüße",
            "body": {"contentType": "html", "content": "<p>Hallo</p>"},
            "toRecipients": [{"emailAddress": {"name": "Other, One", "address": other.address}}],
        },
    )
    assert (draft["isDraft"], draft["subject"]) == (True, "Grüße")
    assert draft["parentFolderId"] == user.get("mailFolders/drafts")["id"]
    path = f"messages/{draft['id']}"
    edited = user.request("PATCH", path, json={"subject": "Andere Grüße"}).json()
    assert edited["subject"] == "Andere Grüße"
    assert "Hallo" in edited["body"]["content"]
    assert user.request("POST", f"{path}/send").status_code == 202
    (sent,) = user.get("mailFolders/sentitems/messages")["value"]
    assert (sent["isDraft"], sent["subject"]) == (False, "Andere Grüße")
    (received,) = other.get("messages")["value"]
    assert received["toRecipients"][0]["emailAddress"] == {"name": "Other, One", "address": other.address}


def test_mail_is_sent_at_once_from_json_and_from_mime(sim, microsoft, user):
    other = microsoft.connect(sim, f"other-{user.address}")
    attachment = {
        "@odata.type": "#microsoft.graph.fileAttachment",
        "name": "a.pdf",
        "contentType": "application/pdf",
        "contentBytes": base64.b64encode(b"%PDF").decode(),
    }
    wanted = {
        "subject": "One",
        "toRecipients": [{"emailAddress": {"address": other.address}}],
        "attachments": [attachment],
    }
    assert (
        user.request("POST", "sendMail", json={"message": wanted, "saveToSentItems": False}).status_code
        == 202
    )
    raw = f"To: {other.address}\r\nFrom: {user.address}\r\nSubject: Two\r\n\r\nText\r\n".encode()
    mime = user.request(
        "POST", "sendMail", content=base64.b64encode(raw), headers={"content-type": "text/plain"}
    )
    assert mime.status_code == 202
    two, one = other.get("messages", **{"$expand": "attachments"})["value"]
    assert (one["subject"], two["subject"]) == ("One", "Two")
    assert base64.b64decode(one["attachments"][0]["contentBytes"]) == b"%PDF"
    assert other.request("GET", f"messages/{two['id']}/$value").content == raw
    assert [sent["subject"] for sent in user.get("mailFolders/sentitems/messages")["value"]] == ["Two"]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"message": 5}, {"message": {}}, {"message": {"toRecipients": "x"}},
        {"message": {"toRecipients": [{"emailAddress": {"address": "not an address"}}]}},
        {"message": {"toRecipients": [{"emailAddress": {"address": "a@example.com"}}], "body": 7}},
        {"message": {"toRecipients": [{"emailAddress": {"address": "a@example.com"}}], "attachments": [7]}},
        {"message": {"toRecipients": [{"emailAddress": {"address": "a@example.com", "name": 5}}]}},
        {"message": {"toRecipients": [{"emailAddress": {"address": "a@example.com"}}], "subject": 9}},
    ],
)  # fmt: skip
def test_mail_that_cannot_be_composed_is_refused(user, body):
    user.expect_error(400, "sendMail", "POST", json=body)
