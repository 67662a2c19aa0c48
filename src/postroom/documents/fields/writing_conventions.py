"""Detects a document's language group, and whether its dates have the month first.

The group is English or continental. `value_parsing` parses numbers and dates accordingly.
"""

import re
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Final, Literal

from postroom.documents.fields.currencies import AMERICAN

# Words that are common in business documents of one language group and unknown in the other.
_ENGLISH: Final = frozenset(
    """
    the of and for from your our with by please thank this amount invoice number due quantity price bought
    sold shares trade settlement bill subtotal description payment
    """.split()  # noqa: SIM905  # a literal of many strings is no better to read
)
_CONTINENTAL: Final = frozenset(
    """
    und der den dem fur mit vom zum zur von wir ihr ihre sie nicht rechnung datum betrag kurs stuck mwst
    gesamtbetrag summe nettobetrag et les des du pour vous votre nous facture montant cours tva della del di
    fattura importo iva fecha factura importe het een voor factuur bedrag aantal btw og och faktura
    belopp belob kwota fatura
    """.split()  # noqa: SIM905  # a literal of many strings is no better to read
)
_MIN_RATIO: Final = 2  # this many times more words than of the other group
_NUMERIC: Final = re.compile(r"(?<![\d/-])(\d{1,2})([/-])(\d{1,2})\2(\d{4}|\d{2})(?![\d/]|-\d)")
# Currencies, taxes, accounts, places and postcodes of countries that write the day first, and such dates.
_DAY_FIRST: Final = re.compile(
    r"[€£₹]|\b(?:EUR|GBP|CHF|SEK|NOK|DKK|PLN|CZK|RON|BGN|TRY|INR|AUD|NZD|SGD|HKD|MYR|ZAR|THB|BRL|MXN|ILS|RUB"
    r"|VAT|IBAN|ABN)\b|\b(?:AU?|NZ|HK|SG?|R|MX)\$|\bRM ?\d|\b\d{1,2}(?:st|nd|rd|th)? (?:January|February"
    r"|March|April|May|June|July|August|September|October|November|December) \d{4}\b"
    r"|\b(?i:london(?! stock| exch)|united kingdom|england|scotland|ireland|dublin|australia|new zealand"
    r"|india|malaysia|kuala lumpur|singapore|hong kong|south africa)\b|\b[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}\b"
)
_PROBABLY_AMERICAN: Final = re.compile(r"\b(?:USA|USD)\b|\bU\.S\.|\b(?i:united states)\b|\$")

Language = Literal["english", "continental"]


def detect_language(folded: str) -> Language | None:
    """Detect the language group, as far as it decides how numbers and dates are written."""
    words = re.findall(r"[a-z]+", folded)
    english, continental = (sum(word in known for word in words) for known in (_ENGLISH, _CONTINENTAL))
    if english >= max(_MIN_RATIO * continental, _MIN_RATIO):
        return "english"
    return "continental" if continental >= max(_MIN_RATIO * english, _MIN_RATIO) else None


def detect_month_first(text: str, folded: str, mark: str, written_out: Collection[date]) -> tuple[bool, bool]:
    """Return whether 04/03 is in April, and whether that is certain: by other dates, then by country."""
    pairs = [
        (int(first), int(second), _to_full_year(year))
        for first, between, second, year in _NUMERIC.findall(folded)
        if between == mark and min(int(first), int(second)) <= 12 and max(int(first), int(second)) <= 31
    ]
    by_days = {True for _, second, _ in pairs if second > 12} | {False for first, *_ in pairs if first > 12}
    if not by_days:
        known = {(each.year, each.month, each.day) for each in written_out}
        by_days = {order for each in pairs for order in _matching_orders(*each, known)}
    if by_days:
        return by_days == {True}, len(by_days) == 1
    if detect_language(folded) == "continental":
        return False, True
    american, elsewhere = AMERICAN.search(text), _DAY_FIRST.search(text)
    if american and elsewhere:
        return False, False
    if american or elsewhere:
        return bool(american), True
    return bool(_PROBABLY_AMERICAN.search(text)), False


def _to_full_year(written: str) -> int:
    year = int(written)
    return year if year > 99 else year + (2000 if year < 70 else 1900)


def _matching_orders(
    first: int, second: int, year: int, written_out: AbstractSet[tuple[int, int, int]]
) -> Iterator[bool]:
    """Yield the readings whose date is written out elsewhere in the document."""
    for month_first, (month, day) in ((True, (first, second)), (False, (second, first))):
        if first != second and (year, month, day) in written_out:
            yield month_first
