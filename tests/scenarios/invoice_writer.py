"""Invoices of one supplier in German and English: as PDF, and as the attachment of a message."""

from datetime import date, timedelta
from decimal import Decimal
from email.message import EmailMessage
from hashlib import sha256

from documents.files.sample_files import pdf

IBAN, OTHER_IBAN = "DE02120300000000202051", "DE88200800000970375700"
_TEXTS = {
    "de": """Xenon GmbH
Lieferant: Xenon GmbH
Lange Straße 12, 20095 Hamburg

Rechnung
Rechnungsnummer: {number}
Rechnungsdatum: {issued}
Fällig am: {due}
{extra}
Nettobetrag {net} EUR
MwSt 19 % {vat} EUR
Gesamtbetrag {gross} EUR
{after}
Bankverbindung IBAN: {iban}
USt-IdNr: DE136695976""",
    "en": """Xenon GmbH
Supplier: Xenon GmbH
12 Long Street, London SW1A 1AA

Invoice
Invoice number: {number}
Invoice date: {issued}
Due date: {due}
{extra}
Net total EUR {net}
VAT 19 % EUR {vat}
Total EUR {gross}
{after}
Bank account IBAN: {iban}
VAT ID: DE136695976""",
}


def format_amount(language: str, amount: Decimal) -> str:
    text = f"{amount:,.2f}"
    return text.translate(str.maketrans(",.", ".,")) if language == "de" else text


def format_date(language: str, day: date) -> str:
    return f"{day:%d.%m.%Y}" if language == "de" else f"{day:%d %B %Y}"


def write_invoice(
    language: str,
    number: str,
    issued: date,
    *,
    gross: str = "119.00",
    iban: str = IBAN,
    due: date | None = None,
    extra: str = "",
    after: str = "",
) -> bytes:
    """A PDF; `extra` lines are above the amounts, `after` lines below them."""
    text = write_text(language, number, issued, gross=gross, iban=iban, due=due, extra=extra, after=after)
    return pdf([(60, 780 - 18 * row, line) for row, line in enumerate(text.splitlines())])


def write_text(
    language: str,
    number: str,
    issued: date,
    *,
    gross: str = "119.00",
    iban: str = IBAN,
    due: date | None = None,
    extra: str = "",
    after: str = "",
) -> str:
    """The lines of the invoice."""
    total = Decimal(gross)
    net = (total / Decimal("1.19")).quantize(Decimal("0.01"))
    amounts = {"net": net, "vat": total - net, "gross": total}
    return _TEXTS[language].format(
        number=number,
        issued=format_date(language, issued),
        due=format_date(language, due or issued + timedelta(days=14)),
        iban=" ".join(iban[start : start + 4] for start in range(0, len(iban), 4)),
        extra=extra,
        after=after,
        **{name: format_amount(language, amount) for name, amount in amounts.items()},
    )


def attach(content: bytes, number: int = 1) -> bytes:
    """A message that brings this file."""
    message = EmailMessage()
    message["From"] = "Xenon <billing@xenon.example>"
    message["To"] = "accounts@example.com"
    message["Subject"] = f"Invoice {number}"
    message["Message-ID"] = f"<{number}.{sha256(content).hexdigest()[:16]}@xenon.example>"
    message.set_content("Please find our invoice attached.")
    message.add_attachment(content, maintype="application", subtype="pdf", filename=f"{number}.pdf")
    return bytes(message)
