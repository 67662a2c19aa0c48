"""PDF files through pdfium: the text layer as words, embedded files, pages as bitmaps.

A hostile file can make pdfium end the process, so this runs only in a child of `isolation`.
"""

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pypdfium2
from PIL import Image

from postroom.documents.limits import PIXELS, Limits
from postroom.documents.lines import Piece, in_lines
from postroom.documents.transcript import Draft, EmbeddedFile, Page, Reading, Transcript, Turn, Word
from postroom.errors import Unreadable

# Bindings that are made at run time, of which no type checker knows anything.
pdfium: Any = pypdfium2
raw: Any = pypdfium2.raw

_Place = Callable[[float, float], tuple[float, float]]
_TURNS: Final[tuple[Turn, ...]] = (0, 90, 180, 270)
# Fewer characters than this beside pictures that fill the page are a stamp on a scan, not its text.
_SPARSE: Final = 100
_FEWEST: Final = 8
_GARBAGE: Final = 0.2
_COVERED: Final = 0.5
# pdfium marks a hyphen at the end of a line with one of these.
_HYPHENS: Final = str.maketrans({"\x02": "-", "\ufffe": "-", "\xad": "-"})
_WORD: Final = re.compile(r"[^\s\x00]+")
_LIGATURES: Final = re.compile("[\ufb00-\ufb06]")
_HALVES: Final = re.compile("[\ud800-\udfff]")


@contextmanager
def opened(content: bytes, limits: Limits) -> Generator[Any]:
    """The document, once it is known that it can be opened and is not too long."""
    try:
        document = pdfium.PdfDocument(content)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == raw.FPDF_ERR_PASSWORD:
            raise Unreadable("The PDF is encrypted and asks for a password.") from None
        raise Unreadable("The file is no PDF that can be opened: it is damaged or incomplete.") from None
    try:
        count = len(document)
        if count == 0:
            raise Unreadable("The PDF has no pages.")
        if count > limits.pages:
            raise Unreadable(f"The PDF has {count} pages; {limits.pages} are read at most.")
        yield document
    finally:
        document.close()


def read(content: bytes, limits: Limits) -> Draft:
    """The text layer and the embedded files, and which pages have no text layer worth the name."""
    pages: list[Page] = []
    words: list[Word] = []
    blind: list[int] = []
    with opened(content, limits) as document:
        for number in range(len(document)):
            with _page(document, number) as page:
                upright, found, usable = _text_layer(page, number)
            pages.append(upright)
            words += found
            if not usable:
                blind.append(number)
            if len(words) > limits.words:
                raise Unreadable(f"The PDF has more than {limits.words} words.")
        embedded = tuple(_embedded(document, limits))
    return Draft(Reading(Transcript("text_layer", tuple(pages), tuple(words)), embedded), tuple(blind))


def render(content: bytes, limits: Limits, *, page: int, width: int, turned: Turn) -> Image.Image:
    """One page as a picture of that width when upright, as far as the limit of pixels allows."""
    with opened(content, limits) as document:
        if not 0 <= page < len(document):
            raise Unreadable(f"The PDF has no page {page + 1}.")
        with _page(document, page) as sheet:
            across, down = sheet.get_size()
            if turned in {90, 270}:
                across, down = down, across
            scale = min(width / across, math.sqrt(PIXELS / (across * down)))
            bitmap = sheet.render(scale=scale, rotation=turned, rev_byteorder=True, prefer_bgrx=False)
            return bitmap.to_pil().convert("RGB")


@contextmanager
def _page(document: Any, number: int) -> Generator[Any]:
    try:
        page = document[number]
    except pdfium.PdfiumError:
        raise Unreadable(f"Page {number + 1} of the PDF is damaged.") from None
    try:
        if min(page.get_size()) <= 0:
            raise Unreadable(f"Page {number + 1} of the PDF has no size.")
        yield page
    finally:
        page.close()


def _text_layer(page: Any, number: int) -> tuple[Page, list[Word], bool]:
    text = page.get_textpage()
    try:
        own: int = page.get_rotation()
        total = _upright(text, own)
        place, width, height = _to_upright(page.get_bbox(), total)
        pieces = list(_pieces(text, place, width, height))
        characters = "".join(piece.text for piece in pieces)
        usable = _is_usable(page, characters)
    finally:
        text.close()
    turned = _TURNS[(total - own) % 360 // 90]
    words = in_lines(pieces, page=number, width=width, height=height)
    return Page(width, height, turned), words, usable


def _upright(text: Any, rotation: int) -> int:
    """By how much the page must be turned so that most of its characters stand upright."""
    count = text.count_chars()
    angles = Counter[int]()
    for index in range(0, count, max(count // 64, 1)):
        angle: float = raw.FPDFText_GetCharAngle(text, index)
        if angle >= 0 and raw.FPDFText_IsGenerated(text, index) == 0:
            angles[round(math.degrees(angle) / 90) % 4] += 1
    if not angles:
        return rotation
    [(quarter, votes)] = angles.most_common(1)
    # Without a clear majority (a form filled along two directions) the file's own rotation stands.
    return -90 * quarter % 360 if votes > 0.6 * angles.total() else rotation


def _to_upright(bounds: tuple[float, float, float, float], total: int) -> tuple[_Place, float, float]:
    """A function from a point of the PDF to one of the upright page, and that page's size."""
    left, bottom, right, top = bounds
    across, down = right - left, top - bottom
    match total:
        case 90:
            return (lambda x, y: (y - bottom, x - left)), down, across
        case 180:
            return (lambda x, y: (right - x, y - bottom)), across, down
        case 270:
            return (lambda x, y: (top - y, right - x)), down, across
        case _:
            return (lambda x, y: (x - left, top - y)), across, down


def _pieces(text: Any, place: _Place, width: float, height: float) -> Iterator[Piece]:
    """Words as pdfium separates them, each with the box around its first and last character."""
    units = _units(text)
    box = raw.FS_RECTF()
    into = ctypes.byref(box)

    def corners(index: int) -> tuple[float, float, float, float]:
        raw.FPDFText_GetLooseCharBox(text, index, into)
        one, other = place(box.left, box.top), place(box.right, box.bottom)
        return min(one[0], other[0]), min(one[1], other[1]), max(one[0], other[0]), max(one[1], other[1])

    for match in _WORD.finditer(units):
        first = corners(match.start())
        last = corners(match.end() - 1) if match.end() - match.start() > 1 else first
        piece = Piece(
            _clean(match.group()),
            min(first[0], last[0]),
            min(first[1], last[1]),
            max(first[2], last[2]),
            max(first[3], last[3]),
        )
        # What lies outside the page is not seen by a person, so it is not read either.
        if piece.text and piece.right > 0 and piece.bottom > 0 and piece.left < width and piece.top < height:
            yield piece


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
    if word.isascii() and word.isprintable():
        return word
    word = word.translate(_HYPHENS)
    if _HALVES.search(word):
        word = word.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    word = _LIGATURES.sub(lambda match: unicodedata.normalize("NFKC", match.group()), word)
    return "".join(each for each in unicodedata.normalize("NFC", word) if each.isprintable())


def _is_usable(page: Any, characters: str) -> bool:
    """Whether a person would find on the page what its text layer says, or nothing is there to find."""
    if len(characters) >= _SPARSE:
        return _garbage(characters) <= _GARBAGE
    if _covered_by_pictures(page) > _COVERED:
        return False
    if len(characters) >= _FEWEST:
        return _garbage(characters) <= _GARBAGE
    return raw.FPDFPage_CountObjects(page) == 0


def _garbage(characters: str) -> float:
    """The share of characters that mean nothing: private use, unassigned, the replacement character."""
    bad = sum(each == "\ufffd" or unicodedata.category(each) in {"Co", "Cn"} for each in characters)
    return bad / len(characters)


def _covered_by_pictures(page: Any) -> float:
    left, bottom, right, top = page.get_bbox()
    covered = 0.0
    for each in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        x1, y1, x2, y2 = each.get_bounds()
        covered += max(min(x2, right) - max(x1, left), 0) * max(min(y2, top) - max(y1, bottom), 0)
    return covered / ((right - left) * (top - bottom))


def _embedded(document: Any, limits: Limits) -> Iterator[EmbeddedFile]:
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
