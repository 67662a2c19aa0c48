"""Invoices as data: every sum adds up, every check digit is right. How they look is written elsewhere."""

import functools
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from mailsim.samples.check_digits import spaced
from mailsim.samples.document_numbers import invoice_number
from mailsim.samples.firms import Firm, buyer, supplier
from mailsim.samples.localized_formats import cents
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.seeded_random import SeededRandom


@dataclass(frozen=True, slots=True)
class InvoiceLine:
    text: str
    quantity: Decimal
    unit: str
    price: Decimal
    rate: Decimal
    amount: Decimal


@dataclass(frozen=True, slots=True)
class InvoiceTax:
    rate: Decimal
    base: Decimal
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Invoice:
    number: str
    issued: date
    due: date
    delivered: date
    language: str
    currency: str
    supplier: Firm
    buyer: Firm
    customer: str
    purchase_order: str
    lines: tuple[InvoiceLine, ...]
    taxes: tuple[InvoiceTax, ...]
    net: Decimal
    vat: Decimal
    gross: Decimal


# standard and reduced rate
_RATES = {
    "DE": ("19", "7"),
    "CH": ("8.1", "2.6"),
    "GB": ("20", "5"),
    "IE": ("23", "13.5"),
    "FR": ("20", "5.5"),
}
_CURRENCIES = {"DE": ("EUR",), "CH": ("CHF",), "GB": ("GBP",), "IE": ("EUR", "EUR", "USD"), "FR": ("EUR",)}
# what, unit, lowest and highest price in cents, whether the reduced rate applies
_GOODS = {
    "de": (
        ("Kopierpapier A4, 500 Blatt", "Pack", 390, 720, False),
        ("Beratung vor Ort", "Std.", 8500, 14500, False),
        ("Wartungspauschale", "Monat", 4900, 39900, False),
        ("Fachbuch „Statik im Alltag“", "Stück", 1990, 5990, True),
        ("Kugelschreiber, blau", "Stück", 45, 240, False),
        ("Obstkorb, groß", "Stück", 2450, 4800, True),
        ("Montage Beleuchtung", "Std.", 5400, 7900, False),
        ("Fracht und Verpackung", "Psch.", 690, 4900, False),
        ("Schaltschrank, 600 x 800", "Stück", 28900, 94900, False),
        ("Broschüre, 24 Seiten", "Stück", 89, 310, True),
    ),
    "en": (
        ("Copy paper A4, 500 sheets", "pack", 390, 720, False),
        ("On-site consulting", "hour", 8500, 14500, False),
        ("Maintenance plan", "month", 4900, 39900, False),
        ("Ballpoint pens, blue", "piece", 45, 240, False),
        ("Child car seat", "piece", 8900, 21900, True),
        ("Installation of lighting", "hour", 5400, 7900, False),
        ("Freight and packaging", "lot", 690, 4900, False),
        ("Energy-saving insulation", "piece", 2450, 9900, True),
        ("Hosting, 4 cores", "month", 1990, 12900, False),
        ("Folding table", "piece", 6500, 18900, False),
    ),
    "fr": (
        ("Papier A4, 500 feuilles", "ramette", 390, 720, False),
        ("Conseil sur site", "heure", 8500, 14500, False),
        ("Forfait de maintenance", "mois", 4900, 39900, False),
        ("Livre « L'électricité facile »", "pièce", 1990, 5990, True),
        ("Stylo à bille, bleu", "pièce", 45, 240, False),
        ("Plateau de fromages", "pièce", 2450, 6800, True),
        ("Pose d'éclairage", "heure", 5400, 7900, False),
        ("Transport et emballage", "forfait", 690, 4900, False),
        ("Hébergement, 4 cœurs", "mois", 1990, 12900, False),
        ("Affiche, format A2", "pièce", 210, 890, False),
    ),
}


# UN/ECE Recommendation 20, which electronic invoices speak
UNIT_CODES = {
    "Pack": "XPK",
    "pack": "XPK",
    "ramette": "XPK",
    "Std.": "HUR",
    "hour": "HUR",
    "heure": "HUR",
    "Monat": "MON",
    "month": "MON",
    "mois": "MON",
    "Stück": "C62",
    "piece": "C62",
    "pièce": "C62",
    "Psch.": "LS",
    "lot": "LS",
    "forfait": "LS",
}


@functools.lru_cache(maxsize=256)
def invoice(order: MessageSpec) -> Invoice:
    """The invoice that belongs to an order, whatever shape the document takes."""
    dice = SeededRandom(order.seed, 28)
    seller = supplier(order.seed, order.language)
    day = order.date.date() - timedelta(days=dice.below(3))
    standard, reduced = (Decimal(rate) for rate in _RATES[seller.country])
    lines = tuple(_line(dice, order.language, standard, reduced) for _ in range(_count(dice)))
    taxes = _taxes(lines)
    net = sum((line.amount for line in lines), Decimal(0))
    vat = sum((tax.amount for tax in taxes), Decimal(0))
    return Invoice(
        number=invoice_number(order.seed, order.date.year),
        issued=day,
        due=day + timedelta(days=dice.pick((10, 14, 30, 30, 60))),
        delivered=day - timedelta(days=dice.between(1, 9)),
        language=order.language,
        currency=dice.pick(_CURRENCIES[seller.country]),
        supplier=seller,
        buyer=buyer(order.language),
        customer=f"{dice.between(10_000, 99_999)}",
        purchase_order=f"{dice.pick(('PO-', '45000', 'B'))}{dice.digits(5)}",
        lines=lines,
        taxes=taxes,
        net=net,
        vat=vat,
        gross=net + vat,
    )


def _count(dice: SeededRandom) -> int:
    """Mostly a handful of lines; one in ten invoices runs over the page."""
    return dice.between(30, 60) if dice.below(10) == 0 else dice.between(1, 8)


def _line(dice: SeededRandom, language: str, standard: Decimal, reduced: Decimal) -> InvoiceLine:
    text, unit, low, high, cheap = dice.pick(_GOODS[language])
    quantity = Decimal(dice.between(1, 12))
    if unit in {"Std.", "hour", "heure"}:
        quantity = Decimal(dice.between(2, 60) * 25).scaleb(-2)
    value = Decimal(dice.between(low, high)).scaleb(-2)
    return InvoiceLine(text, quantity, unit, value, reduced if cheap else standard, cents(quantity * value))


def _taxes(lines: tuple[InvoiceLine, ...]) -> tuple[InvoiceTax, ...]:
    """VAT per rate, on the sum of that rate's lines, as EN 16931 has it."""
    bases: dict[Decimal, Decimal] = {}
    for line in lines:
        bases[line.rate] = bases.get(line.rate, Decimal(0)) + line.amount
    return tuple(
        InvoiceTax(rate, base, cents(base * rate / 100)) for rate, base in sorted(bases.items(), reverse=True)
    )


def facts(invoice: Invoice) -> dict[str, object]:
    """What stands in the document, in JSON's types: amounts as strings with a point, dates as ISO 8601."""
    return {
        "document": "invoice",
        "number": invoice.number,
        "date": invoice.issued.isoformat(),
        "due": invoice.due.isoformat(),
        "supplier": invoice.supplier.name,
        "supplier_vat_id": invoice.supplier.vat_id,
        "buyer": invoice.buyer.name,
        "customer": invoice.customer,
        "purchase_order": invoice.purchase_order,
        "currency": invoice.currency,
        "net": str(invoice.net),
        "vat": str(invoice.vat),
        "gross": str(invoice.gross),
        "vat_rates": {str(tax.rate): str(tax.amount) for tax in invoice.taxes},
        "iban": invoice.supplier.iban,
        "iban_printed": spaced(invoice.supplier.iban),
        "bic": invoice.supplier.bic,
        "language": invoice.language,
        "lines": [
            {
                "text": line.text,
                "quantity": str(line.quantity),
                "unit": line.unit,
                "price": str(line.price),
                "rate": str(line.rate),
                "amount": str(line.amount),
            }
            for line in invoice.lines
        ],
    }
