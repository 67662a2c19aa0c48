"""What a child does with the one file it was forked for."""

import codecs
import io
import struct
from typing import Final

import msgspec
from PIL import Image

from postroom.documents import pdf
from postroom.documents.limits import Limits
from postroom.documents.orders import Order

# Width and height before the pixels of a bitmap: three bytes each, red, green and blue, from the top left.
HEADER: Final = struct.Struct("<II")

# A page with a word on it, which is read once before the first child is made.
_SAMPLE: Final = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
    b"/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n"
    b"4 0 obj<</Length 28>>stream\nBT/F 9 Tf 9 9 Td(Sample)Tj ET\nendstream endobj\n"
    b"trailer<</Root 1 0 R>>\n%%EOF"
)


def read(content: bytes, order: Order, limits: Limits) -> bytes:
    del order
    return msgspec.msgpack.encode(pdf.read(content, limits))


def bitmap(content: bytes, order: Order, limits: Limits) -> bytes:
    """A page for recognition."""
    page = _page(content, order, limits)
    return HEADER.pack(*page.size) + page.tobytes()


def image(content: bytes, order: Order, limits: Limits) -> memoryview:
    """A page for a browser."""
    encoded = io.BytesIO()
    _page(content, order, limits).save(encoded, "WEBP", quality=80, method=2)
    return encoded.getbuffer()


def _page(content: bytes, order: Order, limits: Limits) -> Image.Image:
    return pdf.render(content, limits, page=order.page, width=order.width, turned=order.turned)


def warm_up(limits: Limits) -> None:
    """Load and initialise what a child needs: it can open nothing itself."""
    Image.init()
    codecs.lookup("utf-16-le")
    read(_SAMPLE, Order(0, "read"), limits)
    image(_SAMPLE, Order(0, "image", width=20), limits)
