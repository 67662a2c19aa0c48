"""Changes of messages over Graph: updates, moves, copies, drafts, sending, deleting."""

import base64

import pytest

from simulator.google_user import make_message
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


def test_the_inbox_part_of_a_message_can_be_changed(user, message):
    """Follows "Update message", https://learn.microsoft.com/graph/api/message-update

    "Manage Focused Inbox", https://learn.microsoft.com/graph/api/resources/manage-focused-inbox
    """
    before = user.get(message)["inferenceClassification"]
    _, link = user.delta("mailFolders/inbox/messages/delta")
    wanted = "other" if before == "focused" else "focused"
    changed = user.request("PATCH", message, json={"inferenceClassification": wanted}).json()
    assert changed["inferenceClassification"] == user.get(message)["inferenceClassification"] == wanted
    ((entry,), _) = user.delta(link)
    assert entry["inferenceClassification"] == wanted
    user.expect_error(400, message, "PATCH", json={"inferenceClassification": "urgent"})


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


def test_permanent_deletion_leaves_nothing(user, message):
    user.post(f"{message}/permanentDelete", status=204)
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
    assert other.request("GET", f"messages/{two['id']}/$value").content.endswith(raw)
    assert [sent["subject"] for sent in user.get("mailFolders/sentitems/messages")["value"]] == ["Two"]


def _to(address, **more):
    return {"subject": "Hi", "toRecipients": [{"emailAddress": {"address": address}}]} | more


def test_only_the_sender_sees_the_bcc_recipients(sim, microsoft, user):
    """RFC 5322, section 3.6.3.

    "user: sendMail", https://learn.microsoft.com/graph/api/user-sendmail
    """
    open_, hidden = (microsoft.connect(sim, f"{name}-{user.address}") for name in ("open", "hidden"))
    bcc = [{"emailAddress": {"address": hidden.address}}]
    assert (
        user.request("POST", "sendMail", json={"message": _to(open_.address, bccRecipients=bcc)}).status_code
        == 202
    )
    draft = user.post("messages", _to(open_.address, bccRecipients=bcc))
    assert user.request("POST", f"messages/{draft['id']}/send").status_code == 202
    head = f"To: {open_.address}\nbcc: a@example.org,\n {hidden.address}\nSubject: Hi\n"
    raw = f"{head}\nBcc: in the text\n".encode()
    sent = user.request(
        "POST", "sendMail", content=base64.b64encode(raw), headers={"content-type": "text/plain"}
    )
    assert sent.status_code == 202
    for reader in (open_, hidden):
        received = reader.get("messages")["value"]
        assert [message["bccRecipients"] for message in received] == [[], [], []]
        mime = reader.request("GET", f"messages/{received[0]['id']}/$value").content
        assert b"bcc:" not in mime
        assert mime.endswith(b"Subject: Hi\n\nBcc: in the text\n")
    for message in user.get("mailFolders/sentitems/messages")["value"]:
        assert message["bccRecipients"][-1]["emailAddress"]["address"] == hidden.address


def test_sent_mime_gets_the_headers_it_lacks(sim, microsoft, user):
    """Follows "Send Outlook messages using MIME format", https://learn.microsoft.com/graph/outlook-send-mime-message"""
    other = microsoft.connect(sim, f"other-{user.address}")
    raw = base64.b64encode(f"To: {other.address}\r\n\r\nText".encode())
    assert (
        user.request("POST", "sendMail", content=raw, headers={"content-type": "text/plain"}).status_code
        == 202
    )
    (message,) = other.get("messages")["value"]
    assert message["from"]["emailAddress"]["address"] == user.address
    assert message["internetMessageId"]
    (sent,) = user.get("mailFolders/sentitems/messages")["value"]
    assert sent["internetMessageId"] == message["internetMessageId"]


def test_custom_headers_receipts_and_importance_are_sent(sim, microsoft, user):
    """Follows "message resource type", https://learn.microsoft.com/graph/api/resources/message

    "user: sendMail", https://learn.microsoft.com/graph/api/user-sendmail
    """
    other = microsoft.connect(sim, f"other-{user.address}")
    more = {
        "internetMessageHeaders": [{"name": "x-custom", "value": "one"}, {"name": "X-Two", "value": "zwölf"}],
        "isReadReceiptRequested": True,
        "isDeliveryReceiptRequested": True,
        "importance": "high",
        "internetMessageId": "<mine@example.com>",
    }
    assert user.request("POST", "sendMail", json={"message": _to(other.address, **more)}).status_code == 202
    draft = user.post("messages", _to(other.address, **more))
    assert user.request("POST", f"messages/{draft['id']}/send").status_code == 202
    for message in other.get("messages", **{"$select": ",".join(more)})["value"]:
        headers = {header["name"]: header["value"] for header in message.pop("internetMessageHeaders")}
        assert headers["x-custom"] == "one"
        assert "X-Two" in headers
        assert {name: message[name] for name in more if name in message} == {
            name: value for name, value in more.items() if name != "internetMessageHeaders"
        }


@pytest.mark.parametrize(
    "headers, code",
    [
        ([{"name": "In-Reply-To", "value": "<a@example.com>"}], "InvalidInternetMessageHeader"),
        ([{"name": f"x-{n}", "value": "1"} for n in range(6)], "InvalidInternetMessageHeaderCollection"),
        ([7], "ErrorInvalidRequest"),
        ([{"name": "x-a\r\nBcc", "value": "1"}], "ErrorInvalidRequest"),
    ],
)
def test_invalid_custom_headers_are_refused(user, headers, code):
    message = _to("a@example.com", internetMessageHeaders=headers)
    assert user.expect_error(400, "sendMail", "POST", json={"message": message})["code"] == code
    assert user.expect_error(400, "messages", "POST", json=message)["code"] == code


def test_drafts_accept_the_documented_properties_in_updates(user):
    """Follows "Update message", https://learn.microsoft.com/graph/api/message-update"""
    path = f"messages/{user.post('messages', _to('a@example.com', importance='high'))['id']}"
    wanted = {"isReadReceiptRequested": True, "internetMessageId": "<x@example.com>", "importance": "normal"}
    assert user.request("PATCH", path, json=wanted).status_code == 200
    assert {name: user.get(path)[name] for name in wanted} == wanted
    user.expect_error(400, path, "PATCH", json={"internetMessageId": "no brackets"})


def test_names_of_properties_are_case_sensitive(user):
    """Nothing is dropped: https://github.com/microsoftgraph/microsoft-graph-docs/issues/37"""
    for path in ("messages", "sendMail", "messages/{}"):
        body = {**_to("a@example.com"), "Subject": "Dropped"}
        if path == "sendMail":
            body = {"message": body}
        draft = user.post("messages", {})["id"]
        method = "PATCH" if "{" in path else "POST"
        error = user.expect_error(400, path.format(draft), method, json=body)
        assert error["code"] == "RequestBodyRead"
        assert "'Subject' does not exist" in error["message"]


def test_sending_as_someone_else_is_denied(sim, microsoft, user):
    """Follows "Send Outlook messages from another user",
    https://learn.microsoft.com/graph/outlook-send-mail-from-other-user
    """
    other = microsoft.connect(sim, f"other-{user.address}")
    foreign = {"emailAddress": {"address": "chief@example.com"}}
    for name in ("from", "sender"):
        message = _to(other.address, **{name: foreign})
        error = user.expect_error(403, "sendMail", "POST", json={"message": message})
        assert error["code"] == "ErrorSendAsDenied"
    draft = user.post("messages", _to(other.address, **{"from": foreign}))
    user.expect_error(403, f"messages/{draft['id']}/send", "POST")
    mime = base64.b64encode(f"From: chief@example.com\r\nTo: {other.address}\r\n\r\nx".encode())
    user.expect_error(403, "sendMail", "POST", content=mime, headers={"content-type": "text/plain"})
    own = {"emailAddress": {"address": user.address.upper()}}
    sent = user.request("POST", "sendMail", json={"message": _to(other.address, **{"from": own})})
    assert sent.status_code == 202
    assert len(other.get("messages")["value"]) == 1


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


@pytest.mark.parametrize(
    "fields, name, kind",
    [
        ({"subjekt": "x"}, "subjekt", "message"),
        ({"OdataType": "#microsoft.graph.message"}, "OdataType", "message"),
        (
            {"toRecipients": [{"name": "Ann", "emailAddress": {"address": "a@example.org"}}]},
            "name",
            "recipient",
        ),
        ({"from": {"emailAddress": {"mail": "a@example.org"}}}, "mail", "emailAddress"),
    ],
)
def test_properties_that_a_message_does_not_have_are_refused(sim, microsoft, address, fields, name, kind):
    """Sending refuses them as creating does, with the error that Graph's users report:

    "The property 'OdataType' does not exist", https://github.com/microsoftgraph/msgraph-sdk-python/issues/440
    "The property 'name' does not exist", https://github.com/microsoftgraph/msgraph-sdk-python/issues/313
    """
    user = microsoft.connect(sim, address, "Mail.ReadWrite", "Mail.Send")
    sim.deliver(address, make_message())
    draft = user.post("messages", {"subject": "Draft"})["id"]
    reply = f"messages/{user.get('mailFolders/inbox/messages')['value'][0]['id']}/reply"
    for method, path, body in (
        ("POST", "messages", fields),
        ("PATCH", f"messages/{draft}", fields),
        ("POST", "sendMail", {"message": fields}),
        ("POST", reply, {"message": fields}),
    ):
        error = user.expect_error(400, path, method, json=body)
        assert error["code"] == "RequestBodyRead"
        assert error["message"].startswith(
            f"The property '{name}' does not exist on type 'microsoft.graph.{kind}'"
        )
    assert user.get("mailFolders/sentitems/messages")["value"] == []


@pytest.mark.parametrize("action", ["sendMail", "reply"])
def test_the_sent_copy_has_the_properties_that_its_sender_set(sim, microsoft, address, action):
    """Follows "user: sendMail", https://learn.microsoft.com/graph/api/user-sendmail

    "message: reply", https://learn.microsoft.com/graph/api/message-reply
    """
    user = microsoft.connect(sim, address, "Mail.ReadWrite", "Mail.Send")
    sim.deliver(address, make_message())
    other = microsoft.connect(sim, f"other.{address}")
    message = {
        "subject": "Offer",
        "toRecipients": [{"emailAddress": {"address": other.address}}],
        "categories": ["Sales"],
        "flag": {"flagStatus": "flagged"},
    }
    path = action if action == "sendMail" else f"messages/{user.get('messages')['value'][0]['id']}/{action}"
    user.post(path, {"message": message}, 202)
    [sent] = user.get("mailFolders/sentitems/messages")["value"]
    assert (sent["categories"], sent["flag"]["flagStatus"], sent["isRead"]) == (["Sales"], "flagged", True)
    [arrived] = other.get("messages")["value"]
    assert (arrived["categories"], arrived["flag"]["flagStatus"]) == ([], "notFlagged")


@pytest.mark.parametrize("text", ["@", "<>", "a@", "a@b@c", "[", '"', "a b", "@[", "", "(", "a@[:"])
def test_a_malformed_address_is_refused(sim, microsoft, address, text):
    """Follows "Microsoft Graph error responses", https://learn.microsoft.com/graph/errors"""
    user = microsoft.connect(sim, address, "Mail.ReadWrite", "Mail.Send", "MailboxSettings.ReadWrite")
    person = {"emailAddress": {"name": "Ann", "address": text}}
    for path, body in (
        ("sendMail", {"message": {"toRecipients": [person]}}),
        ("messages", {"from": person}),
        (
            "inferenceClassification/overrides",
            {"classifyAs": "other", "senderEmailAddress": {"address": text}},
        ),
    ):
        assert user.request("POST", path, json=body).status_code == 400
