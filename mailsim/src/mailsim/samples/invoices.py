"""Invoices as data, without layout: parties, lines, taxes, totals and dates.

All amounts add up and all check digits are valid. `to_facts` gives the ground truth.
"""

import functools
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from mailsim.samples.check_digits import group_digits
from mailsim.samples.document_numbers import make_invoice_number
from mailsim.samples.firms import Firm, choose_supplier, get_buyer
from mailsim.samples.localized_formats import round_to_cents
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
# description, unit, lowest and highest price in cents, whether the reduced VAT rate applies
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


# Unit codes of UN/ECE Recommendation 20, as used in electronic invoices.
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
def make_invoice(spec: MessageSpec) -> Invoice:
    """Make the invoice of a message, independent of the document's format."""
    rng = SeededRandom(spec.seed, 28)
    seller = choose_supplier(spec.seed, spec.language)
    day = spec.date.date() - timedelta(days=rng.below(3))
    standard, reduced = (Decimal(rate) for rate in _RATES[seller.country])
    lines = tuple(_draw_line(rng, spec.language, standard, reduced) for _ in range(_draw_line_count(rng)))
    taxes = _sum_taxes(lines)
    net = sum((line.amount for line in lines), Decimal(0))
    vat = sum((tax.amount for tax in taxes), Decimal(0))
    return Invoice(
        number=make_invoice_number(spec.seed, spec.date.year),
        issued=day,
        due=day + timedelta(days=rng.pick((10, 14, 30, 30, 60))),
        delivered=day - timedelta(days=rng.between(1, 9)),
        language=spec.language,
        currency=rng.pick(_CURRENCIES[seller.country]),
        supplier=seller,
        buyer=get_buyer(spec.language),
        customer=f"{rng.between(10_000, 99_999)}",
        purchase_order=f"{rng.pick(('PO-', '45000', 'B'))}{rng.digits(5)}",
        lines=lines,
        taxes=taxes,
        net=net,
        vat=vat,
        gross=net + vat,
    )


def _draw_line_count(rng: SeededRandom) -> int:
    """Draw the number of lines: mostly a handful.

    One in ten invoices spans several pages.
    """
    return rng.between(30, 60) if rng.below(10) == 0 else rng.between(1, 8)


def _draw_line(rng: SeededRandom, language: str, standard: Decimal, reduced: Decimal) -> InvoiceLine:
    text, unit, low, high, cheap = rng.pick(_GOODS[language])
    quantity = Decimal(rng.between(1, 12))
    if unit in {"Std.", "hour", "heure"}:
        quantity = Decimal(rng.between(2, 60) * 25).scaleb(-2)
    value = Decimal(rng.between(low, high)).scaleb(-2)
    return InvoiceLine(
        text, quantity, unit, value, reduced if cheap else standard, round_to_cents(quantity * value)
    )


def _sum_taxes(lines: tuple[InvoiceLine, ...]) -> tuple[InvoiceTax, ...]:
    """Compute VAT per rate on the sum of the lines with that rate, as EN 16931 requires."""
    bases: dict[Decimal, Decimal] = {}
    for line in lines:
        bases[line.rate] = bases.get(line.rate, Decimal(0)) + line.amount
    return tuple(
        InvoiceTax(rate, base, round_to_cents(base * rate / 100))
        for rate, base in sorted(bases.items(), reverse=True)
    )


def to_facts(invoice: Invoice) -> dict[str, object]:
    """Return the document's fields in JSON types: amounts as decimal strings, dates as ISO 8601."""
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
        "iban_printed": group_digits(invoice.supplier.iban),
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
