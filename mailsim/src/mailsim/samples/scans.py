"""Rendering of a PageDrawing as a scanned image: slightly rotated, grey and grainy.

The seed determines how much.
"""

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
from mailsim.samples.pdf import render_image_pdf
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


def make_scan(drawing: PageDrawing, seed: int, form: str) -> bytes:
    """Render a drawing as a scan: png, jpeg, tiff (black and white) or pdf (images only).

    PNG and JPEG hold the first page only.
    """
    pages = drawing.pages if form in {"tiff", "pdf"} else drawing.pages[:1]
    pictures = [
        _add_scan_noise(_draw_page(marks), SeededRandom(seed, 32 + number))
        for number, marks in enumerate(pages)
    ]
    if form == "pdf":
        return render_image_pdf([_encode_image(picture, "JPEG", quality=70) for picture in pictures])
    if form == "tiff":
        plain, *rest = [
            _map_tones(picture, _INK).convert("1", dither=Image.Dither.NONE) for picture in pictures
        ]
        return _encode_image(plain, "TIFF", compression="group4", save_all=True, append_images=rest)
    if form == "jpeg":
        return _encode_image(pictures[0], "JPEG", quality=75)
    return _encode_image(_map_tones(pictures[0], _CLEANED), "PNG")


def _map_tones(picture: Image.Image, tones: bytes) -> Image.Image:
    return Image.frombytes("L", picture.size, picture.tobytes().translate(tones))


def _encode_image(picture: Image.Image, form: str, **options: object) -> bytes:
    target = io.BytesIO()
    picture.save(target, form, dpi=(_DPI, _DPI), **options)
    return target.getvalue()


@functools.cache
def _load_font(name: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(_FONTS / name, size)


def _draw_page(marks: list[DrawnElement]) -> Image.Image:
    picture = Image.new("L", (round(WIDTH * _SCALE), round(HEIGHT * _SCALE)), 255)
    pen = ImageDraw.Draw(picture)
    for mark in marks:
        _draw_element(pen, mark)
    return picture


def _draw_element(pen: ImageDraw.ImageDraw, mark: DrawnElement) -> None:
    x, y = mark.x * _SCALE, mark.y * _SCALE
    match mark:
        case DrawnText():
            face = _load_font(_FACES[mark.family, mark.bold], round(mark.size * _SCALE))
            pen.text((x, y), mark.text, font=face, fill=_to_grey(mark.colour), anchor=_ANCHORS[mark.align])
        case DrawnLine():
            ends = (x, y, mark.to_x * _SCALE, mark.to_y * _SCALE)
            pen.line(ends, fill=_to_grey(mark.colour), width=max(1, round(mark.width * _SCALE)))
        case DrawnRectangle():
            pen.rectangle(
                (x, y, x + mark.width * _SCALE, y + mark.height * _SCALE), fill=_to_grey(mark.colour)
            )


def _to_grey(colour: int) -> int:
    red, green, blue = colour >> 16, colour >> 8 & 0xFF, colour & 0xFF
    return (red * 299 + green * 587 + blue * 114) // 1000


def _add_scan_noise(picture: Image.Image, rng: SeededRandom) -> Image.Image:
    """Rotate by up to one degree, which blurs the page, and darken the white background slightly."""
    angle = (rng.between(20, 100) / 100) * (1 if rng.below(2) else -1)
    picture = picture.rotate(angle, Image.Resampling.BILINEAR, fillcolor=250)
    size = picture.width * picture.height
    grain = Image.frombytes("L", picture.size, make_noise(rng.next_bits(), size).translate(_GRAIN))
    return ImageChops.subtract(picture, grain)


# The background becomes white; the rest keeps eight tones.
_CLEANED = bytes(255 if value > 205 else value // 32 * 32 for value in range(256))
_INK = bytes(255 if value > 170 else 0 for value in range(256))
# A light grain everywhere and rare dark specks.
_GRAIN = bytes(value // 12 if value < 255 else 70 for value in range(256))
