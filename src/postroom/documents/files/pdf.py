"""PDF files through pdfium: the text layer as words, embedded files, pages as bitmaps.

A hostile file can make pdfium end the process, so this runs only in a child of `isolation`.
"""

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pypdfium2
from PIL import Image

from postroom.documents.files.line_layout import PlacedWord, arrange_in_lines
from postroom.documents.files.transcript import (
    EmbeddedFile,
    FileReading,
    PartialReading,
    Rotation,
    Transcript,
    TranscriptPage,
    Word,
    to_rotation,
)
from postroom.documents.sandbox.file_limits import MAX_PAGE_PIXELS, FileLimits
from postroom.errors import UnreadableFile

# Bindings that are made at run time, of which no type checker knows anything.
pdfium: Any = pypdfium2
raw: Any = pypdfium2.raw

_Corners = tuple[float, float, float, float]
_Place = Callable[[float, float, float, float], _Corners]
# Fewer characters than this beside pictures that fill the page are a stamp on a scan, not its text.
_SPARSE: Final = 100
_FEWEST: Final = 8
_MANY_OBJECTS: Final = 20
# Small pages are not drawn larger than with 300 dots to the inch.
_LARGEST_SCALE: Final = 300 / 72
_MOST_GARBAGE: Final = 0.2
_COVERED: Final = 0.5
# A space is a quarter of the height of its line, or more.
_NARROW: Final = 0.15
_MOST_ANNOTATIONS: Final = 100
# pdfium marks a hyphen at the end of a line with one of these.
_HYPHENS: Final = str.maketrans({"\x02": "-", "\ufffe": "-", "\xad": "-"})
_WORD: Final = re.compile(r"[^\s\x00]+")
_LIGATURES: Final = re.compile("[\ufb00-\ufb06]")
_UNUSUAL: Final = re.compile("[\u0300-\u036f\ufb00-\ufb06]")
# What fonts without a table of letters give: no character, private ones, controls, the replacement character.
_GARBAGE: Final = re.compile("[\x00\x01\x03-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]")


def open_document(content: bytes, limits: FileLimits) -> Any:
    """The document, once it is known that it can be opened and is not too long."""
    try:
        document = pdfium.PdfDocument(content)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD:
            raise UnreadableFile("The PDF is encrypted and asks for a password.") from None
        raise UnreadableFile("The file is no PDF that can be opened: it is damaged or incomplete.") from None
    count = len(document)
    if count == 0:
        raise UnreadableFile("The PDF has no pages.")
    if count > limits.pages:
        raise UnreadableFile(f"The PDF has {count} pages; {limits.pages} are read at most.")
    if document.get_formtype() != raw.FORMTYPE_NONE:
        document.init_forms()  # so that fields without an appearance get one
    # Neither it nor its pages are closed here: the child ends soon, and elsewhere they close themselves.
    return document


def read(content: bytes, limits: FileLimits) -> PartialReading:
    """The text layer and the embedded files, and which pages have no text layer worth the name."""
    pages: list[TranscriptPage] = []
    words: list[Word] = []
    blind: list[int] = []
    document = open_document(content, limits)
    for number in range(len(document)):
        upright, found, usable = _text_layer(_page(document, number), number)
        pages.append(upright)
        words += found
        if not usable:
            blind.append(number)
        if len(words) > limits.words:
            raise UnreadableFile(f"The PDF has more than {limits.words} words.")
    embedded = tuple(_embedded(document, limits))
    return PartialReading(
        FileReading(Transcript("text_layer", tuple(pages), tuple(words)), embedded), tuple(blind)
    )


def render(
    content: bytes, limits: FileLimits, *, page: int, within: tuple[int, int], turned: Rotation
) -> Image.Image:
    """One page as a picture that just fits when it is upright."""
    document = open_document(content, limits)
    if not 0 <= page < len(document):
        raise UnreadableFile(f"The PDF has no page {page + 1}.")
    sheet = _page(document, page)
    across, down = sheet.get_size()
    if turned in {90, 270}:
        across, down = down, across
    most = math.sqrt(MAX_PAGE_PIXELS / (across * down))
    scale = min(within[0] / across, within[1] / down, most, _LARGEST_SCALE)
    bitmap = sheet.render(scale=scale, rotation=turned, rev_byteorder=True, prefer_bgrx=False)
    return bitmap.to_pil().convert("RGB")


def _page(document: Any, number: int) -> Any:
    try:
        page = document[number]
    except pdfium.PdfiumError:
        raise UnreadableFile(f"Page {number + 1} of the PDF is damaged.") from None
    if min(page.get_size()) <= 0:
        raise UnreadableFile(f"Page {number + 1} of the PDF has no size.")
    if _is_written_on(page) and raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) == raw.FLATTEN_SUCCESS:
        page = document[number]
    return page


def _is_written_on(page: Any) -> bool:
    """Whether there are fields of a form, notes or stamps, which people see and the text layer lacks."""
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        subtype = raw.FPDFAnnot_GetSubtype(annotation)
        raw.FPDFPage_CloseAnnot(annotation)
        if subtype in {raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_STAMP}:
            return True
    return False


def _text_layer(page: Any, number: int) -> tuple[TranscriptPage, list[Word], bool]:
    text = page.get_textpage()
    own: int = page.get_rotation()
    total = _upright(text, own)
    place, width, height = _to_upright(page.get_bbox(), total)
    units = _units(text)
    pieces = list(_pieces(text, units, place, width, height))
    words = arrange_in_lines(pieces, page=number, width=width, height=height)
    return TranscriptPage(width, height, to_rotation(total - own)), words, _is_usable(page, units)


def _upright(text: Any, rotation: int) -> int:
    """By how much the page must be turned so that most of its characters stand upright."""
    count = text.count_chars()
    angles = Counter[int]()
    for index in range(0, count, max(count // 32, 1)):
        angle: float = raw.FPDFText_GetCharAngle(text, index)
        if angle >= 0 and raw.FPDFText_IsGenerated(text, index) == 0:
            angles[round(math.degrees(angle) / 90) % 4] += 1
    if not angles:
        return rotation
    [(quarter, votes)] = angles.most_common(1)
    # Without a clear majority (a form filled along two directions) the file's own rotation stands.
    return -90 * quarter % 360 if votes > 0.6 * angles.total() else rotation


def _to_upright(bounds: _Corners, total: int) -> tuple[_Place, float, float]:
    """A function from a box of the PDF (left, top, right, bottom) to one of the upright page; its size."""
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


def _pieces(text: Any, units: str, place: _Place, width: float, height: float) -> Iterator[PlacedWord]:
    """Words as pdfium separates them. What lies outside the page nobody sees, so it is not read either."""
    around = _boxes(text)
    last: PlacedWord | None = None
    end = -2
    for match in _WORD.finditer(units):
        start = match.start()
        word = PlacedWord(_clean(match.group()), *place(*around(start, match.end() - 1)))
        narrow = _NARROW * (word.bottom - word.top)
        if (
            last
            and start == end + 1
            # pdfium may have taken mere kerning for a space, but that is much narrower than one.
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


def _boxes(text: Any) -> Callable[[int, int], _Corners]:
    """A function that gives the box around two characters, on the page as it lies in the file."""
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


def _units(text: Any) -> str:
    """One character of this string for each one that pdfium counts, so that places in both are the same."""
    count: int = text.count_chars()
    if count <= 0:
        return ""
    buffer = (ctypes.c_ushort * (count + 1))()
    if raw.FPDFText_GetText(text, 0, count, buffer) == count + 1:
        return "".join(map(chr, buffer[:count]))
    return "".join(chr(raw.FPDFText_GetUnicode(text, index) & 0x1FFFFF or 0) for index in range(count))


def _clean(word: str) -> str:
    """Whole characters only: pairs of surrogate halves joined, single ones and controls dropped."""
    if word.isprintable() and (word.isascii() or not _UNUSUAL.search(word)):
        return word
    word = word.translate(_HYPHENS).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    word = _LIGATURES.sub(lambda match: unicodedata.normalize("NFKC", match.group()), word)
    return "".join(each for each in unicodedata.normalize("NFC", word) if each.isprintable())


def _is_usable(page: Any, units: str) -> bool:
    """Whether a person would find on the page what its text layer says, or nothing is there to find."""
    signs = sum(map(len, _WORD.findall(units)))
    garbage = len(_GARBAGE.findall(units))
    is_legible = garbage <= _MOST_GARBAGE * (signs + garbage)
    if signs >= _SPARSE:
        return is_legible
    if _covered_by_pictures(page) > _COVERED:
        return False
    # Letters that were drawn as shapes are many objects and no characters.
    drawn: int = raw.FPDFPage_CountObjects(page)
    if signs == 0 or (signs < _FEWEST and drawn > _MANY_OBJECTS):
        return drawn == 0
    return is_legible


def _covered_by_pictures(page: Any) -> float:
    left, bottom, right, top = page.get_bbox()
    covered = 0.0
    for each in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        x1, y1, x2, y2 = each.get_bounds()
        covered += max(min(x2, right) - max(x1, left), 0) * max(min(y2, top) - max(y1, bottom), 0)
    return covered / ((right - left) * (top - bottom))


def _embedded(document: Any, limits: FileLimits) -> Iterator[EmbeddedFile]:
    """Files inside the PDF, up to the limits; one that cannot be taken out does not spoil the document."""
    room = limits.embedded_bytes
    for index in range(min(document.count_attachments(), limits.embedded_files)):
        try:
            attachment = document.get_attachment(index)
            name, content = _clean(attachment.get_name()), bytes(attachment.get_data())
        except (pdfium.PdfiumError, UnicodeDecodeError):
            continue
        room -= len(content)
        if room < 0:
            return
        yield EmbeddedFile(name, content)
