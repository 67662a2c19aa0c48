"""Papers that resemble invoices and are none: delivery notes, offers, reminders, brochures."""

import functools
import textwrap
from decimal import Decimal

from mailsim.samples.document_numbers import paper_number
from mailsim.samples.invoices import Invoice, invoice
from mailsim.samples.localized_formats import long_date, number, price
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.mime_parts import attachment, boundary, letter, multipart, text
from mailsim.samples.page_drawing import PageDrawing
from mailsim.samples.phrases import PHRASES
from mailsim.samples.seeded_random import SeededRandom
from mailsim.samples.text_blocks import paragraphs

_LEFT, _RIGHT = 57, 538
# title, then the sentence above the lines
_WORDS = {
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


def paper(order: MessageSpec) -> bytes:
    tongue = PHRASES[order.language]
    greeting = tongue.greetings[order.seed % len(tongue.greetings)]
    note = text(f"{greeting}\n\n{tongue.attached}\n\n{tongue.closings[0]}\n{order.sender[0]}\n")
    name = f"{_WORDS[order.language][order.variant][0]} {paper_number(order.seed)}.pdf"
    file = attachment(name, "application/pdf", paper_pdf(order))
    return letter(order, multipart("mixed", (note, file), boundary(order.seed)))


@functools.lru_cache(maxsize=64)
def paper_pdf(order: MessageSpec) -> bytes:
    from mailsim.samples.pdf import pdf

    bill = invoice(order)
    title, sentence = _WORDS[order.language][order.variant]
    sheet = PageDrawing()
    sheet.text(_LEFT, 60, bill.supplier.name, size=16, bold=True, colour=0x553322)
    sheet.text(_LEFT, 76, f"{bill.supplier.street}, {bill.supplier.place}", size=8)
    if order.variant == "brochure":
        _columns(sheet, order, title)
    else:
        sheet.texts(_LEFT, 130, (bill.buyer.name, bill.buyer.street, bill.buyer.place))
        sheet.text(_RIGHT, 130, long_date(bill.issued, order.language), align="right")
        sheet.text(_LEFT, 220, f"{title} {paper_number(order.seed)}", size=14, bold=True)
        gross = price(bill.gross, bill.currency, order.language)
        sheet.text(_LEFT, 246, sentence.format(invoice=bill.number, gross=gross))
        if order.variant != "reminder":
            _lines(sheet, bill, prices=order.variant == "offer")
    return pdf(sheet, title, bill.supplier.name)


def _lines(sheet: PageDrawing, bill: Invoice, *, prices: bool) -> None:
    y = 280
    total = Decimal(0)
    for line in bill.lines[:24]:
        sheet.text(_LEFT + 60, y, f"{number(line.quantity, bill.language)} {line.unit}", align="right")
        sheet.text(_LEFT + 78, y, line.text)
        if prices:
            sheet.text(_RIGHT, y, price(line.amount, bill.currency, bill.language), align="right")
        total += line.amount
        y += 16
    if prices:
        sheet.rule(_LEFT, y - 8, _RIGHT, y - 8)
        sheet.text(_RIGHT, y + 8, price(total, bill.currency, bill.language), bold=True, align="right")


def _columns(sheet: PageDrawing, order: MessageSpec, title: str) -> None:
    sheet.box(0, 100, 595, 120, 0xD9A441)
    sheet.text(_LEFT, 172, title, size=30, bold=True, colour=0xFFFFFF)
    dice = SeededRandom(order.seed, 41)
    for x in (_LEFT, 310):
        y = 250.0
        for _ in range(6):
            words = dice.pick(paragraphs(order.language))
            y = sheet.texts(x, y, textwrap.wrap(words, 50)) + 10
