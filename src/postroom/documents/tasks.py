"""What a child does with the one file it was forked for."""

import codecs
import io
from typing import Final, assert_never

import msgspec
from PIL import Image

from postroom.documents import html_sanitizer, pdf, pictures, plain
from postroom.documents.detect import Kind, detect, text_of
from postroom.documents.html_sanitizer import Letter
from postroom.documents.ipc import BITMAP, Order
from postroom.documents.limits import Limits
from postroom.documents.transcript import Draft, EmbeddedFile, Reading, Transcript
from postroom.errors import Unreadable

# A page with a word on it, which is read once before the first child is made.
_SAMPLE: Final = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
    b"/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n"
    b"4 0 obj<</Length 28>>stream\nBT/F 9 Tf 9 9 Td(Sample)Tj ET\nendstream endobj\n"
    b"trailer<</Root 1 0 R>>\n%%EOF"
)


def read(content: bytes, _order: Order, limits: Limits) -> bytes:
    """What can be read without recognition."""
    return msgspec.msgpack.encode(_draft(content, limits))


def _draft(content: bytes, limits: Limits) -> Draft:
    found = detect(content)
    match found.kind:
        case Kind.PDF:
            return pdf.read(content, limits)
        case Kind.PNG | Kind.JPEG | Kind.TIFF:
            return pictures.read(content, found.kind, limits)
        case Kind.TEXT:
            return Draft(Reading(_checked(plain.transcribe(text_of(content) or ""), limits)))
        case Kind.E_INVOICE:
            # It is its own exact data; there is no page to look at.
            return Draft(Reading(Transcript("plain", (), ()), (EmbeddedFile("invoice.xml", content),)))
        case Kind.ZIP | Kind.MESSAGE:
            raise Unreadable("The file holds other files; it is opened, not read.")
        case Kind.OTHER:
            raise Unreadable(found.reason)
        case _:
            assert_never(found.kind)


def _checked(transcript: Transcript, limits: Limits) -> Transcript:
    if len(transcript.words) > limits.words:
        raise Unreadable(f"The text has more than {limits.words} words.")
    return transcript


def bitmap(content: bytes, order: Order, limits: Limits) -> bytes:
    """A page for recognition."""
    page = _page(content, order, limits)
    return BITMAP.pack(*page.size) + page.tobytes()


def image(content: bytes, order: Order, limits: Limits) -> memoryview:
    """A page for a browser."""
    encoded = io.BytesIO()
    _page(content, order, limits).save(encoded, "WEBP", quality=80, method=2)
    return encoded.getbuffer()


def _page(content: bytes, order: Order, limits: Limits) -> Image.Image:
    found = detect(content)
    if found.kind is Kind.PDF:
        return pdf.render(content, limits, page=order.page, within=order.within, turned=order.turned)
    if found.kind in pictures.FORMATS:
        return pictures.render(content, found.kind, page=order.page, within=order.within, turned=order.turned)
    raise Unreadable(found.reason or "The file has no pages to look at.")


def warm_up(limits: Limits) -> None:
    """Load and initialise what a child needs: it can open nothing itself."""
    pictures.limit_pixels()
    for encoding in ("utf-16", "utf-16-le", "utf-8-sig", "cp1252"):
        codecs.lookup(encoding)
    read(_SAMPLE, Order(0, "read"), limits)
    image(_SAMPLE, Order(0, "image", within=(20, 20)), limits)
    for kind in pictures.FORMATS.values():
        encoded = io.BytesIO()
        Image.new("RGB", (8, 8)).save(encoded, kind)
        bitmap(encoded.getvalue(), Order(0, "bitmap", within=(20, 20)), limits)
    detect(b"<a/>")
    html_sanitizer.cleaned(html_sanitizer.encoded(Letter("<p>a", {})), Order(0, "letter"), limits)
