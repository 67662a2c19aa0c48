"""Pictures through Pillow: PNG, JPEG and TIFF with several pages.

Hostile like any file, so this runs only in a child of `isolation`.
"""

import io
import math
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from PIL import (
    Image,
    ImageOps,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,
)

from postroom.documents.files.file_type import FileType
from postroom.documents.files.transcript import (
    FileReading,
    PartialReading,
    Rotation,
    Transcript,
    TranscriptPage,
)
from postroom.documents.sandbox.file_limits import MAX_IMAGE_PIXELS, MAX_PAGE_PIXELS, FileLimits
from postroom.errors import UnreadableFile

PILLOW_FORMATS: Final = {FileType.PNG: "PNG", FileType.JPEG: "JPEG", FileType.TIFF: "TIFF"}
# Pillow knows a format once its module is imported, which a child could not do.
PLUGINS: Final = (JpegImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin)
# What a picture that does not say so was scanned with.
_DOTS_PER_INCH: Final = 200.0
_EXIF_ORIENTATION: Final = 0x0112
_TURNS: Final[dict[Rotation, Image.Transpose]] = {
    90: Image.Transpose.ROTATE_270,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}


def limit_pixels() -> None:
    """Pillow's own limit, which becomes an error at once instead of a warning."""
    Image.MAX_IMAGE_PIXELS = MAX_IMAGE_PIXELS
    warnings.simplefilter("error", Image.DecompressionBombWarning)


@contextmanager
def _opened(content: bytes, kind: FileType) -> Generator[Image.Image]:
    try:
        with Image.open(io.BytesIO(content), formats=[PILLOW_FORMATS[kind]]) as picture:
            yield picture
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UnreadableFile(
            f"The picture has more than {MAX_IMAGE_PIXELS // 1_000_000} million pixels."
        ) from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError, KeyError, TypeError):
        raise UnreadableFile("The picture is damaged or incomplete.") from None


def read(content: bytes, kind: FileType, limits: FileLimits) -> PartialReading:
    """The sizes of the pages; all their words are left to recognition."""
    with _opened(content, kind) as picture:
        pages = tuple(_sizes(picture, kind, limits))
    return PartialReading(FileReading(Transcript("ocr", pages, ())), tuple(range(len(pages))))


def render(
    content: bytes, kind: FileType, *, page: int, within: tuple[int, int], turned: Rotation
) -> Image.Image:
    """One page as a picture that fits when it is upright; small ones stay as they are."""
    with _opened(content, kind) as picture:
        sheet = _sheet(picture, page)
        if turned:
            sheet = sheet.transpose(_TURNS[turned])
        most = math.sqrt(MAX_PAGE_PIXELS / (sheet.width * sheet.height))
        scale = min(within[0] / sheet.width, within[1] / sheet.height, most, 1.0)
        return sheet if scale == 1.0 else sheet.resize(_scaled(sheet.size, scale, scale))


def _sizes(picture: Image.Image, kind: FileType, limits: FileLimits) -> Iterator[TranscriptPage]:
    """One page after the other: counting them first takes long when there are very many."""
    for number in range(limits.pages + 1):
        try:
            page = _size(picture, number)
        except EOFError:
            return
        if number == limits.pages:
            raise UnreadableFile(f"The picture has more than {limits.pages} pages.")
        yield page
        if kind is not FileType.TIFF:
            return


def _size(picture: Image.Image, number: int) -> TranscriptPage:
    """The size of a page in points, as a person sees it."""
    picture.seek(number)
    if picture.width * picture.height > MAX_IMAGE_PIXELS:
        raise Image.DecompressionBombError
    across, down = _resolution(picture)
    width, height = picture.width / across * 72, picture.height / down * 72
    if picture.getexif().get(_EXIF_ORIENTATION) in {5, 6, 7, 8}:
        width, height = height, width
    return TranscriptPage(width, height)


def _sheet(picture: Image.Image, number: int) -> Image.Image:
    """The page in colour on white paper, upright as its camera says, with square pixels."""
    _size(picture, number)
    across, down = _resolution(picture)
    sheet = ImageOps.exif_transpose(picture) if picture.getexif().get(_EXIF_ORIENTATION, 1) != 1 else picture
    if sheet.mode.startswith("I") or sheet.mode == "F":
        sheet = _in_eight_bits(sheet)
    if "A" in sheet.getbands() or "transparency" in sheet.info:
        coloured = sheet.convert("RGBA")
        sheet = Image.new("RGB", sheet.size, "white")
        sheet.paste(coloured, mask=coloured.getchannel("A"))
    sheet = sheet.convert("RGB")
    if across == down:
        return sheet
    # A fax has half as many lines as columns to the inch.
    return sheet.resize(_scaled(sheet.size, max(down / across, 1.0), max(across / down, 1.0)))


def _in_eight_bits(sheet: Image.Image) -> Image.Image:
    """Greys of more than eight bits, the brightest made white."""
    greys = sheet.convert("F")
    extrema: Any = greys.getextrema()
    scale = 255.0 / (max(float(extrema[1]), 0.0) or 1.0)
    return greys.point(lambda value: value * scale + 0.0).convert("L")


def _resolution(picture: Image.Image) -> tuple[float, float]:
    """Dots per inch in both directions, where the file's word can be believed."""
    stated: Any = picture.info.get("dpi")
    try:
        across, down = float(stated[0]), float(stated[1])
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return _DOTS_PER_INCH, _DOTS_PER_INCH
    if not (50 <= across <= 2400 and 50 <= down <= 2400 and 0.4 < across / down < 2.5):
        return _DOTS_PER_INCH, _DOTS_PER_INCH
    return (across, down) if abs(across / down - 1) > 0.1 else (across, across)


def _scaled(size: tuple[int, int], across: float, down: float) -> tuple[int, int]:
    return max(round(size[0] * across), 1), max(round(size[1] * down), 1)
