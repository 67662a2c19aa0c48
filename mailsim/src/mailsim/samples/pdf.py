"""Rendering of a PageDrawing as a PDF with text, or of images as a PDF without text.

The same input gives the same bytes: no dates, no random IDs.
"""

import functools
import io
from collections.abc import Sequence
from typing import Any

from reportlab.lib import colors
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from mailsim.samples.page_drawing import (
    HEIGHT,
    WIDTH,
    DrawnElement,
    DrawnLine,
    DrawnRectangle,
    DrawnText,
    PageDrawing,
)

_STANDARD = {
    ("sans", False): "Helvetica",
    ("sans", True): "Helvetica-Bold",
    ("serif", False): "Times-Roman",
    ("serif", True): "Times-Bold",
    ("mono", False): "Courier",
    ("mono", True): "Courier-Bold",
}
# Vera is wider than the standard fonts.
_VERA_SCALE = 0.88


def render_pdf(
    drawing: PageDrawing, title: str, author: str, *, embedded: bool = False, password: str = ""
) -> bytes:
    """Render a drawing with a text layer.

    `embedded` embeds the fonts, as PDF/A requires.
    """
    if embedded:
        _register_vera()
    target = io.BytesIO()
    page = _make_canvas(target, "Vera" if embedded else "Helvetica")
    if password:
        page.setEncrypt(StandardEncryption(password, strength=128))
    page.setTitle(title)
    page.setAuthor(author)
    page.setCreator(author)
    for marks in drawing.pages:
        for mark in marks:
            _draw_element(page, mark, embedded=embedded)
        page.showPage()
    page.save()
    return target.getvalue()


def render_image_pdf(pictures: Sequence[bytes]) -> bytes:
    """Render a PDF with one image per page and no text, as a scanner produces it."""
    target = io.BytesIO()
    page = _make_canvas(target, "Helvetica")
    page.setTitle("Scan")
    page.setCreator("Scanner")
    for picture in pictures:
        page.drawImage(ImageReader(io.BytesIO(picture)), 0, 0, WIDTH, HEIGHT)
        page.showPage()
    page.save()
    return target.getvalue()


def _make_canvas(target: io.BytesIO, font: str) -> Any:  # reportlab's types are incomplete and partly wrong
    make: Any = Canvas
    return make(target, (WIDTH, HEIGHT), invariant=1, pageCompression=1, initialFontName=font)


def _draw_element(page: Any, mark: DrawnElement, *, embedded: bool) -> None:
    match mark:
        case DrawnText():
            page.setFillColor(colors.HexColor(mark.colour))
            if embedded:
                page.setFont("VeraBd" if mark.bold else "Vera", mark.size * _VERA_SCALE)
            else:
                page.setFont(_STANDARD[mark.family, mark.bold], mark.size)
            draw = {"left": page.drawString, "right": page.drawRightString, "centre": page.drawCentredString}
            draw[mark.align](mark.x, HEIGHT - mark.y, mark.text)
        case DrawnLine():
            page.setStrokeColor(colors.HexColor(mark.colour))
            page.setLineWidth(mark.width)
            page.line(mark.x, HEIGHT - mark.y, mark.to_x, HEIGHT - mark.to_y)
        case DrawnRectangle():
            page.setFillColor(colors.HexColor(mark.colour))
            page.rect(mark.x, HEIGHT - mark.y - mark.height, mark.width, mark.height, stroke=0, fill=1)


@functools.cache
def _register_vera() -> None:
    fonts: Any = pdfmetrics
    fonts.registerFont(TTFont("Vera", "Vera.ttf"))
    fonts.registerFont(TTFont("VeraBd", "VeraBd.ttf"))
