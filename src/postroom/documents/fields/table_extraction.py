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
_HALF_CENT: Final = Decimal("0.005")
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


def find_tax_rows(context: LabelContext) -> list[TaxRow]:
    """Find lines with a rate and its net and tax amounts, one for each rate."""
    found: dict[Decimal, TaxRow] = {}
    for line in context.document.lines:
        amounts = _amounts(context, line.index)
        for rate in _rates(context, line.index):
            if rate not in found and (row := _tax_row(rate, amounts, line.index)):
                found[rate] = row
    return sorted(found.values(), key=lambda row: row.rate)


def prove_tax_rows(context: LabelContext, net: Decimal, vat: Decimal) -> list[TaxRow]:
    """Return the largest set of rows that adds up to both totals; none if no set does.

    Other lines may fit by chance: a quantity, or a part of an amount, is no rate.
    """
    rows = [*find_tax_rows(context), *_find_stated_taxes(context)]
    for count in range(min(len(rows), _MAX_RATES), 0, -1):
        for chosen in combinations(rows[:_MAX_RATES], count):
            if _add_up(chosen, net, vat):
                return sorted(chosen, key=lambda row: row.rate)
    return []


def _add_up(rows: Sequence[TaxRow], net: Decimal, vat: Decimal) -> bool:
    """Check that each rate is there once, and that the rows add up to the totals."""
    is_repeated = len({row.rate for row in rows}) < len(rows)
    if is_repeated or sum((row.vat for row in rows), Decimal(0)) != vat:
        return False
    # A net amount that is not stated follows from the tax, which is rounded.
    nets = sum((row.vat * 100 / row.rate if row.net is None else row.net for row in rows), Decimal(0))
    rounding = sum((_HALF_CENT * 100 / row.rate for row in rows if row.net is None), Decimal(0))
    return abs(nets - net) <= rounding + _HALF_CENT


def _find_stated_taxes(context: LabelContext) -> Iterator[TaxRow]:
    """Find a rate and its tax without a net amount, one for each rate."""
    found: set[Decimal] = set()
    for line in context.document.lines:
        is_labelled = any(hit.field == "vat" for hit in context.hits.get(line.index, ()))
        rates = _rates(context, line.index) if is_labelled else []
        if len(rates) != 1 or rates[0] in found:
            continue
        amounts = [
            value.number
            for value in _numbers(context, line.index)
            if value.likely and not value.percent and value.decimals <= 2
            if value.decimals == 2 or value.number != rates[0]
        ]
        if amounts:
            found.add(rates[0])
            yield TaxRow(rates[0], None, amounts[-1], line.index)


def _amounts(context: LabelContext, line: int) -> list[Decimal]:
    return [value.number for value in _numbers(context, line) if not value.percent and value.decimals <= 2]


def _rates(context: LabelContext, line: int) -> list[Decimal]:
    """Return the numbers that may be rates: percentages, and short ones that are no quantity."""
    is_item = next(_line_items(context, line), None) is not None
    rates = [
        value.number
        for value in _numbers(context, line)
        if value.percent or (value.likely and value.decimals <= 1 and not is_item)
    ]
    return list(dict.fromkeys(rate for rate in rates if 0 < rate <= _HIGHEST_RATE))


def _tax_row(rate: Decimal, amounts: Sequence[Decimal], line: int) -> TaxRow | None:
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
