"""Finds table rows that arithmetic confirms: tax by rate, line items (quantity x price = amount).

`table_validation` checks the rows that people enter.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import permutations
from typing import Final

from postroom.documents.fields.label_matching import LabelContext
from postroom.documents.fields.value_parsing import ParsedValue

_HIGHEST_RATE: Final = Decimal(30)
_CENT: Final = Decimal("0.02")


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
    """Find lines with a rate and its net and tax amounts, else a rate beside the total tax."""
    found: dict[Decimal, TaxRow] = {}
    for line in context.document.lines:
        numbers = _numbers(context, line.index)
        amounts = [each.number for each in numbers if not each.percent and each.decimals <= 2]
        rates = [each.number for each in numbers if each.percent or each.decimals <= 1]
        for rate in (each for each in rates if 0 < each <= _HIGHEST_RATE):
            row = _tax_row(rate, amounts, vat, line.index)
            if row and (rate not in found or (found[rate].net is None and row.net is not None)):
                found[rate] = row
    return sorted(found.values(), key=lambda row: row.rate)


def _tax_row(rate: Decimal, amounts: Sequence[Decimal], vat: Decimal | None, line: int) -> TaxRow | None:
    for net, tax in permutations(amounts, 2):
        if tax not in {rate, 0} and abs(net * rate / 100 - tax) <= _CENT and abs(net) > abs(tax):
            return TaxRow(rate, net, tax, line)
    if vat is not None and vat in amounts and vat != rate:
        return TaxRow(rate, None, vat, line)
    return None


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
        before = [each for each in numbers if each.end <= amount.start]
        for one, other in permutations(before, 2):
            product = one.number * other.number
            if (
                amount.decimals == 2
                and amount.number != 0
                and abs(product - amount.number) <= _CENT
                and one is not other
            ):
                quantity, price = (one, other) if other.decimals >= one.decimals else (other, one)
                yield LineItemRow(
                    _description(line.text, numbers), quantity.number, price.number, amount.number, index
                )
                return


def _description(text: str, numbers: Sequence[ParsedValue]) -> str:
    """Return the longest text between the numbers."""
    parts: list[str] = []
    place = 0
    for value in numbers:
        parts.append(text[place : value.start])
        place = value.end
    longest = max([*parts, text[place:]], key=lambda part: sum(map(str.isalpha, part)))
    return re.sub(r"\s+", " ", longest).strip(" |:;,.-€$£%")[:200]
