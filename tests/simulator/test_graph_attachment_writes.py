"""Attachments added, uploaded in pieces and deleted over Graph."""

import base64

import httpx2
import pytest

FILE = {
    "@odata.type": "#microsoft.graph.fileAttachment",
    "name": "a ü.pdf",
    "contentType": "application/pdf",
    "contentBytes": base64.b64encode(b"%PDF").decode(),
}
MEGABYTE = 1 << 20


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address, "Mail.ReadWrite", "Mail.Send")


@pytest.fixture
def draft(user):
    order = {"subject": "Hi", "toRecipients": [{"emailAddress": {"address": user.address}}]}
    return f"messages/{user.post('messages', order)['id']}"


def names(user, path):
    return [one["name"] for one in user.get(f"{path}/attachments", **{"$select": "name"})["value"]]


def test_a_file_is_added_to_a_draft_and_sent(user, draft):
    """Documented in "Add attachment"."""
    added = user.post(f"{draft}/attachments", FILE)
    assert (added["name"], added["contentBytes"]) == (FILE["name"], FILE["contentBytes"])
    assert user.get(f"{draft}/attachments/{added['id']}")["name"] == FILE["name"]
    assert user.get(draft)["hasAttachments"] is True
    assert user.request("POST", f"{draft}/send").status_code == 202
    (received,) = user.get("mailFolders/inbox/messages", **{"$expand": "attachments"})["value"]
    assert received["attachments"][0]["contentBytes"] == FILE["contentBytes"]


def test_an_inline_image_and_a_message_are_added(user, draft):
    """Documented in "Add attachment", with the properties of fileAttachment and itemAttachment."""
    image = FILE | {"name": "x.png", "contentType": "image/png", "isInline": True, "contentId": "logo"}
    added = user.post(f"{draft}/attachments", image)
    assert (added["isInline"], added["contentId"]) == (True, "logo")
    assert user.get(draft)["hasAttachments"] is False
    inner = {"@odata.type": "#microsoft.graph.message", "subject": "Inside", "body": {"content": "Hello"}}
    item = {"@odata.type": "#microsoft.graph.itemAttachment", "name": "Inside", "item": inner}
    assert user.post(f"{draft}/attachments", item)["@odata.type"].endswith("itemAttachment")
    shown = user.get(f"{draft}/attachments", **{"$expand": "microsoft.graph.itemattachment/item"})["value"]
    assert shown[1]["item"]["subject"] == "Inside"
    whole = user.post("messages", {"attachments": [image, item]})
    assert names(user, f"messages/{whole['id']}") == ["x.png", "Inside"]


def test_deleting_keeps_the_ids_of_the_other_attachments(user, draft):
    """Documented in "Delete attachment"."""
    paths = [
        f"{draft}/attachments/{user.post(f'{draft}/attachments', FILE | {'name': name})['id']}"
        for name in ("a", "b", "c")
    ]
    for path, left in zip(paths, (["b", "c"], ["c"], []), strict=True):
        assert user.request("DELETE", path).status_code == 204
        assert names(user, draft) == left
        assert user.expect_error(404, path)["code"] == "ErrorItemNotFound"
        user.expect_error(404, path, "DELETE")
    again = user.post(f"{draft}/attachments", FILE)
    assert f"{draft}/attachments/{again['id']}" not in paths
    assert "Hi" in user.get(draft)["subject"]


def test_an_attachment_of_received_mail_is_deleted_and_reported(sim, user):
    path = f"messages/{sim.deliver(user.address, kind='invoice')['id']}"
    _, link = user.delta("mailFolders/inbox/messages/delta")
    body = user.get(path)["body"]
    (file,) = user.get(f"{path}/attachments")["value"]
    assert user.request("DELETE", f"{path}/attachments/{file['id']}").status_code == 204
    after = user.get(path)
    assert (after["hasAttachments"], after["body"]) == (False, body)
    changed, _ = user.delta(link)
    assert len(changed) == 1


@pytest.mark.parametrize(
    "body, code",
    [
        ({"name": "a", "contentBytes": "JVBERg=="}, "RequestBodyRead"),
        (FILE | {"name": ""}, "ErrorRequiredPropertyMissing"),
        (FILE | {"contentBytes": "no base64"}, "ErrorInvalidRequest"),
        (FILE | {"contentType": "a/b\r\nBcc: x"}, "ErrorInvalidRequest"),
        (FILE | {"@odata.type": "#microsoft.graph.message"}, "ErrorInvalidRequest"),
        ({"@odata.type": "#microsoft.graph.itemAttachment", "name": "x", "item": 5}, "ErrorInvalidRequest"),
    ],
)
def test_an_incomplete_attachment_is_refused(user, draft, body, code):
    assert user.expect_error(400, f"{draft}/attachments", "POST", json=body)["code"] == code
    assert names(user, draft) == []


def start_upload(user, draft, size, **more):
    item = {"attachmentType": "file", "name": "large.bin", "size": size, **more}
    return user.post(f"{draft}/attachments/createUploadSession", {"AttachmentItem": item})


def put(url, first, piece, size):
    spread = f"bytes {first}-{first + len(piece) - 1}/{size}"
    return httpx2.put(url, content=piece, headers={"content-range": spread}, trust_env=False)


def test_a_large_file_is_uploaded_in_pieces(user, draft):
    """Documented in "Attach large files to Outlook messages or events"."""
    content = bytes(range(256)) * (5 * MEGABYTE // 256)
    session = start_upload(user, draft, len(content))
    assert session["nextExpectedRanges"] == ["0-"]
    first = put(session["uploadUrl"], 0, content[: 3 * MEGABYTE], len(content))
    assert (first.status_code, first.json()["NextExpectedRanges"]) == (200, [str(3 * MEGABYTE)])
    assert names(user, draft) == []
    last = put(session["uploadUrl"], 3 * MEGABYTE, content[3 * MEGABYTE :], len(content))
    assert (last.status_code, last.content) == (201, b"")
    identifier = last.headers["location"].rpartition("('")[2].removesuffix("')")
    answer = user.request("GET", f"{draft}/attachments/{identifier}/$value")
    assert answer.content == content
    assert put(session["uploadUrl"], 0, b"x", len(content)).status_code == 404


def test_pieces_must_fit(user, draft):
    size = 4 * MEGABYTE
    url = start_upload(user, draft, size)["uploadUrl"]
    assert put(url, 7, b"x", size).status_code == 416
    assert put(url, 0, b"x", size + 1).status_code == 400
    assert httpx2.put(url, content=b"x", trust_env=False).status_code == 400
    assert put(url, 0, bytes(4 * MEGABYTE + 1), size).status_code == 413
    assert put(url.partition("?")[0], 0, b"x", size).status_code == 401
    assert httpx2.delete(url, trust_env=False).status_code == 204
    assert put(url, 0, b"x", size).status_code == 404


def test_a_session_expires_unless_pieces_arrive(sim, user, draft):
    """Documented in the uploadSession resource."""
    size = 3 * MEGABYTE
    url = start_upload(user, draft, size)["uploadUrl"]
    for place in range(2):
        sim.move_clock(6 * 86_400)
        assert put(url, place, b"x", size).status_code == 200
    sim.move_clock(8 * 86_400)
    assert put(url, 2, b"x", size).status_code == 404


@pytest.mark.parametrize(
    "item",
    [
        5,
        {"attachmentType": "file", "name": "small", "size": 100},
        {"attachmentType": "file", "name": "huge", "size": 151 * MEGABYTE},
        {"attachmentType": "item", "name": "x", "size": 4 * MEGABYTE},
        {"attachmentType": "file", "size": 4 * MEGABYTE},
        {"attachmentType": "file", "name": "x", "size": True},
    ],
)
def test_an_upload_that_cannot_succeed_is_refused(user, draft, item):
    path = f"{draft}/attachments/createUploadSession"
    user.expect_error(400, path, "POST", json={"AttachmentItem": item})


def test_an_upload_that_is_cancelled_during_its_last_piece_adds_nothing(user, draft):
    size = 4 * MEGABYTE
    url = start_upload(user, draft, size)["uploadUrl"]

    def send():
        yield bytes(size // 2)
        assert httpx2.delete(url, trust_env=False).status_code == 204
        yield bytes(size // 2)

    spread = {"content-range": f"bytes 0-{size - 1}/{size}"}
    assert httpx2.put(url, content=send(), headers=spread, trust_env=False).status_code == 404
    assert names(user, draft) == []


def test_an_upload_ends_with_its_mailbox(sim, user, draft, address):
    size = 4 * MEGABYTE
    url = start_upload(user, draft, size)["uploadUrl"]
    sim.delete(f"mailboxes/{address}")
    sim.create("outlook", address, messages=20)
    assert put(url, 0, b"x", size).status_code == 404
