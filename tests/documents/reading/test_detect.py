"""What a file is, is told from its bytes; names are not believed."""

import pytest

from documents.reading import hostile, samples
from postroom.documents.files.file_type import FileType, detect

CII = b'<a:CrossIndustryInvoice xmlns:a="urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100"/>'
ZUGFERD_1 = b'<CrossIndustryDocument xmlns="urn:ferd:CrossIndustryDocument:invoice:1p0"/>'
UBL = b'<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"><a>1</a></Invoice>'
MESSAGE = b"From: Jane <jane@example.org>\r\nSubject: Invoice\r\n\r\nHello\r\n"
PDF = samples.pdf([(50, 700, "Invoice")])


@pytest.mark.parametrize(
    "content, kind",
    [
        (PDF, FileType.PDF),
        (b"\n\r " + PDF, FileType.PDF),
        (b"\x1b%-12345X@PJL SET COPIES=1\r\n" + PDF, FileType.PDF),
        (hostile.picture("PNG"), FileType.PNG),
        (hostile.picture("JPEG"), FileType.JPEG),
        (hostile.picture("JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0"), FileType.JPEG),
        (hostile.picture("TIFF"), FileType.TIFF),
        (hostile.picture("TIFF", big_tiff=True), FileType.TIFF),
        (hostile.archive({"a.txt": b"a"}), FileType.ZIP),
        (hostile.archive({"invoice.pdf": PDF}), FileType.ZIP),  # stored as it is: a PDF begins at byte 41
        (hostile.archive({}), FileType.ZIP),
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
def test_what_is_read_is_recognised_whatever_it_is_called(content, kind):
    assert detect(content).kind is kind
    assert detect(content, "program.exe").kind is kind


@pytest.mark.parametrize("group", ["polyglots", "blanks", "markup"])
def test_what_is_not_read_has_a_reason(group):
    for name, content in hostile.GROUPS[group]().items():
        found = detect(content)
        assert found.kind in {FileType.OTHER, FileType.TEXT, FileType.PDF}, name
        assert (found.kind is FileType.OTHER) is bool(found.reason), name


def test_a_file_that_is_two_things_is_neither():
    found = detect(PDF + hostile.archive({"a": b"a"}), "invoice.pdf")
    assert found.kind is FileType.OTHER
    assert "a PDF and a ZIP file at once" in found.reason


def test_a_wrong_name_is_said_in_the_reason():
    assert "called a PDF" in detect(b"\x7fELF\0\0\0", "invoice.PDF").reason
    assert "called" not in detect(b"\x7fELF\0\0\0", "invoice.bin").reason
