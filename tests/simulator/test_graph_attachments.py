"""Attachments over Graph: files, items and references, their bytes and quirks."""

import base64
import hashlib
from email.message import EmailMessage

import pytest


def message(**headers):
    made = EmailMessage()
    made["From"], made["Subject"] = "ann@example.org", headers.get("subject", "With files")
    made.set_content("See below.")
    return made


@pytest.fixture
def user(sim, microsoft, address):
    return microsoft.connect(sim, address)


def delivered(user, made):
    raw = made if isinstance(made, bytes) else made.as_bytes()
    return f"messages/{user.simulation.deliver(user.address, raw)['id']}"


@pytest.fixture
def message_path(user):
    made = message()
    made.add_attachment(b"%PDF-1.7\x00\xff", maintype="application", subtype="pdf", filename="Rechnung ü.pdf")
    inner = message(subject="Inside")
    deeper = message(subject="Deeper")
    inner.add_attachment(deeper)
    made.add_attachment(inner)
    return delivered(user, made)


def test_a_file_contains_its_bytes_and_an_item_does_not(user, message_path):
    file, item = user.get(f"{message_path}/attachments")["value"]
    assert file["@odata.type"] == "#microsoft.graph.fileAttachment"
    assert (file["name"], file["contentType"], file["isInline"]) == (
        "Rechnung ü.pdf",
        "application/pdf",
        False,
    )
    assert base64.b64decode(file["contentBytes"]) == b"%PDF-1.7\x00\xff"
    assert file["size"] > 10
    assert item["@odata.type"] == "#microsoft.graph.itemAttachment"
    assert (item["name"], item["contentType"]) == ("Inside", None)
    assert "contentBytes" not in item


def test_value_returns_bytes_of_files_and_mime_of_items(user, message_path):
    file, item = user.get(f"{message_path}/attachments", **{"$select": "id"})["value"]
    answer = user.request("GET", f"{message_path}/attachments/{file['id']}/$value")
    assert (answer.content, answer.headers["content-type"]) == (b"%PDF-1.7\x00\xff", "application/pdf")
    inside = user.request("GET", f"{message_path}/attachments/{item['id']}/$value")
    assert b"Subject: Inside" in inside.content


def test_an_item_is_read_with_expand(user, message_path):
    _, item = user.get(f"{message_path}/attachments")["value"]
    path = f"{message_path}/attachments/{item['id']}"
    shown = user.get(path, **{"$expand": "microsoft.graph.itemattachment/item"})["item"]
    assert (shown["subject"], shown["id"]) == ("Inside", "")
    assert shown["attachments"][0]["item"]["subject"] == "Deeper"
    user.expect_error(400, path, params={"$expand": "nonsense"})


def test_expanding_a_message_includes_its_attachments(user, message_path):
    shown = user.get(message_path, **{"$select": "subject", "$expand": "attachments"})
    assert [one["name"] for one in shown["attachments"]] == ["Rechnung ü.pdf", "Inside"]
    assert "contentBytes" in shown["attachments"][0]
    lean = user.get(message_path, **{"$expand": "attachments($select=id,name,size)"})
    assert set(lean["attachments"][1]) == {"@odata.type", "id", "name", "size"}


def test_expanding_the_size_of_a_message_needs_its_number(user, message_path):
    """Follows "Get singleValueLegacyExtendedProperty", https://learn.microsoft.com/graph/api/singlevaluelegacyextendedproperty-get"""
    raw = user.request("GET", f"{message_path}/$value").content
    by_number = "singleValueExtendedProperties($filter=id eq 'Long 0x0E08')"
    shown = user.get(message_path, **{"$select": "subject", "$expand": f"attachments,{by_number}"})
    assert shown["singleValueExtendedProperties"] == [{"id": "Long 0xe08", "value": str(len(raw))}]
    unknown = user.get(message_path, **{"$expand": by_number.replace("0E08", "0037")})
    assert "singleValueExtendedProperties" not in unknown
    user.expect_error(400, message_path, params={"$expand": "singleValueExtendedProperties"})


def test_inline_images_do_not_count_as_attachments_but_are_listed(user):
    made = message()
    made.add_alternative('<p><img src="cid:logo@example.org"></p>', subtype="html")
    made.get_payload()[1].add_related(b"\x89PNG", maintype="image", subtype="png", cid="<logo@example.org>")
    path = delivered(user, made)
    assert user.get(path)["hasAttachments"] is False
    (image,) = user.get(f"{path}/attachments")["value"]
    assert (image["isInline"], image["contentId"]) == (True, "logo@example.org")


def test_content_id_can_only_be_selected_with_a_cast(user, message_path):
    error = user.expect_error(400, f"{message_path}/attachments", params={"$select": "id,contentId"})
    assert error["code"] == "RequestBroker--ParseUri"
    assert (
        "Could not find a property named 'contentId' on type 'microsoft.graph.attachment'."
        in error["message"]
    )
    cast = "id,name,microsoft.graph.fileAttachment/contentId"
    file, item = user.get(f"{message_path}/attachments", **{"$select": cast})["value"]
    assert set(file) == {"@odata.type", "@odata.mediaContentType", "id", "name", "contentId"}
    assert set(item) == {"@odata.type", "id", "name"}


def test_a_reference_attachment_has_no_value(user):
    path = f"messages/{user.simulation.deliver(user.address, kind='reference')['id']}"
    links = [one for one in user.get(f"{path}/attachments")["value"] if "reference" in one["@odata.type"]]
    assert len(links) == 1
    assert links[0]["name"]
    assert "contentBytes" not in links[0]
    assert user.get(path)["hasAttachments"] is True
    assert user.request("GET", f"{path}/attachments/{links[0]['id']}/$value").status_code == 405


def test_an_external_body_is_a_reference_attachment(user):
    raw = (
        b"From: ann@example.org\r\nSubject: Link\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n\r\nText\r\n'
        b'--b\r\nContent-Type: message/external-body; access-type=URL; URL="https://files.example.net/1";\r\n'
        b' name="Deck.pptx"\r\n\r\n\r\n--b--\r\n'
    )
    (link,) = user.get(f"{delivered(user, raw)}/attachments")["value"]
    assert (link["@odata.type"], link["name"]) == ("#microsoft.graph.referenceAttachment", "Deck.pptx")


def test_pages_and_counts_of_attachments(user):
    made = message()
    for number in range(5):
        made.add_attachment(b"x", maintype="application", subtype="pdf", filename=f"{number}.pdf")
    path = delivered(user, made)
    assert user.request("GET", f"{path}/attachments/$count").text == "5"
    found = user.pages(f"{path}/attachments", **{"$top": 2, "$select": "name"})
    assert [one["name"] for one in found] == [f"{number}.pdf" for number in range(5)]


def test_attachments_of_every_mail_kind_match_the_truth(sim, user):
    kinds = (
        "attachment",
        "inline-image",
        "nested",
        "forward",
        "signed",
        "invoice",
        "invoice-zip",
        "contract-note",
    )
    for kind in kinds:
        sim.deliver(user.address, kind=kind)
    for entry in sim.truth(user.address):
        shown = user.get(f"messages/{entry['id']}/attachments")["value"]
        files = [one for one in shown if one["@odata.type"].endswith("fileAttachment")]
        true = [
            one["sha256"]
            for one in entry.get("attachments", [])
            if not one.get("nested") and one["content_type"] != "message/rfc822"
        ]
        assert [hashlib.sha256(base64.b64decode(one["contentBytes"])).hexdigest() for one in files] == true


def test_attachment_ids_follow_the_id_type_and_belong_to_their_message(user, message_path):
    (first, _) = user.get(f"{message_path}/attachments")["value"]
    other = delivered(user, message())
    assert user.expect_error(404, f"{other}/attachments/{first['id']}")["code"] == "ErrorItemNotFound"
    assert user.expect_error(400, f"{message_path}/attachments/nonsense")["code"] == "ErrorInvalidIdMalformed"
    assert user.get(f"{message_path}/attachments/{first['id']}")["name"] == first["name"]


@pytest.mark.parametrize(
    "kind, part",
    [
        (
            "alternative",
            "Content-Type: text/calendar; method=REQUEST\r\n\r\nBEGIN:VCALENDAR\r\nEND:VCALENDAR",
        ),
        ("report", "Content-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example.org"),
    ],
)
def test_invitations_and_delivery_reports_are_no_attachments(user, kind, part):
    """RFC 6047, section 2.4, and RFC 3464: these parts are for programs, in the place of a body.

    "message resource type" (`hasAttachments`), https://learn.microsoft.com/graph/api/resources/message
    """
    text = "Content-Type: text/plain\r\n\r\nHello"
    parts = f"--b\r\n{text}\r\n--b\r\n{part}\r\n--b--\r\n"
    head = f"From: a@example.org\r\nContent-Type: multipart/{kind}; boundary=b"
    path = delivered(user, f"{head}\r\n\r\n{parts}".encode())
    shown = user.get(path, **{"$expand": "attachments"})
    assert (shown["hasAttachments"], shown["attachments"]) == (False, [])
    assert [entry["attachments"] for entry in user.simulation.truth(user.address)] == [[]]
