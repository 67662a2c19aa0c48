"""D1, D2: which mail of a mailbox a pipeline accepts, each verdict with its reason."""

from dataclasses import replace

import pytest

import growth
from postroom.documents import pipelines
from postroom.documents.fields import einvoice_xml
from postroom.documents.files.file_type import FileType, detect
from postroom.flow.documents import screen
from postroom.flow.documents.screen import AttachmentFacts, MessageFacts, ScreeningAction
from postroom.model import FolderRole

PIPELINE = pipelines.parse('[invoices]\nkind = "invoice"', place="test", kinds={"invoice"})["invoices"]
MAIL = MessageFacts(
    mailbox="ap@example.org",
    sender="billing@supplier.example",
    folder_names=("Inbox",),
    folder_roles=frozenset({FolderRole.INBOX}),
    is_draft=False,
    attachments=1,
)
PDF = AttachmentFacts(
    "file",
    "invoice.pdf",
    "application/pdf",
    20_000,
    is_inline=False,
    detected=screen.detect_type(b"%PDF-1.7\n"),
)


def test_received_mail_with_an_attachment_is_taken():
    assert screen.screen_message(PIPELINE, MAIL).accepted


@pytest.mark.parametrize(
    "change, words",
    [
        ({"folder_roles": frozenset({FolderRole.SPAM})}, "spam"),
        ({"folder_roles": frozenset({FolderRole.SENT})}, "sent"),
        ({"is_draft": True}, "draft"),
        ({"attachments": 0}, "no attachment"),
    ],
)
def test_mail_that_can_hold_no_document_is_left_with_the_reason(change, words):
    verdict = screen.screen_message(PIPELINE, replace(MAIL, **change))
    assert not verdict.accepted
    assert words in verdict.reason


@pytest.mark.parametrize(
    "file, fate",
    [
        (PDF, ScreeningAction.TAKE),
        (replace(PDF, name="scan", media_type="application/octet-stream"), ScreeningAction.TAKE),
        (
            replace(
                PDF,
                name="photo.JPG",
                media_type="image/jpeg",
                detected=screen.detect_type(b"\xff\xd8\xff\xe0"),
            ),
            ScreeningAction.TAKE,
        ),
        (
            replace(PDF, name="scan.tif", media_type="image/tiff", detected=screen.detect_type(b"II*\0")),
            ScreeningAction.TAKE,
        ),
        (
            replace(
                PDF,
                name="xrechnung.xml",
                media_type="text/xml",
                detected=screen.detect_type(b"<?xml version='1.0'?>"),
            ),
            ScreeningAction.TAKE,
        ),
        (
            replace(
                PDF, name="all.zip", media_type="application/zip", detected=screen.detect_type(b"PK\x03\x04")
            ),
            ScreeningAction.OPEN,
        ),
        (
            replace(PDF, kind="item", name="Fwd", media_type="message/rfc822", detected=None),
            ScreeningAction.OPEN,
        ),
        (
            replace(
                PDF,
                name="mail.eml",
                media_type="application/octet-stream",
                detected=screen.detect_type(b"From: a"),
            ),
            ScreeningAction.OPEN,
        ),
        (
            replace(
                PDF,
                name="logo.png",
                is_inline=True,
                content_id="logo",
                detected=screen.detect_type(b"\x89PNG\r\n\x1a\n"),
            ),
            ScreeningAction.IGNORE,
        ),
        (replace(PDF, is_inline=True), ScreeningAction.TAKE),
        (replace(PDF, is_inline=True, content_id="shown"), ScreeningAction.IGNORE),
        (replace(PDF, name="smime.p7s", media_type="application/pkcs7-signature"), ScreeningAction.IGNORE),
        (replace(PDF, name="invite.ics", media_type="text/calendar"), ScreeningAction.IGNORE),
        (replace(PDF, name="card.vcf", media_type="text/vcard"), ScreeningAction.IGNORE),
        (replace(PDF, size=25_000_001), ScreeningAction.IGNORE),
        (replace(PDF, size=25_000_000), ScreeningAction.TAKE),
        (replace(PDF, size=0), ScreeningAction.IGNORE),
        (replace(PDF, kind="reference"), ScreeningAction.IGNORE),
        (replace(PDF, detected=screen.detect_type(b"MZ\x90\0")), ScreeningAction.IGNORE),
        (
            replace(PDF, name="notes.txt", media_type="text/plain", detected=screen.detect_type(b"hello")),
            ScreeningAction.IGNORE,
        ),
        (replace(PDF, detected=None), ScreeningAction.TAKE),
        (
            replace(
                PDF,
                name="invoice.pdf.exe",
                media_type="application/x-msdownload",
                detected=screen.detect_type(b"MZ"),
            ),
            ScreeningAction.IGNORE,
        ),
    ],
)
def test_attachments_are_judged_by_bytes_as_well_as_by_name(file, fate):
    verdict = screen.screen_attachment(file)
    assert verdict.action is fate
    assert verdict.reason


def test_a_misleading_file_name_is_reported():
    assert (
        "named as PDF, but its content is not"
        in screen.screen_attachment(replace(PDF, detected=screen.detect_type(b"MZ\x90\0"))).reason
    )


UBL = "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"
BILL = f'<ubl:Invoice xmlns:ubl="{UBL}"><ubl:ID>1</ubl:ID></ubl:Invoice>'


@pytest.mark.parametrize(
    "content, found",
    [
        (BILL.encode(), "xml"),
        (f"\ufeff<!-- one -->\n{BILL}".encode(), "xml"),
        (f"<!-- one --><?style sheet?>\n<!----><!-- > -->{BILL}".encode(), "xml"),
        (f"<!-- one {BILL}".encode(), "other"),
        (f'<?xml version="1.0" encoding="UTF-16"?>{BILL}'.encode("utf-16"), "xml"),
        (BILL.encode("utf-16"), "xml"),
        (f'<?xml version="1.0" encoding="UTF-16"?>{BILL}'.encode("utf-16-be"), "xml"),
        (b"<html><Invoice>1</Invoice></html>", "other"),
        (b"<Invoices>1</Invoices>", "other"),
        ("Invoice".encode("utf-16"), "other"),
    ],
)
def test_an_e_invoice_is_known_in_every_encoding_and_without_a_declaration(content, found):
    assert screen.detect_type(content[:1024]) == found
    assert (detect(content).file_type is FileType.E_INVOICE) == (found == "xml")
    assert (einvoice_xml.parse_einvoice(content, name="x") is not None) == (found == "xml")


@pytest.mark.parametrize("piece", ["<!---->", "<!---->\n", "<?x?>", " ", "a:"])
def test_no_beginning_of_a_file_makes_its_detection_slow(piece):
    growth.assert_linear(lambda n: f"<!--{piece * n}".encode(), screen.detect_type)
    growth.assert_linear(lambda n: f"{piece * n}<x".encode(), screen.detect_type)
