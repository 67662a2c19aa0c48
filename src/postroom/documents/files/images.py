"""Image files: page sizes and page images of PNG, JPEG and multi-page TIFF files, by Pillow.

The files are untrusted, so this runs only in the sandbox.
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

from postroom.documents.files.file_reading import (
    FileReading,
    PartialReading,
    Rotation,
    Transcript,
    TranscriptPage,
)
from postroom.documents.files.file_type import FileType
from postroom.documents.sandbox.file_limits import MAX_IMAGE_PIXELS, MAX_PAGE_PIXELS, FileLimits
from postroom.errors import UnreadableFile

PILLOW_FORMATS: Final = {FileType.PNG: "PNG", FileType.JPEG: "JPEG", FileType.TIFF: "TIFF"}
# Pillow supports a format once its module is imported, and a sandboxed child cannot import it.
PLUGINS: Final = (JpegImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin)
# Assumed for images that do not declare a resolution.
_DEFAULT_DPI: Final = 200.0
_EXIF_ORIENTATION: Final = 0x0112
_TRANSPOSE_BY_ROTATION: Final[dict[Rotation, Image.Transpose]] = {
    90: Image.Transpose.ROTATE_270,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_90,
}


def limit_pixels() -> None:
    """Make Pillow reject oversized images with an error instead of a warning."""
    Image.MAX_IMAGE_PIXELS = MAX_IMAGE_PIXELS
    warnings.simplefilter("error", Image.DecompressionBombWarning)


@contextmanager
def _open_image(content: bytes, file_type: FileType) -> Generator[Image.Image]:
    try:
        with Image.open(io.BytesIO(content), formats=[PILLOW_FORMATS[file_type]]) as image:
            yield image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UnreadableFile(
            f"The image has more than {MAX_IMAGE_PIXELS // 1_000_000} million pixels."
        ) from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError, KeyError, TypeError):
        raise UnreadableFile("The image is damaged or incomplete.") from None


def read(content: bytes, file_type: FileType, limits: FileLimits) -> PartialReading:
    """Read the page sizes; the words are left to OCR."""
    with _open_image(content, file_type) as image:
        pages = tuple(_page_sizes(image, file_type, limits))
    return PartialReading(FileReading(Transcript("ocr", pages, ())), tuple(range(len(pages))))


def render(
    content: bytes, file_type: FileType, *, page: int, fit_within: tuple[int, int], rotation: Rotation
) -> Image.Image:
    """Render one page so that it fits when upright; small pages keep their size."""
    with _open_image(content, file_type) as image:
        page_image = _upright_page(image, page)
        if rotation:
            page_image = page_image.transpose(_TRANSPOSE_BY_ROTATION[rotation])
        most = math.sqrt(MAX_PAGE_PIXELS / (page_image.width * page_image.height))
        scale = min(fit_within[0] / page_image.width, fit_within[1] / page_image.height, most, 1.0)
        return page_image if scale == 1.0 else page_image.resize(_scaled_size(page_image.size, scale, scale))


def _page_sizes(image: Image.Image, file_type: FileType, limits: FileLimits) -> Iterator[TranscriptPage]:
    """Yield one page size after the other: counting the pages first is slow when there are very many."""
    for number in range(limits.pages + 1):
        try:
            page = _page_size(image, number)
        except EOFError:
            return
        if number == limits.pages:
            raise UnreadableFile(f"The image has more than {limits.pages} pages.")
        yield page
        if file_type is not FileType.TIFF:
            return


def _page_size(image: Image.Image, number: int) -> TranscriptPage:
    """Return the size of a page in points, as a viewer shows it."""
    image.seek(number)
    if image.width * image.height > MAX_IMAGE_PIXELS:
        raise Image.DecompressionBombError
    across, down = _resolution(image)
    width, height = image.width / across * 72, image.height / down * 72
    if image.getexif().get(_EXIF_ORIENTATION) in {5, 6, 7, 8}:
        width, height = height, width
    return TranscriptPage(width, height)


def _upright_page(image: Image.Image, number: int) -> Image.Image:
    """Return the page in RGB on white, upright according to EXIF, with square pixels."""
    _page_size(image, number)
    across, down = _resolution(image)
    page_image = ImageOps.exif_transpose(image) if image.getexif().get(_EXIF_ORIENTATION, 1) != 1 else image
    if page_image.mode.startswith("I") or page_image.mode == "F":
        page_image = _to_eight_bits(page_image)
    if "A" in page_image.getbands() or "transparency" in page_image.info:
        coloured = page_image.convert("RGBA")
        page_image = Image.new("RGB", page_image.size, "white")
        page_image.paste(coloured, mask=coloured.getchannel("A"))
    page_image = page_image.convert("RGB")
    if across == down:
        return page_image
    # A fax has half the vertical resolution.
    return page_image.resize(_scaled_size(page_image.size, max(down / across, 1.0), max(across / down, 1.0)))


def _to_eight_bits(page_image: Image.Image) -> Image.Image:
    """Scale grey levels of more than eight bits so that the brightest is white."""
    greys = page_image.convert("F")
    extrema: Any = greys.getextrema()
    scale = 255.0 / (max(float(extrema[1]), 0.0) or 1.0)
    return greys.point(lambda value: value * scale + 0.0).convert("L")


def _resolution(image: Image.Image) -> tuple[float, float]:
    """Return the declared dpi in both directions if plausible, else the default."""
    stated: Any = image.info.get("dpi")
    try:
        across, down = float(stated[0]), float(stated[1])
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return _DEFAULT_DPI, _DEFAULT_DPI
    if not (50 <= across <= 2400 and 50 <= down <= 2400 and 0.4 < across / down < 2.5):
        return _DEFAULT_DPI, _DEFAULT_DPI
    return (across, down) if abs(across / down - 1) > 0.1 else (across, across)


def _scaled_size(size: tuple[int, int], across: float, down: float) -> tuple[int, int]:
    return max(round(size[0] * across), 1), max(round(size[1] * down), 1)
