"""What a file is, is told from its bytes; names are not believed."""

import pytest

from documents.reading import hostile, samples
from postroom.documents.detect import Kind, detect

CII = b'<a:CrossIndustryInvoice xmlns:a="urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100"/>'
ZUGFERD_1 = b'<CrossIndustryDocument xmlns="urn:ferd:CrossIndustryDocument:invoice:1p0"/>'
UBL = b'<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"><a>1</a></Invoice>'
MESSAGE = b"From: Jane <jane@example.org>\r\nSubject: Invoice\r\n\r\nHello\r\n"
PDF = samples.pdf([(50, 700, "Invoice")])


@pytest.mark.parametrize(
    "content, kind",
    [
        (PDF, Kind.PDF),
        (b"\n\r " + PDF, Kind.PDF),
        (b"\x1b%-12345X@PJL SET COPIES=1\r\n" + PDF, Kind.PDF),
        (hostile.picture("PNG"), Kind.PNG),
        (hostile.picture("JPEG"), Kind.JPEG),
        (hostile.picture("JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0"), Kind.JPEG),
        (hostile.picture("TIFF"), Kind.TIFF),
        (hostile.picture("TIFF", big_tiff=True), Kind.TIFF),
        (hostile.archive({"a.txt": b"a"}), Kind.ZIP),
        (hostile.archive({"invoice.pdf": PDF}), Kind.ZIP),  # stored as it is: a PDF begins at byte 41
        (hostile.archive({}), Kind.ZIP),
        (MESSAGE, Kind.MESSAGE),
        (b"Received: from a\r\n by b\r\nX-Odd: 1\r\nDate: today\r\n", Kind.MESSAGE),
        (b"\r\n  \r\n" + MESSAGE, Kind.MESSAGE),
        (
            b"From  : a@example.org\r\nTo   : b@example.org\r\nDate: today\r\nbroken\r\n\r\nHello",
            Kind.MESSAGE,
        ),
        (b"Content-Type: multipart/mixed; boundary=a\r\n\r\n--a--", Kind.MESSAGE),
        (CII, Kind.E_INVOICE),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n" + ZUGFERD_1, Kind.E_INVOICE),
        (UBL, Kind.E_INVOICE),
        (UBL.decode().encode("utf-16"), Kind.E_INVOICE),
        ("Kauf 10 Stück Größe\n".encode(), Kind.TEXT),
        ("Kauf 10 Stück".encode("cp1252"), Kind.TEXT),
        (b"Achat 10 \x1c\x19 titres \xe0 12,50 le 14.03.2026, montant 125,00", Kind.TEXT),
        (b"Wertpapier: Muster AG\nBetrag: 12,00\n", Kind.TEXT),
    ],
)
def test_what_is_read_is_recognised_whatever_it_is_called(content, kind):
    assert detect(content).kind is kind
    assert detect(content, "program.exe").kind is kind


@pytest.mark.parametrize("group", ["polyglots", "blanks", "markup"])
def test_what_is_not_read_has_a_reason(group):
    for name, content in hostile.GROUPS[group]().items():
        found = detect(content)
        assert found.kind in {Kind.OTHER, Kind.TEXT, Kind.PDF}, name
        assert (found.kind is Kind.OTHER) is bool(found.reason), name


def test_a_file_that_is_two_things_is_neither():
    found = detect(PDF + hostile.archive({"a": b"a"}), "invoice.pdf")
    assert found.kind is Kind.OTHER
    assert "a PDF and a ZIP file at once" in found.reason


def test_a_wrong_name_is_said_in_the_reason():
    assert "called a PDF" in detect(b"\x7fELF\0\0\0", "invoice.PDF").reason
    assert "called" not in detect(b"\x7fELF\0\0\0", "invoice.bin").reason
