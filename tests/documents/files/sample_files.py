"""Sample files written by the tests."""

import io

import pypdfium2
from PIL import Image
from pypdf import PdfReader, PdfWriter
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen import canvas

A4 = (595.0, 842.0)
A6 = (298.0, 420.0)
PAGE_LINES = [
    "Muster GmbH, Lange Straße 12",
    "Rechnung Nr. RE-2026-0815",
    "Datum: 14.03.2026",
    "Wartung der Geräte im März",
    "Prüfung und Montage vor Ort",
    "Nettobetrag 1.037,45 EUR",
    "Umsatzsteuer 197,12 EUR",
    "Gesamtbetrag 1.234,57 EUR",
    "IBAN DE89 3704 0044 0532 0130 00",
    "Zahlbar bis zum 28.03.2026",
]


def pdf(*pages, size=A4, rotate=0, drawn=0):
    """A PDF; each page is a list of (x, y, text), y counted from the bottom.

    `rotate` is what the file says of its pages; `drawn` turns the text itself, to the left.
    """
    written = io.BytesIO()
    drawing = canvas.Canvas(written, pagesize=size)
    for page in pages:
        drawing.setPageRotation(rotate)
        if drawn:
            drawing.translate(size[0] / 2, size[1] / 2)
            drawing.rotate(drawn)
            drawing.translate(-size[1] / 2 if drawn % 180 else -size[0] / 2, 0)
        for x, y, text in page:
            drawing.drawString(x, y, text)
        drawing.showPage()
    drawing.save()
    return written.getvalue()


def form(label, value):
    """A page with a field that a person filled in."""
    written = io.BytesIO()
    drawing = canvas.Canvas(written, pagesize=(300, 200))
    drawing.drawString(20, 150, label)
    drawing.acroForm.textfield(name="field", value=value, x=150, y=143, width=120, height=24, fontSize=12)
    drawing.save()
    return written.getvalue()


def with_files(content, **files):
    """The PDF with files inside."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(content)))
    for name, inside in files.items():
        writer.add_attachment(name.replace("_", "."), inside)
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def page_pdf(size=A6, lines=PAGE_LINES):
    return pdf([(24, size[1] - 40 - 36 * number, text) for number, text in enumerate(lines)], size=size)


def picture(content, *, dots=150, turn=0):
    """The first page as a scanner sees it, turned clockwise by this many degrees."""
    page = pypdfium2.PdfDocument(content)[0].render(scale=dots / 72).to_pil()
    return page.convert("L").rotate(-turn, expand=True)


def encoded(first, kind, *more, **options):
    written = io.BytesIO()
    extra = {"save_all": True, "append_images": list(more)} if more else {}
    first.save(written, kind, **extra, **options)
    return written.getvalue()


def scanned_pdf(*pictures, size=A6, note="", last=""):
    """A PDF of pictures with a note from the scanner's maker in the text layer, and a last page of text."""
    written = io.BytesIO()
    drawing = canvas.Canvas(written, pagesize=size)
    for each in pictures:
        drawing.drawImage(ImageReader(each), 0, 0, *size)
        drawing.drawString(5, 5, note)
        drawing.showPage()
    if last:
        drawing.drawString(5, 200, last)
    drawing.save()
    return written.getvalue()


def blank(size=(40, 30)):
    return Image.new("L", size, 255)
