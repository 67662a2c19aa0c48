"""Documents that the tests write themselves."""

import io

from reportlab.pdfgen import canvas

A4 = (595.0, 842.0)


def pdf(*pages, size=A4, rotate=0):
    """A PDF; each page is a list of (x, y, text), y counted from the bottom."""
    written = io.BytesIO()
    drawing = canvas.Canvas(written, pagesize=size)
    for page in pages:
        drawing.setPageRotation(rotate)
        for x, y, text in page:
            drawing.drawString(x, y, text)
        drawing.showPage()
    drawing.save()
    return written.getvalue()
