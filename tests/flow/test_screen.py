"""D1, D2: what a pipeline takes of a mailbox's mail, each verdict with its reason."""

from dataclasses import replace

import pytest

from postroom.documents import pipelines
from postroom.documents.fields import einvoice_xml
from postroom.documents.files.file_type import Kind, detect
from postroom.flow.documents import screen
from postroom.flow.documents.screen import Fate, File, Mail
from postroom.model import FolderRole

PIPELINE = pipelines.parse('[invoices]\nkind = "invoice"', place="test", kinds={"invoice"})["invoices"]
MAIL = Mail(
    mailbox="ap@example.org",
    sender="billing@supplier.example",
    folder_names=("Inbox",),
    folder_roles=frozenset({FolderRole.INBOX}),
    is_draft=False,
    attachments=1,
)
PDF = File(
    "file", "invoice.pdf", "application/pdf", 20_000, is_inline=False, detected=screen.detected(b"%PDF-1.7\n")
)


def test_received_mail_with_an_attachment_is_taken():
    assert screen.mail(PIPELINE, MAIL).accepted


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
    verdict = screen.mail(PIPELINE, replace(MAIL, **change))
    assert not verdict.accepted
    assert words in verdict.reason


@pytest.mark.parametrize(
    "file, fate",
    [
        (PDF, Fate.TAKE),
        (replace(PDF, name="scan", media_type="application/octet-stream"), Fate.TAKE),
        (
            replace(
                PDF, name="photo.JPG", media_type="image/jpeg", detected=screen.detected(b"\xff\xd8\xff\xe0")
            ),
            Fate.TAKE,
        ),
        (
            replace(PDF, name="scan.tif", media_type="image/tiff", detected=screen.detected(b"II*\0")),
            Fate.TAKE,
        ),
        (
            replace(
                PDF,
                name="xrechnung.xml",
                media_type="text/xml",
                detected=screen.detected(b"<?xml version='1.0'?>"),
            ),
            Fate.TAKE,
        ),
        (
            replace(
                PDF, name="all.zip", media_type="application/zip", detected=screen.detected(b"PK\x03\x04")
            ),
            Fate.OPEN,
        ),
        (replace(PDF, kind="item", name="Fwd", media_type="message/rfc822", detected=None), Fate.OPEN),
        (
            replace(
                PDF,
                name="mail.eml",
                media_type="application/octet-stream",
                detected=screen.detected(b"From: a"),
            ),
            Fate.OPEN,
        ),
        (
            replace(
                PDF,
                name="logo.png",
                is_inline=True,
                content_id="logo",
                detected=screen.detected(b"\x89PNG\r\n\x1a\n"),
            ),
            Fate.LEAVE,
        ),
        (replace(PDF, is_inline=True), Fate.TAKE),
        (replace(PDF, is_inline=True, content_id="shown"), Fate.LEAVE),
        (replace(PDF, name="smime.p7s", media_type="application/pkcs7-signature"), Fate.LEAVE),
        (replace(PDF, name="invite.ics", media_type="text/calendar"), Fate.LEAVE),
        (replace(PDF, name="card.vcf", media_type="text/vcard"), Fate.LEAVE),
        (replace(PDF, size=25_000_001), Fate.LEAVE),
        (replace(PDF, size=25_000_000), Fate.TAKE),
        (replace(PDF, size=0), Fate.LEAVE),
        (replace(PDF, kind="reference"), Fate.LEAVE),
        (replace(PDF, detected=screen.detected(b"MZ\x90\0")), Fate.LEAVE),
        (
            replace(PDF, name="notes.txt", media_type="text/plain", detected=screen.detected(b"hello")),
            Fate.LEAVE,
        ),
        (replace(PDF, detected=None), Fate.TAKE),
        (
            replace(
                PDF,
                name="invoice.pdf.exe",
                media_type="application/x-msdownload",
                detected=screen.detected(b"MZ"),
            ),
            Fate.LEAVE,
        ),
    ],
)
def test_attachments_are_judged_by_bytes_as_well_as_by_name(file, fate):
    verdict = screen.attachment(file)
    assert verdict.fate is fate
    assert verdict.reason


def test_a_name_that_lies_is_told():
    assert (
        "called PDF, but its bytes are not"
        in screen.attachment(replace(PDF, detected=screen.detected(b"MZ\x90\0"))).reason
    )


UBL = "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"
BILL = f'<ubl:Invoice xmlns:ubl="{UBL}"><ubl:ID>1</ubl:ID></ubl:Invoice>'


@pytest.mark.parametrize(
    "content, found",
    [
        (BILL.encode(), "xml"),
        (f"\ufeff<!-- one -->\n{BILL}".encode(), "xml"),
        (f'<?xml version="1.0" encoding="UTF-16"?>{BILL}'.encode("utf-16"), "xml"),
        (BILL.encode("utf-16"), "xml"),
        (f'<?xml version="1.0" encoding="UTF-16"?>{BILL}'.encode("utf-16-be"), "xml"),
        (b"<html><Invoice>1</Invoice></html>", "other"),
        (b"<Invoices>1</Invoices>", "other"),
        ("Invoice".encode("utf-16"), "other"),
    ],
)
def test_an_e_invoice_is_known_in_every_encoding_and_without_a_declaration(content, found):
    assert screen.detected(content[:1024]) == found
    assert (detect(content).kind is Kind.E_INVOICE) == (found == "xml")
    assert (einvoice_xml.parse(content, name="x") is not None) == (found == "xml")
