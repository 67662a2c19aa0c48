"""What a child does with the one file it was forked for."""

import codecs
import io
from typing import Final, assert_never

import msgspec
from PIL import Image

from postroom.documents.files import html_sanitizer, images, pdf, plain_text
from postroom.documents.files.file_type import FileType, decode_text, detect
from postroom.documents.files.html_sanitizer import MessageHtml
from postroom.documents.files.transcript import EmbeddedFile, FileReading, PartialReading, Transcript
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.ipc import BITMAP_HEADER, TaskRequest
from postroom.errors import UnreadableFile

# A page with a word on it, which is read once before the first child is made.
_SAMPLE: Final = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
    b"/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n"
    b"4 0 obj<</Length 28>>stream\nBT/F 9 Tf 9 9 Td(Sample)Tj ET\nendstream endobj\n"
    b"trailer<</Root 1 0 R>>\n%%EOF"
)


def read_file(content: bytes, _order: TaskRequest, limits: FileLimits) -> bytes:
    """What can be read without recognition."""
    return msgspec.msgpack.encode(_draft(content, limits))


def _draft(content: bytes, limits: FileLimits) -> PartialReading:
    found = detect(content)
    match found.kind:
        case FileType.PDF:
            return pdf.read(content, limits)
        case FileType.PNG | FileType.JPEG | FileType.TIFF:
            return images.read(content, found.kind, limits)
        case FileType.TEXT:
            return PartialReading(
                FileReading(_checked(plain_text.to_transcript(decode_text(content) or ""), limits))
            )
        case FileType.E_INVOICE:
            # It is its own exact data; there is no page to look at.
            return PartialReading(
                FileReading(Transcript("plain", (), ()), (EmbeddedFile("invoice.xml", content),))
            )
        case FileType.ZIP | FileType.MESSAGE:
            raise UnreadableFile("The file holds other files; it is opened, not read.")
        case FileType.OTHER:
            raise UnreadableFile(found.reason)
        case _:
            assert_never(found.kind)


def _checked(transcript: Transcript, limits: FileLimits) -> Transcript:
    if len(transcript.words) > limits.words:
        raise UnreadableFile(f"The text has more than {limits.words} words.")
    return transcript


def render_bitmap(content: bytes, order: TaskRequest, limits: FileLimits) -> bytes:
    """A page for recognition."""
    page = _page(content, order, limits)
    return BITMAP_HEADER.pack(*page.size) + page.tobytes()


def render_webp(content: bytes, order: TaskRequest, limits: FileLimits) -> memoryview:
    """A page for a browser."""
    encoded = io.BytesIO()
    _page(content, order, limits).save(encoded, "WEBP", quality=80, method=2)
    return encoded.getbuffer()


def _page(content: bytes, order: TaskRequest, limits: FileLimits) -> Image.Image:
    found = detect(content)
    if found.kind is FileType.PDF:
        return pdf.render(content, limits, page=order.page, within=order.within, turned=order.turned)
    if found.kind in images.PILLOW_FORMATS:
        return images.render(content, found.kind, page=order.page, within=order.within, turned=order.turned)
    raise UnreadableFile(found.reason or "The file has no pages to look at.")


def warm_up(limits: FileLimits) -> None:
    """Load and initialise what a child needs: it can open nothing itself."""
    images.limit_pixels()
    for encoding in ("utf-16", "utf-16-le", "utf-8-sig", "cp1252"):
        codecs.lookup(encoding)
    read_file(_SAMPLE, TaskRequest(0, "read"), limits)
    render_webp(_SAMPLE, TaskRequest(0, "image", within=(20, 20)), limits)
    for kind in images.PILLOW_FORMATS.values():
        encoded = io.BytesIO()
        Image.new("RGB", (8, 8)).save(encoded, kind)
        render_bitmap(encoded.getvalue(), TaskRequest(0, "bitmap", within=(20, 20)), limits)
    detect(b"<a/>")
    html_sanitizer.sanitize(
        html_sanitizer.encode_message_html(MessageHtml("<p>a", {})), TaskRequest(0, "letter"), limits
    )
