"""Finds table rows that arithmetic confirms: tax by rate, line items (quantity x price = amount).

`table_validation` checks the rows that people enter.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from typing import Final

from postroom.documents.fields.label_matching import LabelContext
from postroom.documents.fields.value_parsing import ParsedValue

_HIGHEST_RATE: Final = Decimal(30)
_CENT: Final = Decimal("0.02")
_MAX_RATES: Final = 8  # of one document; more are found by chance


@dataclass(frozen=True, slots=True)
class TaxRow:
    rate: Decimal
    net: Decimal | None
    vat: Decimal
    line: int


@dataclass(frozen=True, slots=True)
class LineItemRow:
    description: str
    quantity: Decimal | None
    unit_price: Decimal | None
    amount: Decimal
    line: int


def _numbers(context: LabelContext, line: int) -> list[ParsedValue]:
    return [value for value in context.values.get(line, ()) if value.shape == "number"]


def find_tax_rows(context: LabelContext, vat: Decimal | None) -> list[TaxRow]:
    """Find lines with a rate and its net and tax amounts, else a rate beside the total tax.

    If the total tax is known, only rows that add up to it: other lines may fit by chance.
    """
    found: dict[Decimal, TaxRow] = {}
    for line in context.document.lines:
        numbers = _numbers(context, line.index)
        amounts = [each.number for each in numbers if not each.percent and each.decimals <= 2]
        is_item = next(_line_items(context, line.index), None) is not None  # its quantity is no rate
        rates = [each.number for each in numbers if each.percent or (each.decimals <= 1 and not is_item)]
        for rate in dict.fromkeys(each for each in rates if 0 < each <= _HIGHEST_RATE):
            row = _tax_row(rate, amounts, vat, line.index)
            if row and (rate not in found or (found[rate].net is None and row.net is not None)):
                found[rate] = row
    rows = sorted(found.values(), key=lambda row: row.rate)
    return rows if vat is None else _select_sum(rows, vat)


def _select_sum(rows: Sequence[TaxRow], vat: Decimal) -> list[TaxRow]:
    """The largest set of rows that adds up to the total tax; none if no set does."""
    for count in range(len(rows), 0, -1):
        for chosen in combinations(rows[:_MAX_RATES], count):
            if sum((row.vat for row in chosen), Decimal(0)) == vat:
                return list(chosen)
    return []


def _tax_row(rate: Decimal, amounts: Sequence[Decimal], vat: Decimal | None, line: int) -> TaxRow | None:
    places = {amount: place for place, amount in reversed(list(enumerate(amounts)))}
    ordered = sorted(places)
    for net in amounts:
        taxes = [
            tax
            for tax in _values_near(ordered, net * rate / 100)
            if tax not in {rate, 0} and abs(net) > abs(tax)
        ]
        if taxes:
            return TaxRow(rate, net, min(taxes, key=places.__getitem__), line)
    if vat is not None and vat in amounts and vat != rate:
        return TaxRow(rate, None, vat, line)
    return None


def _values_near(ordered: Sequence[Decimal], wanted: Decimal) -> Sequence[Decimal]:
    """Return the distinct sorted values that differ by a cent or two at most."""
    return ordered[bisect_left(ordered, wanted - _CENT) : bisect_right(ordered, wanted + _CENT)]


def find_line_items(context: LabelContext) -> list[LineItemRow]:
    """Find rows whose amount is the product of two numbers before it; their words are the description."""
    found: list[LineItemRow] = []
    for line in context.document.lines:
        row = next(_line_items(context, line.index), None)
        if row:
            found.append(row)
    return found


def _line_items(context: LabelContext, index: int) -> Iterator[LineItemRow]:
    line = context.document.lines[index]
    numbers = [each for each in _numbers(context, index) if not each.percent]
    if len(numbers) < 3 or any(hit.field in {"net", "vat", "gross"} for hit in context.hits.get(index, ())):
        return
    for amount in reversed(numbers):
        if amount.decimals != 2 or amount.number == 0:
            continue
        before = [each for each in numbers if each.end <= amount.start]
        factors = _find_factors(before, amount.number)
        if factors:
            one, other = factors
            quantity, price = (one, other) if other.decimals >= one.decimals else (other, one)
            yield LineItemRow(
                _description(line.text, numbers), quantity.number, price.number, amount.number, index
            )
            return


def _find_factors(numbers: Sequence[ParsedValue], product: Decimal) -> tuple[ParsedValue, ParsedValue] | None:
    """Return the first two numbers with this product; the second is searched, not tried."""
    places: dict[Decimal, list[int]] = {}
    for place, each in enumerate(numbers):
        places.setdefault(each.number, []).append(place)
    ordered = sorted(places)
    for place, one in enumerate(numbers):
        if one.number == 0:
            continue
        low, high = sorted(((product - _CENT) / one.number, (product + _CENT) / one.number))
        near = ordered[max(bisect_left(ordered, low) - 1, 0) : bisect_right(ordered, high) + 1]
        others = [
            other
            for number in near
            if abs(one.number * number - product) <= _CENT
            for other in places[number][:2]
            if other != place
        ]
        if others:
            return one, numbers[min(others)]
    return None


def _description(text: str, numbers: Sequence[ParsedValue]) -> str:
    """Return the longest text between the numbers."""
    parts: list[str] = []
    place = 0
    for value in numbers:
        parts.append(text[place : value.start])
        place = value.end
    longest = max([*parts, text[place:]], key=lambda part: sum(map(str.isalpha, part)))
    return re.sub(r"\s+", " ", longest).strip(" |:;,.-€$£%")[:200]
