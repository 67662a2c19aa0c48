"""Sheets as a scanner sees them: a little crooked, grey, grainy. The seed decides how much."""

import functools
import io
import pathlib

import reportlab
from PIL import Image, ImageChops, ImageDraw, ImageFont

from mailsim.samples.page_drawing import (
    HEIGHT,
    WIDTH,
    DrawnElement,
    DrawnLine,
    DrawnRectangle,
    DrawnText,
    PageDrawing,
)
from mailsim.samples.pdf import picture_pdf
from mailsim.samples.seeded_random import SeededRandom, make_noise

_DPI = 200
_SCALE = _DPI / 72
_FONTS = pathlib.Path(reportlab.__file__).parent / "fonts"
_FACES = {
    ("sans", False): "_a______.pfb",
    ("sans", True): "_ab_____.pfb",
    ("serif", False): "_er_____.pfb",
    ("serif", True): "_eb_____.pfb",
    ("mono", False): "com_____.pfb",
    ("mono", True): "cob_____.pfb",
}
_ANCHORS = {"left": "ls", "right": "rs", "centre": "ms"}


def scan(sheet: PageDrawing, seed: int, form: str) -> bytes:
    """`form` is png, jpeg, tiff (black and white, all pages) or pdf (pictures only, all pages).

    PNG and JPEG hold the first page only.
    """
    pages = sheet.pages if form in {"tiff", "pdf"} else sheet.pages[:1]
    pictures = [_worn(_picture(marks), SeededRandom(seed, 32 + number)) for number, marks in enumerate(pages)]
    if form == "pdf":
        return picture_pdf([_saved(picture, "JPEG", quality=70) for picture in pictures])
    if form == "tiff":
        plain, *rest = [_toned(picture, _INK).convert("1", dither=Image.Dither.NONE) for picture in pictures]
        return _saved(plain, "TIFF", compression="group4", save_all=True, append_images=rest)
    if form == "jpeg":
        return _saved(pictures[0], "JPEG", quality=75)
    return _saved(_toned(pictures[0], _CLEANED), "PNG")


def _toned(picture: Image.Image, tones: bytes) -> Image.Image:
    return Image.frombytes("L", picture.size, picture.tobytes().translate(tones))


def _saved(picture: Image.Image, form: str, **options: object) -> bytes:
    target = io.BytesIO()
    picture.save(target, form, dpi=(_DPI, _DPI), **options)
    return target.getvalue()


@functools.cache
def _face(name: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(_FONTS / name, size)


def _picture(marks: list[DrawnElement]) -> Image.Image:
    picture = Image.new("L", (round(WIDTH * _SCALE), round(HEIGHT * _SCALE)), 255)
    pen = ImageDraw.Draw(picture)
    for mark in marks:
        _draw(pen, mark)
    return picture


def _draw(pen: ImageDraw.ImageDraw, mark: DrawnElement) -> None:
    x, y = mark.x * _SCALE, mark.y * _SCALE
    match mark:
        case DrawnText():
            face = _face(_FACES[mark.family, mark.bold], round(mark.size * _SCALE))
            pen.text((x, y), mark.text, font=face, fill=_grey(mark.colour), anchor=_ANCHORS[mark.align])
        case DrawnLine():
            ends = (x, y, mark.to_x * _SCALE, mark.to_y * _SCALE)
            pen.line(ends, fill=_grey(mark.colour), width=max(1, round(mark.width * _SCALE)))
        case DrawnRectangle():
            pen.rectangle((x, y, x + mark.width * _SCALE, y + mark.height * _SCALE), fill=_grey(mark.colour))


def _grey(colour: int) -> int:
    red, green, blue = colour >> 16, colour >> 8 & 0xFF, colour & 0xFF
    return (red * 299 + green * 587 + blue * 114) // 1000


def _worn(picture: Image.Image, dice: SeededRandom) -> Image.Image:
    """Turned by up to a degree, which softens it, on paper that is not quite white."""
    angle = (dice.between(20, 100) / 100) * (1 if dice.below(2) else -1)
    picture = picture.rotate(angle, Image.Resampling.BILINEAR, fillcolor=250)
    size = picture.width * picture.height
    grain = Image.frombytes("L", picture.size, make_noise(dice.roll(), size).translate(_GRAIN))
    return ImageChops.subtract(picture, grain)


# Paper becomes white, the rest keeps eight tones.
_CLEANED = bytes(255 if value > 205 else value // 32 * 32 for value in range(256))
_INK = bytes(255 if value > 170 else 0 for value in range(256))
# Dark specks are rare, a light grain is everywhere.
_GRAIN = bytes(value // 12 if value < 255 else 70 for value in range(256))
