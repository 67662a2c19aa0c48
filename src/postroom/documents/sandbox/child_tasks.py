"""The tasks of a child that gets a file: read, unpack, decrypt or split it, render a page.

`zygote` forks the child and limits it. The task that sanitizes HTML is in `files.html_sanitizer`;
`analysis_tasks` has those of a child that gets what was read.
"""

import codecs
import contextlib
import encodings.aliases
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, assert_never

import msgspec
from PIL import Image

from postroom.documents.files import html_sanitizer, images, pdf, plain_text
from postroom.documents.files.container_decoders import CONTAINER_DECODERS
from postroom.documents.files.file_reading import EmbeddedFile, FileReading, PartialReading, Transcript
from postroom.documents.files.file_type import DetectedType, FileType, decode_text, detect
from postroom.documents.files.html_sanitizer import MessageHtml
from postroom.documents.files.unpack import ContainerEntry, UnpackedFile, UnpackLimits, unpack
from postroom.documents.page_ranges import PageRange
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.ipc import BITMAP_HEADER, ChildTask, TaskRequest
from postroom.errors import UnreadableFile

# One page with one word, read once before the first child is forked.
_SAMPLE_PDF: Final = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
    b"/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n"
    b"4 0 obj<</Length 28>>stream\nBT/F 9 Tf 9 9 Td(Sample)Tj ET\nendstream endobj\n"
    b"trailer<</Root 1 0 R>>\n%%EOF"
)

_SAMPLE_MESSAGE: Final = (
    b"From: =?iso-8859-1?q?a?= <a@example.com>\r\nDate: Mon, 1 Jan 2024 10:00:00 +0100\r\nSubject: a\r\n"
    b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>a\r\n--b\r\n"
    b'Content-Disposition: attachment; filename="a.txt"\r\nContent-Transfer-Encoding: base64\r\n\r\nYQ==\r\n'
    b"--b--\r\n"
)


def read_file(content: bytes, _request: TaskRequest, limits: FileLimits) -> bytes:
    """Read everything that needs no OCR."""
    detected = detect(content)
    partial = _read_by_type(content, detected, limits)
    reading = replace(partial.reading, media_type=detected.file_type.value)
    return msgspec.msgpack.encode(replace(partial, reading=reading))


def unpack_container(content: bytes, request: TaskRequest, _limits: FileLimits) -> bytes:
    """Unpack a ZIP file, a message or a winmail.dat file."""
    unpack_limits = UnpackLimits(free_bytes=UnpackLimits().free_bytes // request.containers)
    return msgspec.msgpack.encode(
        [
            ContainerEntry(unpacked=each) if isinstance(each, UnpackedFile) else ContainerEntry(skipped=each)
            for each in unpack(content, request.name, CONTAINER_DECODERS, unpack_limits)
        ]
    )


def _read_by_type(content: bytes, detected: DetectedType, limits: FileLimits) -> PartialReading:
    match detected.file_type:
        case FileType.PDF:
            return pdf.read(content, limits)
        case FileType.PNG | FileType.JPEG | FileType.TIFF:
            return images.read(content, detected.file_type, limits)
        case FileType.TEXT:
            transcript = plain_text.to_transcript(decode_text(content) or "")
            return PartialReading(FileReading(_check_word_count(transcript, limits)))
        case FileType.E_INVOICE:
            # All data is in the XML; there is no page to look at.
            empty = Transcript("plain", (), ())
            return PartialReading(FileReading(empty, (EmbeddedFile("invoice.xml", content),)))
        case FileType.ZIP | FileType.MESSAGE | FileType.TNEF:
            raise UnreadableFile("The file is a container; only the files inside are read.")
        case FileType.OTHER if detected.is_foreign:
            return PartialReading(FileReading(Transcript("plain", (), ()), skip_reason=detected.reason))
        case FileType.OTHER:
            raise UnreadableFile(detected.reason)
        case _:
            assert_never(detected.file_type)


def _check_word_count(transcript: Transcript, limits: FileLimits) -> Transcript:
    if len(transcript.words) > limits.words:
        raise UnreadableFile(f"The text has more than {limits.words} words.")
    return transcript


def render_bitmap(content: bytes, request: TaskRequest, limits: FileLimits) -> bytes:
    """Render a page for OCR."""
    page = _render_page(content, request, limits)
    return BITMAP_HEADER.pack(*page.size) + page.tobytes()


def render_webp(content: bytes, request: TaskRequest, limits: FileLimits) -> memoryview:
    """Render a page for a browser."""
    encoded = io.BytesIO()
    _render_page(content, request, limits).save(encoded, "WEBP", quality=80, method=2)
    return encoded.getbuffer()


def decrypt(content: bytes, request: TaskRequest, limits: FileLimits) -> bytes:
    """Remove the encryption of a PDF."""
    return pdf.decrypt(content, limits, request.password)


def split(content: bytes, request: TaskRequest, limits: FileLimits) -> bytes:
    """Split a PDF into files of some of its pages."""
    return msgspec.msgpack.encode(pdf.split(content, limits, request.ranges))


def _render_page(content: bytes, request: TaskRequest, limits: FileLimits) -> Image.Image:
    detected = detect(content)
    page, fit_within, rotation = request.page, request.fit_within, request.rotation
    if detected.file_type is FileType.PDF:
        return pdf.render(content, limits, page=page, fit_within=fit_within, rotation=rotation)
    if detected.file_type in images.PILLOW_FORMATS:
        return images.render(content, detected.file_type, page=page, fit_within=fit_within, rotation=rotation)
    raise UnreadableFile(detected.reason or "The file has no pages to show.")


def _sample_containers() -> Iterator[bytes]:
    """ZIP files with each compression method, and a message."""
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", method) as archive:
            archive.writestr("a.txt", "Sample")
        yield packed.getvalue()
    yield _SAMPLE_MESSAGE


def warm_up(limits: FileLimits) -> None:
    """Load and initialize what a child needs, because a child can open no file itself."""
    images.limit_pixels()
    for encoding in sorted(set(encodings.aliases.aliases.values())):
        with contextlib.suppress(LookupError):  # those of another operating system
            codecs.lookup(encoding)
    read_file(_SAMPLE_PDF, TaskRequest(0, "read"), limits)
    render_webp(_SAMPLE_PDF, TaskRequest(0, "image", fit_within=(20, 20)), limits)
    decrypt(_SAMPLE_PDF, TaskRequest(0, "decrypt"), limits)
    split(_SAMPLE_PDF, TaskRequest(0, "split", ranges=(PageRange(1, 1),)), limits)
    for pillow_format in images.PILLOW_FORMATS.values():
        encoded = io.BytesIO()
        Image.new("RGB", (8, 8)).save(encoded, pillow_format)
        render_bitmap(encoded.getvalue(), TaskRequest(0, "bitmap", fit_within=(20, 20)), limits)
    detect(b"<a/>")
    for container in _sample_containers():
        unpack_container(container, TaskRequest(0, "unpack", name="a"), limits)
    sample_html = html_sanitizer.encode_message_html(MessageHtml("<p>a", {}))
    html_sanitizer.sanitize(sample_html, TaskRequest(0, "sanitize_html"), limits)


TASKS: Final[Mapping[str, ChildTask]] = {
    "read": read_file,
    "unpack": unpack_container,
    "bitmap": render_bitmap,
    "image": render_webp,
    "decrypt": decrypt,
    "split": split,
    "sanitize_html": html_sanitizer.sanitize,
}
