"""Messages over Graph: JSON built from real bytes, pages, query options, bodies."""

import base64
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from typing import Any

import pytest

from simulator.driver import Simulation
from simulator.microsoft_user import IMMUTABLE, MicrosoftUser, MicrosoftUsers

DEFAULT = {
    "@odata.etag", "id", "createdDateTime", "lastModifiedDateTime", "changeKey", "categories",
    "receivedDateTime", "sentDateTime", "hasAttachments", "internetMessageId", "subject", "bodyPreview",
    "importance", "parentFolderId", "conversationId", "conversationIndex", "isDeliveryReceiptRequested",
    "isReadReceiptRequested", "isRead", "isDraft", "webLink", "inferenceClassification", "body", "sender",
    "from", "toRecipients", "ccRecipients", "bccRecipients", "replyTo", "flag",
}  # fmt: skip
FRONT_OFFICE = {"emailAddress": {"name": "desk@example.org", "address": "desk@example.org"}}


def message_bytes(html: str | None = None, text: str | None = None, **headers: str) -> bytes:
    """Return a message with these headers; underscores become hyphens."""
    message = EmailMessage()
    message["From"] = "Ann Example <ann@example.org>"
    message["To"] = '"Doe, Jane" <jane@example.com>, bob@example.net'
    message["Subject"] = "Grüße aus Köln"
    message["Date"] = "Mon, 02 Mar 2026 10:00:00 +0200"
    message["Message-ID"] = "<one@example.org>"
    for name, value in headers.items():
        del message[name.replace("_", "-")]
        message[name.replace("_", "-")] = value
    if text is not None or html is None:
        message.set_content(text or "Hello.\n")
        if html is not None:
            message.add_alternative(html, subtype="html")
    else:
        message.set_content(html, subtype="html")
    return message.as_bytes()


@pytest.fixture
def user(sim: Simulation, microsoft: MicrosoftUsers, address: str):
    return microsoft.connect(sim, address, "Mail.ReadWrite", "User.Read", "offline_access")


def delivered(user: MicrosoftUser, raw: bytes, **params: Any) -> dict[str, Any]:
    made = user.simulation.deliver(user.address, raw)
    return user.get(f"messages/{made['id']}", **params)


def test_a_message_has_exactly_the_default_properties(user: MicrosoftUser):
    shown = delivered(user, message_bytes())
    assert set(shown) == DEFAULT | {"@odata.context"}
    assert shown["subject"] == "Grüße aus Köln"
    assert shown["sentDateTime"] == "2026-03-02T08:00:00Z"
    assert shown["receivedDateTime"] == "2026-03-02T09:00:00Z"
    assert shown["internetMessageId"] == "<one@example.org>"
    assert shown["from"] == {"emailAddress": {"name": "Ann Example", "address": "ann@example.org"}}
    assert [one["emailAddress"]["name"] for one in shown["toRecipients"]] == ["Doe, Jane", "bob@example.net"]
    assert shown["@odata.etag"] == f'W/"{shown["changeKey"]}"'
    assert (shown["isRead"], shown["isDraft"], shown["flag"]) == (False, False, {"flagStatus": "notFlagged"})


def test_headers_and_unique_body_are_returned_only_when_selected(user: MicrosoftUser):
    raw = message_bytes(text="New.\n\nOn Monday, 2 March 2026, Bob wrote:\n> Old.\n", X_Two="first")
    made = user.simulation.deliver(user.address, raw.replace(b"X-Two", b"X-Two: more\r\nX-Two", 1))
    shown = user.get(
        f"messages/{made['id']}",
        {"prefer": 'outlook.body-content-type="text"'},
        **{"$select": "internetMessageHeaders,uniqueBody"},
    )
    assert set(shown) == {"@odata.context", "@odata.etag", "id", "internetMessageHeaders", "uniqueBody"}
    assert [h["value"] for h in shown["internetMessageHeaders"] if h["name"] == "X-Two"] == ["more", "first"]
    assert shown["uniqueBody"] == {"contentType": "text", "content": "New."}


def test_html_is_the_default_and_plain_text_is_converted(user: MicrosoftUser):
    body = delivered(user, message_bytes(text="a < b\nsecond\n"))["body"]
    assert body["contentType"] == "html"
    assert "a &lt; b<br>" in body["content"]
    assert body["content"].startswith("<html>")


def test_a_preference_for_text_is_applied_and_confirmed(user: MicrosoftUser):
    made = user.simulation.deliver(user.address, message_bytes(html="<p>One</p><p>Two &amp; three</p>"))
    wanted = {"prefer": 'outlook.body-content-type="text"'}
    answer = user.request("GET", f"messages/{made['id']}", headers=wanted)
    assert answer.headers["preference-applied"] == 'outlook.body-content-type="text"'
    assert answer.json()["body"] == {"contentType": "text", "content": "One\r\nTwo & three"}


def test_scripts_are_removed_unless_unsafe_html_is_allowed(user: MicrosoftUser):
    html = (
        '<html><head><meta charset="latin1"></head><body onload="x()"><script>steal()</script>'
        '<a href="javascript:go()">go</a><iframe src="y"></iframe><p>Stay</p></body></html>'
    )
    made = user.simulation.deliver(user.address, message_bytes(html=html))
    safe = user.get(f"messages/{made['id']}")["body"]["content"]
    assert not re.search(r"script|onload|iframe|latin1", safe)
    assert "<p>Stay</p>" in safe
    unsafe = user.get(f"messages/{made['id']}", {"prefer": "outlook.allow-unsafe-html"})["body"]["content"]
    assert "steal()" in unsafe


def test_the_preview_is_the_first_255_characters_on_one_line(user: MicrosoftUser):
    shown = delivered(user, message_bytes(text="word \n" * 200))
    assert shown["bodyPreview"] == ("word " * 60)[:255]
    html = delivered(user, message_bytes(html="<style>p{color:red}</style><p>Only&nbsp;this</p>"))
    assert html["bodyPreview"] == "Only this"


@pytest.mark.parametrize(
    "headers, name, value",
    [
        ({"Importance": "High"}, "importance", "high"),
        ({"X_Priority": "5"}, "importance", "low"),
        ({"List_Unsubscribe": "<mailto:x@example.org>"}, "inferenceClassification", "other"),
        ({"Disposition_Notification_To": "ann@example.org"}, "isReadReceiptRequested", True),
        ({"Reply_To": "desk@example.org"}, "replyTo", [FRONT_OFFICE]),
        ({"Sender": "desk@example.org"}, "sender", FRONT_OFFICE),
        ({"Date": "no date at all"}, "sentDateTime", "2026-03-02T09:00:00Z"),
        ({"Date": "Sat, 31 Jan 2026 23:30:00 -0130"}, "sentDateTime", "2026-02-01T01:00:00Z"),
    ],
)  # fmt: skip
def test_headers_become_properties(user: MicrosoftUser, headers: dict[str, str], name: str, value: object):
    assert delivered(user, message_bytes(**headers))[name] == value


@pytest.mark.parametrize(
    "head, author, sender",
    [
        (b"Return-Path: <bounce@example.org>\r\n", "bounce@example.org", "bounce@example.org"),
        (
            b"Sender: desk@example.org\r\nReturn-Path: <x@example.org>\r\n",
            "desk@example.org",
            "desk@example.org",
        ),
        (b"From:\r\nSender: desk@example.org\r\n", "", "desk@example.org"),
        (b"From: <>\r\nReturn-Path: <bounce@example.org>\r\n", "", ""),
        (b"From: undisclosed\r\n", "undisclosed", "undisclosed"),
        (b"", "", ""),
    ],
)
def test_a_message_without_a_usable_from_header_has_a_sender(
    user: MicrosoftUser, head: bytes, author: str, sender: str
):
    """Exchange fills a missing From header in from the SMTP envelope; with a blank one, the sender is blank.

    "How EOP validates the From address to prevent phishing",
    https://learn.microsoft.com/defender-office-365/anti-phishing-from-email-address-validation
    """
    shown = delivered(user, head + b"Subject: Who?\r\n\r\nText\r\n")
    addresses = [shown[name]["emailAddress"]["address"] for name in ("from", "sender")]
    assert addresses == [author, sender]


def test_deeply_nested_comments_are_no_recipients(user: MicrosoftUser):
    nested = b"(" * 2000
    raw = b"From: " + nested + b"\r\nTo: bob@example.net\r\nCc: " + nested + b"\r\nSubject: x\r\n\r\n"
    shown = delivered(user, raw)
    assert shown["toRecipients"] == [
        {"emailAddress": {"name": "bob@example.net", "address": "bob@example.net"}}
    ]
    assert shown["ccRecipients"] == []


def test_a_draft_without_a_from_header_is_from_the_owner(user: MicrosoftUser):
    """ "Create message", https://learn.microsoft.com/graph/api/user-post-messages"""
    raw = base64.b64encode(b"Subject: Later\r\n\r\nText\r\n")
    draft = user.request("POST", "messages", content=raw, headers={"content-type": "text/plain"}).json()
    assert draft["from"]["emailAddress"]["address"] == user.address


def test_a_draft_has_a_received_date(user: MicrosoftUser):
    """The response to a new draft has a `receivedDateTime`.

    "Create message", https://learn.microsoft.com/graph/api/user-post-messages
    """
    draft = user.post("messages", {"subject": "Later"})
    assert draft["receivedDateTime"] == draft["createdDateTime"]
    listed = user.get("mailFolders/drafts/messages?$orderby=receivedDateTime desc&$top=1")["value"]
    assert [(one["id"], one["receivedDateTime"]) for one in listed] == [
        (draft["id"], draft["receivedDateTime"])
    ]


@pytest.mark.parametrize(
    "variant, kind, said",
    [
        ("request", "eventMessageRequest", "meetingRequest"),
        ("cancel", "eventMessage", "meetingCancelled"),
        ("reply", "eventMessageResponse", "meetingAccepted"),
    ],
)
def test_meeting_messages_have_their_own_type(user: MicrosoftUser, variant: str, kind: str, said: str):
    method = {"request": "REQUEST", "cancel": "CANCEL", "reply": "REPLY"}[variant]
    message = EmailMessage()
    message["From"], message["Subject"] = "ann@example.org", "Meeting"
    message.set_content("See you.")
    message.add_alternative(
        f"BEGIN:VCALENDAR\r\nMETHOD:{method}\r\nEND:VCALENDAR\r\n",
        subtype="calendar",
        params={"method": method},
    )
    shown = delivered(user, message.as_bytes())
    assert shown["@odata.type"] == f"#microsoft.graph.{kind}"
    assert shown["meetingMessageType"] == said
    assert shown["hasAttachments"] is False


def test_replies_share_the_conversation(user: MicrosoftUser):
    first = delivered(user, message_bytes())
    second = delivered(user, message_bytes(Message_ID="<two@example.org>", In_Reply_To="<one@example.org>"))
    third = delivered(user, message_bytes(Message_ID="<three@example.org>"))
    assert first["conversationId"] == second["conversationId"] != third["conversationId"]
    base64.b64decode(first["conversationIndex"], validate=True)


def test_mime_is_returned_byte_for_byte(user: MicrosoftUser):
    raw = message_bytes(text="exactly\n")
    made = user.simulation.deliver(user.address, raw)
    answer = user.request("GET", f"messages/{made['id']}/$value")
    assert answer.headers["content-type"] == "text/plain"
    assert answer.content == raw


def test_a_list_is_newest_first_in_pages_of_ten(sim: Simulation, microsoft: MicrosoftUsers, address: str):
    user = microsoft.connect(sim, address, messages=35)
    page = user.get("messages", IMMUTABLE)
    assert len(page["value"]) == 10
    assert "$skip=10" in page["@odata.nextLink"]
    found = user.pages("messages", IMMUTABLE)
    assert [one["id"] for one in found] == [entry["id"] for entry in reversed(sim.truth(address))]


def test_top_ranges_from_1_to_1000(sim: Simulation, microsoft: MicrosoftUsers, address: str):
    user = microsoft.connect(sim, address, messages=1100)
    page = user.get("messages", **{"$top": 1000, "$select": "id"})
    assert len(page["value"]) == 1000
    assert len(user.get(page["@odata.nextLink"])["value"]) == 100
    for wrong in (0, 1001, -1, "abc", "", "1e3", 10**30):
        assert user.expect_error(400, "messages", params={"$top": wrong})["code"] == "BadRequest"


def test_count_respects_the_filter(sim: Simulation, microsoft: MicrosoftUsers, address: str):
    user = microsoft.connect(sim, address, messages=60)
    unread = sum(not entry["read"] for entry in sim.truth(address))
    page = user.get("messages", **{"$count": "true", "$filter": "isRead eq false", "$top": 1})
    assert page["@odata.count"] == unread
    assert user.request("GET", "messages/$count").text == "60"
    inbox = sum(entry["keys"] == ["inbox"] for entry in sim.truth(address))
    assert user.request("GET", "mailFolders/inbox/messages/$count").text == str(inbox)


def test_search_finds_words_and_excludes_filter_and_orderby(user: MicrosoftUser):
    user.simulation.deliver(
        user.address, message_bytes(Subject="Rechnung Nummer 77", Message_ID="<r@example.org>")
    )
    user.simulation.deliver(user.address, message_bytes(Message_ID="<s@example.org>"))
    for text in ('"Rechnung"', '"subject:nummer"', '"Rechnung from:ann"'):
        assert [one["subject"] for one in user.get("messages", **{"$search": text})["value"]] == [
            "Rechnung Nummer 77"
        ]
    assert user.get("messages", **{"$search": '"nothing like that"'})["value"] == []
    wrong = {"$search": '"a"', "$orderby": "subject"}
    assert user.expect_error(400, "messages", params=wrong)["code"] == "SearchWithOrderBy"
    wrong = {"$search": '"a"', "$filter": "isRead eq true"}
    assert user.expect_error(400, "messages", params=wrong)["code"] == "SearchWithFilter"


def test_select_returns_only_the_selected_properties_and_the_id(user: MicrosoftUser):
    shown = delivered(user, message_bytes(), **{"$select": "subject,from/emailAddress"})
    assert set(shown) == {"@odata.context", "@odata.etag", "id", "subject", "from"}
    error = user.expect_error(400, "messages", params={"$select": "subjekt"})
    assert error["message"] == "Could not find a property named 'subjekt' on type 'microsoft.graph.message'."


def test_a_huge_mailbox_is_listed_filtered_and_paged_without_parsing(
    sim: Simulation, microsoft: MicrosoftUsers, address: str
):
    user = microsoft.connect(sim, address, messages=1_000_000)
    names = {"$select": "id", "$top": 5}
    deep = user.get("messages", IMMUTABLE, **names, **{"$skip": 900_000})["value"]
    truth = sim.get(f"mailboxes/{address}/truth", start=99_995, limit=5, digests=False)["messages"]
    assert [one["id"] for one in deep] == [entry["id"] for entry in reversed(truth)]
    one = user.get(f"messages/{deep[0]['id']}")
    known = f"internetMessageId eq '{one['internetMessageId']}'"
    assert [found["id"] for found in user.get("messages", **{"$filter": known})["value"]] == [one["id"]]
    recent = f"receivedDateTime ge {one['receivedDateTime']}"
    assert len(user.get("messages", **names, **{"$filter": recent, "$skip": 60_000})["value"]) == 5
    unread = user.get("messages", **names, **{"$filter": "isRead eq false", "$count": "true"})
    assert unread["@odata.count"] > 100_000


def test_other_requests_are_answered_while_a_filter_reads_a_large_mailbox(
    sim: Simulation, microsoft: MicrosoftUsers, address: str
):
    user = microsoft.connect(sim, address, messages=12_000, kinds=["plain"])
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(user.get, "messages", **{"$filter": "subject eq 'zzz'"})
        while not (entries := sim.get("requests", mailbox=address, endpoint="messages.list")):
            pass
        assert entries[0]["status"] == 0, "the control was answered only after the filter"
        assert asked.result()["value"] == []


def test_copies_are_found_by_their_message_id_in_a_large_mailbox(
    sim: Simulation, microsoft: MicrosoftUsers, address: str
):
    user = microsoft.connect(sim, address, "Mail.ReadWrite", messages=1_200)
    first = user.get("mailFolders/inbox/messages", **{"$skip": 500, "$top": 1})["value"][0]
    copies = [user.post(f"messages/{first['id']}/copy", {"destinationId": "archive"}) for _ in range(2)]
    known = {"$filter": f"internetMessageId eq '{first['internetMessageId']}'"}
    ids = [one["id"] for one in (*reversed(copies), first)]
    assert [one["id"] for one in user.get("messages", **known)["value"]] == ids
    in_archive = user.get("mailFolders/archive/messages", **known)["value"]
    assert [one["id"] for one in in_archive] == ids[:2]


def test_generated_mail_is_served_as_written(sim: Simulation, microsoft: MicrosoftUsers, address: str):
    user = microsoft.connect(sim, address, messages=60)
    for entry in sim.truth(address):
        raw = user.request("GET", f"messages/{entry['id']}/$value").content
        assert hashlib.sha256(raw).hexdigest() == entry["sha256"]


def test_unknown_and_malformed_ids_give_different_errors(user: MicrosoftUser):
    made = delivered(user, message_bytes())
    user.request("DELETE", f"messages/{made['id']}")
    assert user.expect_error(404, f"messages/{made['id']}")["code"] == "ErrorItemNotFound"
    assert user.expect_error(400, "messages/nonsense")["code"] == "ErrorInvalidIdMalformed"


def test_a_message_is_found_only_under_its_own_folder(user: MicrosoftUser):
    made = delivered(user, message_bytes())
    assert user.get(f"mailFolders/inbox/messages/{made['id']}")["id"] == made["id"]
    assert user.expect_error(404, f"mailFolders/archive/messages/{made['id']}")["code"] == "ErrorItemNotFound"
    assert user.get(f"mailFolders('inbox')/messages('{made['id']}')")["id"] == made["id"]
