"""PDF files: text layer, embedded files and page images, by pdfium.

A hostile file can crash pdfium, so this runs only in the sandbox.
"""

import ctypes
import hashlib
import io
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pypdfium2
from PIL import Image

from postroom.documents.files.file_reading import (
    EmbeddedFile,
    FileReading,
    PartialReading,
    Rotation,
    Transcript,
    TranscriptPage,
    Word,
    to_rotation,
)
from postroom.documents.files.line_layout import PlacedWord, arrange_in_lines
from postroom.documents.page_ranges import PageRange
from postroom.documents.sandbox.file_limits import MAX_PAGE_PIXELS, FileLimits
from postroom.errors import PasswordRequired, UnreadableFile

# Bindings generated at run time, without types.
pdfium: Any = pypdfium2
raw: Any = pypdfium2.raw

_Corners = tuple[float, float, float, float]
_BoxTransform = Callable[[float, float, float, float], _Corners]
# Fewer characters than this on a page that images fill are a stamp on a scan, not its text.
_SPARSE_CHARACTERS: Final = 100
_MIN_CHARACTERS: Final = 8
_MANY_OBJECTS: Final = 20
# Small pages are rendered with at most 300 dpi.
_MAX_SCALE: Final = 300 / 72
_MAX_GARBAGE_SHARE: Final = 0.2
_SCAN_COVERAGE: Final = 0.5
# A space is at least a quarter of the line height wide.
_NARROW_GAP: Final = 0.15
_MAX_ANNOTATIONS: Final = 100
# pdfium reports a hyphen at the end of a line as one of these.
_HYPHENS: Final = str.maketrans({"\x02": "-", "\ufffe": "-", "\xad": "-"})
_WORD: Final = re.compile(r"[^\s\x00]+")
_LIGATURES: Final = re.compile("[\ufb00-\ufb06]")
_UNUSUAL: Final = re.compile("[\u0300-\u036f\ufb00-\ufb06]")
# Fonts without a character map yield NUL, private-use and control characters, and replacement characters.
_GARBAGE: Final = re.compile("[\x00\x01\x03-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")

# The last entry of the trailer that pdfium writes. It derives the ID from an address in memory.
_FILE_ID: Final = re.compile(rb"/ID\[<[0-9A-F]{32}><[0-9A-F]{32}>\](?=>>\s+startxref)")


def open_document(content: bytes, limits: FileLimits, *, password: str | None = None) -> Any:
    """Open a PDF and check its length."""
    try:
        document = pdfium.PdfDocument(content, password=password)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD:
            if password is None:
                raise PasswordRequired("The PDF is encrypted and needs a password.") from None
            raise PasswordRequired("The password is wrong. Enter the password of this PDF.") from None
        raise UnreadableFile("The PDF cannot be opened: it is damaged or incomplete.") from None
    count = len(document)
    if count == 0:
        raise UnreadableFile("The PDF has no pages.")
    if count > limits.pages:
        raise UnreadableFile(f"The PDF has {count} pages; the limit is {limits.pages}.")
    if document.get_formtype() != raw.FORMTYPE_NONE:
        document.init_forms()  # renders form fields that have no appearance of their own
    # Neither the document nor its pages are closed: the child ends soon, and elsewhere finalizers close them.
    return document


def read(content: bytes, limits: FileLimits) -> PartialReading:
    """Read the text layer and the embedded files, and list the pages without a usable text layer."""
    pages: list[TranscriptPage] = []
    words: list[Word] = []
    pages_without_text: list[int] = []
    document = open_document(content, limits)
    for number in range(len(document)):
        upright, found, usable = _read_text_layer(_page(document, number), number)
        pages.append(upright)
        words += found
        if not usable:
            pages_without_text.append(number)
        if len(words) > limits.words:
            raise UnreadableFile(f"The PDF has more than {limits.words} words.")
    embedded = tuple(_embedded_files(document, limits))
    return PartialReading(
        FileReading(Transcript("text_layer", tuple(pages), tuple(words)), embedded), tuple(pages_without_text)
    )


def decrypt(content: bytes, limits: FileLimits, password: str) -> bytes:
    """Return the PDF without its encryption."""
    decrypted = io.BytesIO()
    open_document(content, limits, password=password).save(decrypted, flags=raw.FPDF_REMOVE_SECURITY)
    return decrypted.getvalue()


def split(content: bytes, limits: FileLimits, ranges: Sequence[PageRange]) -> list[bytes]:
    """Return each range of pages as a PDF of its own. The ranges must contain every page.

    The file ID follows from the content and the pages. Otherwise equal pages of two files, split in the same
    second, could give the same bytes and so one document, which is a part of only one of them.
    """
    document = open_document(content, limits)
    if ranges[-1].last != len(document):
        raise UnreadableFile(f"The PDF has {len(document)} pages. The parts must cover all of them.")
    files: list[bytes] = []
    for pages in ranges:
        part, file = pdfium.PdfDocument.new(), io.BytesIO()
        part.import_pages(document, list(range(pages.first - 1, pages.last)))
        part.save(file)
        id_ = hashlib.sha256(b"%s %s" % (str(pages).encode(), content)).hexdigest()[:32].upper().encode()
        files.append(_FILE_ID.sub(b"/ID[<%s><%s>]" % (id_, id_), file.getvalue()))
    return files


def render(
    content: bytes, limits: FileLimits, *, page: int, fit_within: tuple[int, int], rotation: Rotation
) -> Image.Image:
    """Render one page as large as fits when it is upright."""
    document = open_document(content, limits)
    if not 0 <= page < len(document):
        raise UnreadableFile(f"The PDF has no page {page + 1}.")
    pdf_page = _page(document, page)
    across, down = pdf_page.get_size()
    if rotation in {90, 270}:
        across, down = down, across
    most = math.sqrt(MAX_PAGE_PIXELS / (across * down))
    scale = min(fit_within[0] / across, fit_within[1] / down, most, _MAX_SCALE)
    bitmap = pdf_page.render(scale=scale, rotation=rotation, rev_byteorder=True, prefer_bgrx=False)
    return bitmap.to_pil().convert("RGB")


def _page(document: Any, number: int) -> Any:
    try:
        page = document[number]
    except pdfium.PdfiumError:
        raise UnreadableFile(f"Page {number + 1} of the PDF is damaged.") from None
    if min(page.get_size()) <= 0:
        raise UnreadableFile(f"Page {number + 1} of the PDF has zero width or height.")
    if (
        _has_visible_annotations(page)
        and raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS
    ):
        page = document[number]
    return page


def _has_visible_annotations(page: Any) -> bool:
    """Check for form fields, notes and stamps, which are visible but not part of the text layer."""
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        subtype = raw.FPDFAnnot_GetSubtype(annotation)
        raw.FPDFPage_CloseAnnot(annotation)
        if subtype in {raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP}:
            return True
    return False


def _read_text_layer(page: Any, number: int) -> tuple[TranscriptPage, list[Word], bool]:
    text = page.get_textpage()
    own: int = page.get_rotation()
    total = _upright_rotation(text, own)
    to_upright, width, height = _upright_transform(page.get_bbox(), total)
    characters = _read_characters(text)
    placed_words = list(_split_words(text, characters, to_upright, width, height))
    words = arrange_in_lines(placed_words, page=number, width=width, height=height)
    return TranscriptPage(width, height, to_rotation(total - own)), words, _is_usable(page, characters)


def _upright_rotation(text: Any, rotation: int) -> int:
    """By how much the page must be rotated so that most of its characters stand upright."""
    count = text.count_chars()
    angles = Counter[int]()
    for index in range(0, count, max(count // 32, 1)):
        angle: float = raw.FPDFText_GetCharAngle(text, index)
        if angle >= 0 and raw.FPDFText_IsGenerated(text, index) == 0:
            angles[round(math.degrees(angle) / 90) % 4] += 1
    if not angles:
        return rotation
    [(quarter, votes)] = angles.most_common(1)
    # Without a clear majority (a form filled in along two directions), keep the file's own rotation.
    return -90 * quarter % 360 if votes > 0.6 * angles.total() else rotation


def _upright_transform(bounds: _Corners, total: int) -> tuple[_BoxTransform, float, float]:
    """Return a function that maps PDF boxes (left, top, right, bottom) to the upright page, and its size."""
    left, bottom, right, top = bounds
    across, down = right - left, top - bottom
    match total:
        case 90:
            return (lambda x1, y1, x2, y2: (y2 - bottom, x1 - left, y1 - bottom, x2 - left)), down, across
        case 180:
            return (lambda x1, y1, x2, y2: (right - x2, y2 - bottom, right - x1, y1 - bottom)), across, down
        case 270:
            return (lambda x1, y1, x2, y2: (top - y1, right - x2, top - y2, right - x1)), down, across
        case _:
            return (lambda x1, y1, x2, y2: (x1 - left, top - y1, x2 - left, top - y2)), across, down


def _split_words(
    text: Any, characters: str, to_upright: _BoxTransform, width: float, height: float
) -> Iterator[PlacedWord]:
    """Yield words as pdfium separates them.

    Words outside the page are invisible and therefore skipped.
    """
    around = _character_boxes(text)
    last: PlacedWord | None = None
    end = -2
    for match in _WORD.finditer(characters):
        start = match.start()
        word = PlacedWord(_clean_word(match.group()), *to_upright(*around(start, match.end() - 1)))
        narrow = _NARROW_GAP * (word.bottom - word.top)
        if (
            last
            and start == end + 1
            # pdfium sometimes takes kerning for a space, which is much narrower than a real one.
            and 0 <= word.left - last.right < narrow
            and abs(word.top - last.top) < narrow
            and raw.FPDFText_IsGenerated(text, end) == 1
        ):
            last.text += word.text
            last.right = word.right
        elif word.text and word.right > 0 and word.bottom > 0 and word.left < width and word.top < height:
            if last:
                yield last
            last = word
        end = match.end()
    if last:
        yield last


def _character_boxes(text: Any) -> Callable[[int, int], _Corners]:
    """Return a function that measures the box around two characters, in the coordinates of the file."""
    corners = (ctypes.c_float * 4)()
    into = ctypes.byref(raw.FS_RECTF.from_buffer(corners))
    measure: Any = raw.FPDFText_GetLooseCharBox
    page = text.raw

    def around(first: int, last: int) -> _Corners:
        measure(page, first, into)
        left, top, right, bottom = corners
        if first != last:
            measure(page, last, into)
            x1, y1, x2, y2 = corners
            return min(left, x1), max(top, y1), max(right, x2), min(bottom, y2)
        return left, top, right, bottom

    return around


def _read_characters(text: Any) -> str:
    """Return one character for each that pdfium counts, so that positions in both agree."""
    count: int = text.count_chars()
    if count <= 0:
        return ""
    buffer = (ctypes.c_ushort * (count + 1))()
    if raw.FPDFText_GetText(text, 0, count, buffer) == count + 1:
        return "".join(map(chr, buffer[:count]))
    return "".join(chr(raw.FPDFText_GetUnicode(text, index) & 0x1FFFFF or 0) for index in range(count))


def _clean_word(word: str) -> str:
    """Join surrogate pairs, and drop lone surrogates and control characters."""
    if word.isprintable() and (word.isascii() or not _UNUSUAL.search(word)):
        return word
    word = word.translate(_HYPHENS).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    word = _LIGATURES.sub(lambda match: unicodedata.normalize("NFKC", match.group()), word)
    return "".join(character for character in unicodedata.normalize("NFC", word) if character.isprintable())


def _is_usable(page: Any, characters: str) -> bool:
    """Check whether the text layer has what the page shows, or the page is empty."""
    visible = sum(map(len, _WORD.findall(characters)))
    garbage = len(_GARBAGE.findall(characters))
    is_legible = garbage <= _MAX_GARBAGE_SHARE * (visible + garbage)
    if visible >= _SPARSE_CHARACTERS:
        return is_legible
    if _image_coverage(page) > _SCAN_COVERAGE:
        return False
    # Text drawn as shapes is many objects without characters.
    drawn: int = raw.FPDFPage_CountObjects(page)
    if visible == 0 or (visible < _MIN_CHARACTERS and drawn > _MANY_OBJECTS):
        return drawn == 0
    return is_legible


def _image_coverage(page: Any) -> float:
    left, bottom, right, top = page.get_bbox()
    covered = 0.0
    for image in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        x1, y1, x2, y2 = image.get_bounds()
        covered += max(min(x2, right) - max(x1, left), 0) * max(min(y2, top) - max(y1, bottom), 0)
    return covered / ((right - left) * (top - bottom))


def _embedded_files(document: Any, limits: FileLimits) -> Iterator[EmbeddedFile]:
    """Yield the files inside the PDF, up to the limits.

    A file that cannot be extracted is skipped.
    """
    room = limits.embedded_bytes
    for index in range(min(document.count_attachments(), limits.embedded_files)):
        try:
            attachment = document.get_attachment(index)
            name, content = _clean_word(attachment.get_name()), bytes(attachment.get_data())
        except (pdfium.PdfiumError, UnicodeDecodeError):
            continue
        room -= len(content)
        if room < 0:
            return
        yield EmbeddedFile(name, content)
