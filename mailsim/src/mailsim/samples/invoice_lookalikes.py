"""Writer of messages with documents like invoices: delivery notes, offers, reminders, brochures.

It also draws these documents.
"""

import functools
import textwrap
from decimal import Decimal

from mailsim.samples.document_numbers import make_lookalike_number
from mailsim.samples.invoices import Invoice, make_invoice
from mailsim.samples.localized_formats import format_long_date, format_number, format_price
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import (
    build_message,
    make_attachment,
    make_boundary,
    make_multipart,
    make_text,
)
from mailsim.samples.page_drawing import PageDrawing
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom
from mailsim.samples.text_blocks import list_paragraphs

_LEFT, _RIGHT = 57, 538
# title, sentence above the lines
_TEXTS = {
    "de": {
        "delivery-note": ("Lieferschein", "Wir liefern Ihnen wie folgt:"),
        "offer": ("Angebot", "Wir bieten Ihnen freibleibend an:"),
        "reminder": (
            "Zahlungserinnerung",
            "Zu unserer Rechnung {invoice} fehlt uns noch Ihre Zahlung von {gross}.",
        ),
        "brochure": ("Unser neues Programm", ""),
    },
    "en": {
        "delivery-note": ("Delivery note", "We are delivering to you:"),
        "offer": ("Quotation", "We are pleased to quote as follows:"),
        "reminder": (
            "Payment reminder",
            "Your payment of {gross} for our invoice {invoice} has not reached us yet.",
        ),
        "brochure": ("Our new range", ""),
    },
    "fr": {
        "delivery-note": ("Bon de livraison", "Nous vous livrons :"),
        "offer": ("Devis", "Nous vous proposons, sans engagement :"),
        "reminder": (
            "Rappel",
            "Votre règlement de {gross} pour notre facture {invoice} ne nous est pas parvenu.",
        ),
        "brochure": ("Notre nouvelle gamme", ""),
    },
}


def write_lookalike(spec: MessageSpec) -> bytes:
    phrases = PHRASES[spec.language]
    greeting = phrases.greetings[spec.seed % len(phrases.greetings)]
    note = make_text(f"{greeting}\n\n{phrases.attached}\n\n{phrases.closings[0]}\n{spec.sender[0]}\n")
    name = f"{_TEXTS[spec.language][spec.variant][0]} {make_lookalike_number(spec.seed)}.pdf"
    file = make_attachment(name, "application/pdf", render_lookalike_pdf(spec))
    return build_message(spec, make_multipart("mixed", (note, file), make_boundary(spec.seed)))


@functools.lru_cache(maxsize=64)
def render_lookalike_pdf(spec: MessageSpec) -> bytes:
    from mailsim.samples.pdf import render_pdf

    invoice = make_invoice(spec)
    title, sentence = _TEXTS[spec.language][spec.variant]
    drawing = PageDrawing()
    drawing.text(_LEFT, 60, invoice.supplier.name, size=16, bold=True, colour=0x553322)
    drawing.text(_LEFT, 76, f"{invoice.supplier.street}, {invoice.supplier.city_line}", size=8)
    if spec.variant == "brochure":
        _draw_columns(drawing, spec, title)
    else:
        drawing.texts(_LEFT, 130, (invoice.buyer.name, invoice.buyer.street, invoice.buyer.city_line))
        drawing.text(_RIGHT, 130, format_long_date(invoice.issued, spec.language), align="right")
        drawing.text(_LEFT, 220, f"{title} {make_lookalike_number(spec.seed)}", size=14, bold=True)
        gross = format_price(invoice.gross, invoice.currency, spec.language)
        drawing.text(_LEFT, 246, sentence.format(invoice=invoice.number, gross=gross))
        if spec.variant != "reminder":
            _draw_lines(drawing, invoice, prices=spec.variant == "offer")
    return render_pdf(drawing, title, invoice.supplier.name)


def _draw_lines(drawing: PageDrawing, invoice: Invoice, *, prices: bool) -> None:
    y = 280
    total = Decimal(0)
    for line in invoice.lines[:24]:
        drawing.text(
            _LEFT + 60, y, f"{format_number(line.quantity, invoice.language)} {line.unit}", align="right"
        )
        drawing.text(_LEFT + 78, y, line.text)
        if prices:
            drawing.text(
                _RIGHT, y, format_price(line.amount, invoice.currency, invoice.language), align="right"
            )
        total += line.amount
        y += 16
    if prices:
        drawing.rule(_LEFT, y - 8, _RIGHT, y - 8)
        drawing.text(
            _RIGHT, y + 8, format_price(total, invoice.currency, invoice.language), bold=True, align="right"
        )


def _draw_columns(drawing: PageDrawing, spec: MessageSpec, title: str) -> None:
    drawing.box(0, 100, 595, 120, 0xD9A441)
    drawing.text(_LEFT, 172, title, size=30, bold=True, colour=0xFFFFFF)
    rng = SeededRandom(spec.seed, 41)
    for x in (_LEFT, 310):
        y = 250.0
        for _ in range(6):
            paragraph = rng.pick(list_paragraphs(spec.language))
            y = drawing.texts(x, y, textwrap.wrap(paragraph, 50)) + 10
