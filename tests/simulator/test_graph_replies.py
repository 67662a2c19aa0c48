"""Replies and forwards over Graph, as drafts and sent at once."""

import base64
from email.message import EmailMessage

import pytest


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address, "Mail.ReadWrite", "Mail.Send")


@pytest.fixture
def ann(sim, microsoft, address):
    return microsoft.connect(sim, f"ann-{address}")


def deliver(user, ann, **headers):
    made = EmailMessage()
    made["From"], made["To"] = f"Ann <{ann.address}>", f"{user.address}, Cy <cy@example.org>"
    made["Cc"], made["Subject"] = "dora@example.org", headers.pop("subject", "Offer")
    made["Message-ID"], made["References"] = "<offer@example.org>", "<first@example.org>"
    for name, value in headers.items():
        made[name.replace("_", "-")] = value
    made.set_content("100 <euros>")
    made.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="Offer.pdf")
    return f"messages/{user.simulation.deliver(user.address, made.as_bytes())['id']}"


def addresses(people):
    return [person["emailAddress"]["address"] for person in people]


def test_a_reply_draft_quotes_the_original_in_the_same_conversation(user, ann):
    """Documented in message: createReply."""
    path = deliver(user, ann)
    draft = user.post(f"{path}/createReply", {"comment": "Too <much>\nAnn"})
    original = user.get(path)
    assert (draft["isDraft"], draft["subject"]) == (True, "RE: Offer")
    assert draft["conversationId"] == original["conversationId"]
    assert addresses(draft["toRecipients"]) == [ann.address]
    assert draft["ccRecipients"] == []
    content = draft["body"]["content"]
    assert content.index("Too &lt;much&gt;<br>") < content.index(">From:</b> Ann &lt;ann-")
    assert "100 &lt;euros&gt;" in content
    assert draft["hasAttachments"] is False
    headers = user.get(f"messages/{draft['id']}", **{"$select": "internetMessageHeaders,uniqueBody"})
    named = {header["name"]: header["value"] for header in headers["internetMessageHeaders"]}
    assert named["In-Reply-To"] == "<offer@example.org>"
    assert named["References"] == "<first@example.org> <offer@example.org>"
    assert "euros" not in headers["uniqueBody"]["content"]
    again = user.post(f"messages/{draft['id']}/microsoft.graph.createReply")
    assert again["subject"] == "RE: Offer"


def test_a_reply_goes_to_reply_to_if_the_original_has_it(user, ann):
    """Documented in message: createReply, after RFC 2822."""
    path = deliver(user, ann, Reply_To="desk@example.org")
    assert addresses(user.post(f"{path}/createReply")["toRecipients"]) == ["desk@example.org"]


def test_a_reply_to_all_leaves_out_its_author(user, ann):
    """Documented in message: createReplyAll."""
    draft = user.post(f"mailFolders/inbox/{deliver(user, ann)}/createReplyAll", {"Comment": "Hi"})
    assert addresses(draft["toRecipients"]) == [ann.address]
    assert addresses(draft["ccRecipients"]) == ["cy@example.org", "dora@example.org"]


def test_a_forward_carries_the_attachments(user, ann):
    """Documented in message: createForward."""
    path = deliver(user, ann, subject="fw: Offer")
    person = {"emailAddress": {"address": "eve@example.org"}}
    draft = user.post(f"{path}/createForward", {"toRecipients": [person], "comment": "See"})
    assert (draft["subject"], draft["hasAttachments"]) == ("fw: Offer", True)
    assert addresses(draft["toRecipients"]) == ["eve@example.org"]
    (file,) = user.get(f"messages/{draft['id']}/attachments")["value"]
    assert (file["name"], base64.b64decode(file["contentBytes"])) == ("Offer.pdf", b"%PDF")
    empty = user.post(f"{path}/createForward")
    assert empty["toRecipients"] == []


def test_a_new_body_keeps_the_attachments_of_a_draft(user, ann):
    """Documented in message: update."""
    draft = f"messages/{user.post(f'{deliver(user, ann)}/createForward')['id']}"
    body = {"contentType": "text", "content": "Only this"}
    changed = user.request("PATCH", draft, json={"body": body, "subject": "New"}).json()
    assert (changed["subject"], changed["bodyPreview"]) == ("New", "Only this")
    (file,) = user.get(f"{draft}/attachments")["value"]
    assert base64.b64decode(file["contentBytes"]) == b"%PDF"


@pytest.mark.parametrize("action", ["reply", "replyAll", "forward"])
def test_an_answer_is_sent_at_once_and_saved(user, ann, action):
    """Documented in message: reply, replyAll and forward."""
    person = {"emailAddress": {"address": ann.address}}
    order = {"comment": "Yes"} | ({"toRecipients": [person]} if action == "forward" else {})
    answer = user.request("POST", f"{deliver(user, ann)}/{action}", json=order)
    assert (answer.status_code, answer.content) == (202, b"")
    (received,) = ann.get("messages")["value"]
    assert received["subject"] in {"RE: Offer", "FW: Offer"}
    assert received["bodyPreview"].startswith("Yes")
    (sent,) = user.get("mailFolders/sentitems/messages")["value"]
    assert sent["internetMessageId"] == received["internetMessageId"]
    assert user.get("mailFolders/drafts/messages")["value"] == []


def test_the_message_parameter_changes_the_answer(user, ann):
    body = {"contentType": "text", "content": "Mine"}
    changes = {"subject": "Other", "body": body, "ccRecipients": [], "importance": "high"}
    draft = user.post(f"{deliver(user, ann)}/createReplyAll", {"message": changes})
    assert (draft["subject"], draft["bodyPreview"], draft["importance"]) == ("Other", "Mine", "high")
    assert draft["ccRecipients"] == []


def test_an_answer_is_given_as_mime(user, ann):
    """Documented in message: reply, example 3."""
    raw = f"To: {ann.address}\r\nSubject: Mine\r\n\r\nText\r\n".encode()
    mime = {"content": base64.b64encode(raw), "headers": {"content-type": "text/plain"}}
    path = deliver(user, ann)
    assert user.request("POST", f"{path}/reply", **mime).status_code == 202
    assert [one["subject"] for one in ann.get("messages")["value"]] == ["Mine"]
    draft = user.request("POST", f"{path}/createReply", **mime)
    assert (draft.status_code, draft.json()["subject"]) == (201, "Mine")


def test_contradicting_parameters_are_refused(user, ann):
    """Documented in message: reply and message: forward."""
    path = deliver(user, ann)
    people = [{"emailAddress": {"address": "eve@example.org"}}]
    body = {"contentType": "text", "content": "x"}
    refused = [
        ("reply", {"comment": "x", "message": {"body": body}}),
        ("createForward", {"comment": "x", "message": {"body": body}}),
        ("forward", {"toRecipients": people, "message": {"toRecipients": people}}),
        ("forward", {"comment": "to no one"}),
        ("reply", {"message": 5}),
        ("reply", {"comment": 5}),
        ("createReply", {"message": {"receivedDateTime": "2026-01-01T00:00:00Z"}}),
    ]
    for action, order in refused:
        user.expect_error(400, f"{path}/{action}", "POST", json=order)
    assert user.get("mailFolders/sentitems/messages")["value"] == []


def test_answers_need_the_documented_permissions(sim, microsoft, user, ann):
    """Documented in message: reply (Mail.Send) and message: createReply (Mail.ReadWrite)."""
    path = deliver(user, ann)
    sender = microsoft.sign_in(sim, user.address, "Mail.Send")
    assert sender.request("POST", f"{path}/reply", json={"comment": "x"}).status_code == 202
    sender.expect_error(403, f"{path}/createReply", "POST")
    microsoft.sign_in(sim, user.address, "Mail.ReadWrite").expect_error(403, f"{path}/reply", "POST")


def test_every_kind_of_mail_can_be_answered_and_forwarded(sim, user):
    kinds = sim.get("")["kinds"]
    for kind in kinds:
        path = f"messages/{sim.deliver(user.address, kind=kind)['id']}"
        forwarded = user.post(f"{path}/createForward")
        wanted = [one["name"] for one in user.get(f"{path}/attachments")["value"]]
        assert [one["name"] for one in user.get(f"messages/{forwarded['id']}/attachments")["value"]] == wanted
        user.post(f"{path}/createReplyAll")
