"""The type of a file is detected from its bytes, never from its name."""

import pytest

from documents.files import hostile_files, sample_files
from postroom.documents.files.file_type import FileType, detect

CII = b'<a:CrossIndustryInvoice xmlns:a="urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100"/>'
ZUGFERD_1 = b'<CrossIndustryDocument xmlns="urn:ferd:CrossIndustryDocument:invoice:1p0"/>'
UBL = b'<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"><a>1</a></Invoice>'
MESSAGE = b"From: Jane <jane@example.org>\r\nSubject: Invoice\r\n\r\nHello\r\n"
PDF = sample_files.pdf([(50, 700, "Invoice")])


@pytest.mark.parametrize(
    "content, file_type",
    [
        (PDF, FileType.PDF),
        (b"\n\r " + PDF, FileType.PDF),
        (b"\x1b%-12345X@PJL SET COPIES=1\r\n" + PDF, FileType.PDF),
        (hostile_files.picture("PNG"), FileType.PNG),
        (hostile_files.picture("JPEG"), FileType.JPEG),
        (hostile_files.picture("JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0"), FileType.JPEG),
        (hostile_files.picture("TIFF"), FileType.TIFF),
        (hostile_files.picture("TIFF", big_tiff=True), FileType.TIFF),
        (hostile_files.archive({"a.txt": b"a"}), FileType.ZIP),
        (
            hostile_files.archive({"invoice.pdf": PDF}),
            FileType.ZIP,
        ),  # stored as it is: a PDF begins at byte 41
        (hostile_files.archive({}), FileType.ZIP),
        (hostile_files.tnef({"invoice.pdf": PDF}), FileType.TNEF),  # a PDF begins in the first bytes
        (MESSAGE, FileType.MESSAGE),
        (b"Received: from a\r\n by b\r\nX-Odd: 1\r\nDate: today\r\n", FileType.MESSAGE),
        (b"\r\n  \r\n" + MESSAGE, FileType.MESSAGE),
        (
            b"From  : a@example.org\r\nTo   : b@example.org\r\nDate: today\r\nbroken\r\n\r\nHello",
            FileType.MESSAGE,
        ),
        (b"Content-Type: multipart/mixed; boundary=a\r\n\r\n--a--", FileType.MESSAGE),
        (CII, FileType.E_INVOICE),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n" + ZUGFERD_1, FileType.E_INVOICE),
        (UBL, FileType.E_INVOICE),
        (UBL.decode().encode("utf-16"), FileType.E_INVOICE),
        ("Kauf 10 Stück Größe\n".encode(), FileType.TEXT),
        ("Kauf 10 Stück".encode("cp1252"), FileType.TEXT),
        (b"Achat 10 \x1c\x19 titres \xe0 12,50 le 14.03.2026, montant 125,00", FileType.TEXT),
        (b"Wertpapier: Muster AG\nBetrag: 12,00\n", FileType.TEXT),
    ],
)
def test_the_type_is_detected_from_the_bytes_whatever_the_name(content, file_type):
    assert detect(content).file_type is file_type
    assert detect(content, "program.exe").file_type is file_type


@pytest.mark.parametrize("group", ["polyglots", "blanks", "markup"])
def test_every_unsupported_file_has_a_reason(group):
    for name, content in hostile_files.GROUPS[group]().items():
        found = detect(content)
        assert found.file_type in {FileType.OTHER, FileType.TEXT, FileType.PDF}, name
        assert (found.file_type is FileType.OTHER) is bool(found.reason), name


def test_a_file_with_two_signatures_is_rejected():
    found = detect(PDF + hostile_files.archive({"a": b"a"}), "invoice.pdf")
    assert found.file_type is FileType.OTHER
    assert "valid as both a PDF and a ZIP file" in found.reason


def test_a_misleading_name_is_part_of_the_reason():
    assert "named like a PDF" in detect(b"\x7fELF\0\0\0", "invoice.PDF").reason
    assert "named" not in detect(b"\x7fELF\0\0\0", "invoice.bin").reason
