"""Messages, threads, drafts and labels over HTTP: listing, search, formats, attachments, changes."""

import base64
from email.utils import parsedate_to_datetime

import pytest

from simulator.google_user import (
    FULL,
    METADATA,
    MODIFY,
    READONLY,
    decode_base64url,
    make_message,
)

WITH_FILE = (
    b"From: Amy <amy@example.org>\r\nSubject: Lunch\r\nMIME-Version: 1.0\r\n"
    b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n\r\nSee the menu\r\n'
    b'--b\r\nContent-Type: application/pdf; name="menu.pdf"\r\nContent-Disposition: attachment\r\n'
    b"Content-Transfer-Encoding: base64\r\n\r\nJVBERi0=\r\n--b--\r\n"
)


@pytest.fixture
def user(sim, google, address):
    return google.connect(sim, address, messages=300, days=60)


@pytest.fixture
def owner(sim, google, address):
    """A user with the full scope."""
    return google.connect(sim, address, FULL, messages=20, spread=False)


def ids(entries):
    return [entry["id"] for entry in entries]


def test_spam_and_trash_are_listed_only_on_request(user):
    truth = user.simulation.truth(user.address, digests=False)
    hidden = {m["id"] for m in truth if {"SPAM", "TRASH"} & set(m["folders"])}
    assert hidden
    assert set(ids(user.pages("messages", "messages"))) == {m["id"] for m in truth} - hidden
    everything = user.pages("messages", "messages", includeSpamTrash="true", maxResults=500)
    assert set(ids(everything)) == {m["id"] for m in truth}
    spam = user.pages("messages", "messages", labelIds="SPAM")
    assert set(ids(spam)) == {m["id"] for m in truth if "SPAM" in m["folders"]}
    assert set(ids(user.pages("messages", "messages", q="in:trash"))) == {
        m["id"] for m in truth if "TRASH" in m["folders"]
    }


def test_a_listing_requires_all_label_ids(user):
    truth = user.simulation.truth(user.address, digests=False)
    both = user.pages("messages", "messages", labelIds=["INBOX", "UNREAD"])
    assert set(ids(both)) == {m["id"] for m in truth if {"INBOX", "UNREAD"} <= set(m["folders"])}
    assert (
        user.expect_error(400, "messages", params={"labelIds": "Label_99"})["message"]
        == "Invalid label: Label_99"
    )


def test_an_empty_listing_has_no_messages_key(sim, google, address):
    assert google.connect(sim, address).get("messages") == {"resultSizeEstimate": 0}


def test_pages_are_stable_while_mail_arrives(user):
    before = ids(user.pages("messages", "messages", maxResults=500))
    first = user.get("messages", maxResults=10)
    user.simulation.deliver(user.address, make_message())
    token, rest = first["nextPageToken"], []
    while token:
        page = user.get("messages", maxResults=10, pageToken=token)
        rest += ids(page["messages"])
        token = page.get("nextPageToken")
    assert ids(first["messages"]) + rest == before


@pytest.mark.parametrize("size, count", [("0", 100), ("1", 1), ("500", 108), ("9999", 108)])
def test_page_sizes_are_limited(sim, google, address, size, count):
    user = google.connect(sim, address, messages=108, spread=False)
    assert len(user.get("messages", maxResults=size)["messages"]) == count


def test_a_search_that_parses_too_many_messages_gives_short_pages(sim, google, address):
    user = google.connect(sim, address, messages=300, spread=False, kinds=["plain"])
    sim.deliver(address, make_message("needle"))
    sim.control.patch("google/options", json={"search_depth": 50})
    page = user.get("messages", q="subject:nowhere")
    assert page["nextPageToken"]
    assert "messages" not in page
    assert len(user.pages("messages", "messages", q="subject:needle")) == 1
    sim.control.patch("google/options", json={"search_depth": 500})


def test_snippets_are_escaped_and_bodies_are_transfer_decoded(sim, google, address):
    user = google.connect(sim, address)
    raw = make_message(
        body="Caf=C3=A9 'n' <b>=\r\n!",
        Content_Type="text/plain; charset=utf-8",
        Content_Transfer_Encoding="quoted-printable",
    )
    message = user.get(f"messages/{sim.deliver(address, raw)['id']}")
    assert message["snippet"] == "Café &#39;n&#39; &lt;b&gt;!"
    assert decode_base64url(message["payload"]["body"]["data"]).decode() == "Café 'n' <b>!\r\n"
    assert message["payload"]["body"]["size"] == len("Café 'n' <b>!\r\n".encode())
    assert message["payload"]["filename"] == message["payload"]["partId"] == ""


def _list_base64url(user):
    """List the base64url strings of some messages: raw, inline bodies and attachments."""
    texts = []
    for message_id in ids(user.get("messages", maxResults=40)["messages"]):
        texts.append(user.get(f"messages/{message_id}", format="raw")["raw"])
        parts = [user.get(f"messages/{message_id}")["payload"]]
        for part in parts:
            parts += part.get("parts", [])
            body = part["body"]
            if "attachmentId" in body:
                body = user.get(f"messages/{message_id}/attachments/{body['attachmentId']}")
            texts.append(body.get("data", ""))
    return texts


def test_base64url_is_padded_by_default(user):
    """RFC 4648, section 5, pads; clients decode with Python's strict urlsafe_b64decode.

    "REST Resource: users.messages", https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages
    """
    texts = _list_base64url(user)
    assert any(text.endswith("=") for text in texts)
    for text in texts:
        base64.urlsafe_b64decode(text)


@pytest.mark.parametrize("padding, endings", [("mixed", {True, False}), ("never", {False})])
def test_padding_can_be_left_out(sim, user, padding, endings):
    sim.control.patch("google/options", json={"padding": padding})
    texts = _list_base64url(user)
    sim.control.patch("google/options", json={"padding": "always"})
    assert {text.endswith("=") for text in texts} == endings
    assert any(len(text) % 4 for text in texts)


def test_headers_keep_case_and_duplicates(sim, google, address):
    user = google.connect(sim, address)
    raw = b"received: 1\r\nRECEIVED: 2\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nMessage-Id: <x@y>\r\n\r\nx"
    headers = user.get(f"messages/{sim.deliver(address, raw)['id']}", format="metadata")["payload"]["headers"]
    assert [(h["name"], h["value"]) for h in headers] == [
        ("received", "1"),
        ("RECEIVED", "2"),
        ("Subject", "Grüße"),
        ("Message-Id", "<x@y>"),
    ]


def test_attachment_ids_expire(sim, google, address):
    user = google.connect(sim, address)
    message_id = sim.deliver(address, WITH_FILE)["id"]
    found = [
        part["body"] for part in user.get(f"messages/{message_id}")["payload"]["parts"] if part["filename"]
    ]
    path = f"messages/{message_id}/attachments/{found[0]['attachmentId']}"
    assert user.get(path)["size"] == found[0]["size"]
    other = sim.deliver(address, WITH_FILE)["id"]
    wrong = f"messages/{other}/attachments/{found[0]['attachmentId']}"
    assert user.expect_error(400, wrong)["message"] == "Invalid attachment token"
    sim.move_clock(3000)
    assert user.get(path)["size"] == found[0]["size"]
    sim.move_clock(700)
    fresh = google.sign_in(sim, address)
    assert fresh.expect_error(400, path)["message"] == "Invalid attachment token"


def test_long_texts_are_returned_as_attachments(sim, google, address):
    user = google.connect(sim, address)
    message_id = sim.deliver(address, make_message(body="word " * 60_000))["id"]
    body = user.get(f"messages/{message_id}")["payload"]["body"]
    assert set(body) == {"attachmentId", "size"}
    text = decode_base64url(user.get(f"messages/{message_id}/attachments/{body['attachmentId']}")["data"])
    assert text == b"word " * 60_000 + b"\r\n"


@pytest.mark.parametrize(
    "message_id, status",
    [("abc123", 404), ("1", 404), ("ffffffffffffffff", 400), ("18c9a1b2c3d4e5f6aa", 400), ("xyz", 400)],
)
def test_malformed_and_unknown_ids_give_different_errors(user, message_id, status):
    for path in (f"messages/{message_id}", f"threads/{message_id}"):
        error = user.expect_error(status, path)
        assert error["errors"][0]["reason"] == {404: "notFound", 400: "invalidArgument"}[status]


def test_drafts_keep_their_id_while_their_message_changes(owner):
    raw = {"raw": "U3ViamVjdDogb25lDQoNCm9uZQ"}
    draft = owner.post("drafts", {"message": raw})
    first = draft["message"]["id"]
    start = owner.history_id()
    again = owner.request(
        "PUT", f"drafts/{draft['id']}", json={"message": {"raw": "U3ViamVjdDogdHdvDQoNCnR3bw"}}
    ).json()
    assert again["id"] == draft["id"]
    assert again["message"]["id"] != first
    owner.expect_error(404, f"messages/{first}")
    records = owner.get("history", startHistoryId=start)["history"]
    assert [sorted(set(record) - {"id", "messages"}) for record in records] == [
        ["messagesDeleted"],
        ["messagesAdded"],
    ]
    shown = owner.get(f"drafts/{draft['id']}", format="raw")
    assert decode_base64url(shown["message"]["raw"]) == b"Subject: two\r\n\r\ntwo"
    assert draft["id"] in ids(owner.pages("drafts", "drafts"))
    owner.request("DELETE", f"drafts/{draft['id']}")
    owner.expect_error(404, f"drafts/{draft['id']}")


def test_sending_a_draft_makes_a_new_message_and_delivers_it(sim, google, owner, address):
    friend = google.connect(sim, f"friend.{address}")
    raw = make_message("Hello friend", From=address, To=f"friend.{address}")
    draft = owner.post("drafts", {"message": {"raw": base64.urlsafe_b64encode(raw).decode()}})
    sent = owner.post("drafts/send", {"id": draft["id"]})
    assert sent["labelIds"] == ["SENT"]
    assert sent["id"] != draft["message"]["id"]
    owner.expect_error(404, f"drafts/{draft['id']}")
    error = owner.expect_error(400, "messages/send", "POST", json={"raw": "U3ViamVjdDogeA0KDQp4"})
    assert error["message"] == "Recipient address required"
    assert len(owner.get("messages", labelIds="SENT", q="newer_than:1h")["messages"]) == 1
    received = friend.get("messages")["messages"]
    assert friend.raw(received[0]["id"]).endswith(raw)


def _send(user, raw):
    return user.post("messages/send", {"raw": base64.urlsafe_b64encode(raw).decode()})


def test_sending_adds_missing_headers_and_hides_bcc_recipients(sim, google, owner, address):
    """RFC 5322, sections 3.6 and 3.6.3, which Gmail's messages follow.

    "Create and send email messages", https://developers.google.com/workspace/gmail/api/guides/sending
    """
    friend, hidden = (google.connect(sim, f"{name}.{address}") for name in ("friend", "hidden"))
    rest = f"To: {friend.address}\r\nSubject: Hi\r\n"
    sent = _send(owner, f"{rest}Bcc: {hidden.address}\r\n\r\nText".encode())
    shown = owner.get(f"messages/{sent['id']}", format="metadata")["payload"]["headers"]
    headers = {header["name"]: header["value"] for header in shown}
    assert address in headers["From"]
    arrived = int(owner.get(f"messages/{sent['id']}", format="minimal")["internalDate"]) // 1000
    assert parsedate_to_datetime(headers["Date"]).timestamp() == arrived
    assert headers["Message-ID"].startswith("<")
    assert headers["Bcc"] == hidden.address
    for reader in (friend, hidden):
        (received,) = reader.get("messages")["messages"]
        raw = reader.raw(received["id"]).decode()
        assert raw.endswith(f"{rest}\r\nText")
        assert headers["Message-ID"] in raw
        assert hidden.address not in raw.removeprefix(f"Delivered-To: {reader.address}\r\n")
    own = make_message(
        From=address, To=friend.address, Date="Sun, 01 Mar 2026 00:00:00 +0000", Message_ID="<a@x>"
    )
    assert owner.raw(_send(owner, own)["id"]) == own


def test_a_message_to_oneself_is_one_message_in_sent_mail_and_inbox(owner, address):
    """A message has any number of labels, SENT and INBOX among them.

    "Manage labels", https://developers.google.com/workspace/gmail/api/guides/labels
    """
    before = owner.get("profile")["messagesTotal"]
    assert sorted(_send(owner, f"To: {address}\r\n\r\nx".encode())["labelIds"]) == ["INBOX", "SENT", "UNREAD"]
    draft = owner.post(
        "drafts", {"message": {"raw": base64.urlsafe_b64encode(f"Bcc: {address}\n\nx".encode()).decode()}}
    )
    assert sorted(owner.post("drafts/send", {"id": draft["id"]})["labelIds"]) == ["INBOX", "SENT", "UNREAD"]
    assert owner.get("profile")["messagesTotal"] == before + 2


def test_label_changes_through_the_api_appear_in_the_history(owner):
    one, two = (owner.simulation.deliver(owner.address, make_message())["id"] for _ in range(2))
    start = owner.history_id()
    label = owner.post("labels", {"name": "Clients/Acme"})
    changed = owner.post(
        f"messages/{one}/modify", {"addLabelIds": [label["id"]], "removeLabelIds": ["INBOX"]}
    )
    assert label["id"] in changed["labelIds"]
    assert "INBOX" not in changed["labelIds"]
    owner.post("messages/batchModify", {"ids": [one, two, "1234"], "addLabelIds": ["STARRED"]}, status=204)
    assert owner.post(f"messages/{one}/trash")["labelIds"].count("TRASH") == 1
    assert "TRASH" not in owner.post(f"messages/{one}/untrash")["labelIds"]
    assert owner.request("DELETE", f"messages/{two}").status_code == 204
    owner.expect_error(404, f"messages/{two}")
    records = owner.get("history", startHistoryId=start)["history"]
    changes = [
        (kind, change["message"]["id"], change.get("labelIds"))
        for record in records
        for kind in ("labelsAdded", "labelsRemoved", "messagesDeleted")
        for change in record.get(kind, [])
    ]
    assert changes == [
        ("labelsAdded", one, [label["id"]]),
        ("labelsRemoved", one, ["INBOX"]),
        ("labelsAdded", one, ["STARRED"]),
        ("labelsAdded", two, ["STARRED"]),
        ("labelsAdded", one, ["TRASH"]),
        ("labelsRemoved", one, ["TRASH"]),
        ("messagesDeleted", two, None),
    ]


def test_threads_are_modified_trashed_and_deleted_as_a_whole(owner):
    sim, address = owner.simulation, owner.address
    first = sim.deliver(address, make_message(Message_ID="<root@example.org>"))
    reply = sim.deliver(address, make_message(In_Reply_To="<root@example.org>"))
    assert reply["thread"] == first["id"]
    path = f"threads/{first['id']}"
    changed = owner.post(f"{path}/modify", {"removeLabelIds": ["UNREAD"]})
    assert [message["labelIds"].count("UNREAD") for message in changed["messages"]] == [0, 0]
    assert all("TRASH" in message["labelIds"] for message in owner.post(f"{path}/trash")["messages"])
    owner.post(f"{path}/untrash")
    assert [m["id"] for m in owner.get(path, format="minimal")["messages"]] == [first["id"], reply["id"]]
    owner.expect_error(400, path, params={"format": "raw"})
    assert owner.request("DELETE", path).status_code == 204
    owner.expect_error(404, path)


def test_messages_can_be_inserted_imported_and_uploaded(owner):
    raw = make_message("Brought in")
    upload = owner.request(
        "POST",
        "/upload/gmail/v1/users/me/messages",
        params={"uploadType": "media"},
        content=raw,
        headers={"content-type": "message/rfc822"},
    ).json()
    assert owner.raw(upload["id"]) == raw
    assert "labelIds" not in owner.get(f"messages/{upload['id']}", format="minimal")
    body = (
        b"--x\r\nContent-Type: application/json\r\n\r\n{}\r\n--x\r\nContent-Type: message/rfc822\r\n\r\n"
        + raw
        + b"\r\n--x--\r\n"
    )
    imported = owner.request(
        "POST",
        "/upload/gmail/v1/users/me/messages/import",
        params={"uploadType": "multipart"},
        content=body,
        headers={"content-type": "multipart/related; boundary=x"},
    ).json()
    assert owner.raw(imported["id"]) == raw
    assert {"INBOX", "UNREAD"} <= set(imported["labelIds"])


def _upload(user, path, metadata, raw, status=200):
    """Upload metadata and message in one multipart request."""
    parts = [
        b"Content-Type: application/json\r\n\r\n" + metadata,
        b"Content-Type: message/rfc822\r\n\r\n" + raw,
    ]
    answer = user.request(
        "POST",
        f"/upload/gmail/v1/users/me/{path}",
        params={"uploadType": "multipart"},
        content=b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + b"--x--\r\n",
        headers={"content-type": "multipart/related; boundary=x"},
    )
    assert answer.status_code == status, answer.text
    return answer.json()


def test_multipart_uploads_keep_their_metadata(owner):
    """The first part is the resource, the second the media.

    "Upload attachments", https://developers.google.com/workspace/gmail/api/guides/uploads
    """
    raw = make_message(To="x@example.org")
    inserted = _upload(owner, "messages", b'{"labelIds": ["STARRED", "INBOX"]}', raw)
    assert inserted["labelIds"] == ["INBOX", "STARRED"]
    assert owner.raw(inserted["id"]) == raw
    draft = owner.post("drafts", {"message": {"raw": base64.urlsafe_b64encode(raw).decode()}})
    sent = _upload(
        owner, "drafts/send", b'{"id": "%s"}' % draft["id"].encode(), make_message("Two", To="x@example.org")
    )
    assert b"Subject: Two" in owner.raw(sent["id"])
    owner.expect_error(404, f"drafts/{draft['id']}")
    assert (
        _upload(owner, "messages", b'{"labelIds": ["Label_99"]}', raw, 400)["error"]["status"]
        == "INVALID_ARGUMENT"
    )
    assert _upload(owner, "messages", b'{"nothing": 1}', raw, 400)["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("raw", ["***", "QQ==QQ==", "Q", "Zm9v!", "Zm9vé"])
def test_a_message_that_is_not_base64_is_refused(owner, raw):
    """`raw` is base64url: https://developers.google.com/workspace/gmail/api/reference/rest/v1/users.messages

    The error is the one of google/googleapis.dart#109 and FlowCrypt/flowcrypt-android#859.
    """
    message = {"raw": raw}
    for field, path, body in (
        ("message.raw", "messages", message),
        ("message.raw", "messages/import", message),
        ("message.raw", "messages/send", message),
        ("draft.message.raw", "drafts", {"message": message}),
    ):
        error = owner.expect_error(400, path, "POST", json=body)
        assert error["status"] == "INVALID_ARGUMENT"
        expected = f"Invalid value at '{field}' (TYPE_BYTES), Base64 decoding failed for \"{raw}\""
        assert error["message"] == expected


@pytest.mark.parametrize("encode", [base64.urlsafe_b64encode, base64.standard_b64encode, base64.encodebytes])
def test_a_message_in_either_base64_alphabet_is_accepted(owner, encode):
    raw = make_message("a" + "\N{EURO SIGN}\N{YEN SIGN}?>" * 30)
    for text in (encode(raw).decode(), encode(raw).decode().rstrip("=\n")):
        assert owner.raw(owner.post("messages", {"raw": text})["id"]) == raw


def test_labels_are_created_renamed_and_deleted(owner):
    label = owner.post("labels", {"name": "One"})
    assert (label["type"], label["name"]) == ("user", "One")
    assert owner.expect_error(409, "labels", "POST", json={"name": "one"})["status"] == "ABORTED"
    assert (
        owner.expect_error(400, "labels", "POST", json={"name": "Inbox"})["message"] == "Invalid label name"
    )
    renamed = owner.request("PATCH", f"labels/{label['id']}", json={"name": "Two"}).json()
    assert (renamed["id"], renamed["name"]) == (label["id"], "Two")
    newest = owner.get("messages")["messages"][0]["id"]
    owner.post(f"messages/{newest}/modify", {"addLabelIds": [label["id"]]})
    assert owner.get(f"labels/{label['id']}")["messagesTotal"] == 1
    assert owner.request("DELETE", f"labels/{label['id']}").status_code == 204
    owner.expect_error(404, f"labels/{label['id']}")
    assert label["id"] not in owner.get(f"messages/{newest}", format="minimal")["labelIds"]
    owner.expect_error(400, "labels/INBOX", "DELETE")


def test_scopes_allow_only_their_methods(sim, google, address):
    reader = google.connect(sim, address, READONLY, messages=3, spread=False)
    newest = reader.get("messages")["messages"][0]["id"]
    change = {"json": {"addLabelIds": ["STARRED"]}}
    challenge = reader.request("POST", f"messages/{newest}/modify", **change).headers["www-authenticate"]
    realm, error, scope = challenge.split(", ")
    assert (realm, error) == ('Bearer realm="https://accounts.google.com/"', 'error="insufficient_scope"')
    assert MODIFY in scope.removeprefix('scope="').rstrip('"').split()
    error = reader.expect_error(403, f"messages/{newest}/modify", "POST", **change)
    assert error["status"] == "PERMISSION_DENIED"
    assert error["errors"][0]["reason"] == "insufficientPermissions"
    assert error["details"][0]["reason"] == "ACCESS_TOKEN_SCOPE_INSUFFICIENT"
    modifier = google.sign_in(sim, address, MODIFY)
    modifier.post(f"messages/{newest}/modify", {"addLabelIds": ["STARRED"]})
    modifier.expect_error(403, f"messages/{newest}", "DELETE")
    narrow = google.sign_in(sim, address, METADATA)
    assert narrow.get(f"messages/{newest}", format="metadata")["payload"]["headers"]
    assert narrow.get("history", startHistoryId=narrow.history_id())
    for form in ("full", "raw"):
        error = narrow.expect_error(403, f"messages/{newest}", params={"format": form})
        assert error["message"] == f"Metadata scope doesn't allow format {form.upper()}"
    narrow.expect_error(403, f"messages/{newest}")
    assert (
        narrow.expect_error(403, "messages", params={"q": ""})["message"]
        == "Metadata scope does not support 'q' parameter"
    )
    narrow.expect_error(403, f"messages/{newest}/attachments/x")


def test_the_metadata_scope_limits_wider_scopes_unless_disabled(sim, google, address):
    user = google.connect(sim, address, METADATA, READONLY, messages=2, spread=False)
    user.expect_error(403, "messages", params={"q": "x"})
    sim.control.patch("google/options", json={"metadata_scope_wins": False})
    user.get("messages", q="x")
    sim.control.patch("google/options", json={"metadata_scope_wins": True})


def test_the_newest_of_a_million_messages_is_found_quickly(sim, google, address):
    user = google.connect(sim, address, messages=1_000_000, days=3650)
    assert user.get("profile")["messagesTotal"] == 1_000_000
    page = user.get("messages", q="after:2026/02/20 in:sent", maxResults=500)
    assert 100 < len(page["messages"]) <= 500
    assert user.get("labels/SPAM")["messagesTotal"] > 10_000
    oldest = user.get("messages", q="before:2016/04/01", maxResults=5)["messages"]
    assert int(user.get(f"messages/{oldest[0]['id']}", format="minimal")["internalDate"]) < 1459497600_000


def test_a_message_is_found_by_its_message_id_among_a_million(sim, google, address):
    user = google.connect(sim, address, messages=1_000_000)
    oldest = sim.get(f"mailboxes/{address}/truth", limit=3)["messages"][0]
    found = user.pages(
        "messages", "messages", q=f"rfc822msgid:{oldest['message_id']}", includeSpamTrash="true"
    )
    assert ids(found) == [oldest["id"]]
    assert user.pages("messages", "messages", q="rfc822msgid:<nobody@example.org>") == []
