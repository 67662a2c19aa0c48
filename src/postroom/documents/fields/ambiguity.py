"""What may be read in two ways though it stands in its place: days, signs of currencies, thousands.

Works on the fields that were read, whoever read them, and the values that they came from.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from postroom.documents.fields.document_text import DocumentText
from postroom.documents.fields.extraction_result import FieldValue
from postroom.documents.fields.value_parsing import ParsedValue
from postroom.documents.kinds.document_kind import (
    DocumentKind,
    ProductRelation,
    SettlementRelation,
    SumRelation,
)

NUMBERS: Final = frozenset({"amount", "quantity", "price"})
_ROUNDED: Final = Decimal("0.005")
# What is left of the confidence: a day is one of two, and most dollars are American.
_LEFT: Final = {"date": 0.5, "currency": 0.8}


def mark_ambiguous(
    kind: DocumentKind, fields: Mapping[str, FieldValue], found: Sequence[ParsedValue], sheet: DocumentText
) -> dict[str, FieldValue]:
    """The fields, those less certain or marked that may be another value as well."""
    doubts = {
        name: doubt for name, field in fields.items() if (doubt := _doubt(kind, name, field, found, sheet))
    }
    numbers = {name for name in doubts if kind.fields[name].shape in NUMBERS}
    decided = numbers - _undecided(kind, fields, numbers)
    return {
        name: _less(field, doubts[name], kind.fields[name].shape)
        if name in doubts and name not in decided
        else field
        for name, field in fields.items()
    }


def _less(field: FieldValue, doubt: str, shape: str) -> FieldValue:
    confidence = round(field.confidence * _LEFT.get(shape, 1.0), 3)
    return replace(field, confidence=confidence, evidence=f"{field.evidence}; {doubt}", doubt=doubt)


def _doubt(
    kind: DocumentKind, name: str, field: FieldValue, found: Sequence[ParsedValue], sheet: DocumentText
) -> str:
    shape = kind.fields[name].shape
    if shape == "currency":
        same = (value for value in found if value.shape == "currency" and value.content == field.value)
        return next((value.doubt for value in same if value.doubt), "")
    if shape != "date" and shape not in NUMBERS:
        return ""
    return next(
        (doubt for value in _at(field, found, sheet) if (doubt := value.doubt or _odd(value, shape))), ""
    )


def _at(field: FieldValue, found: Sequence[ParsedValue], sheet: DocumentText) -> Iterator[ParsedValue]:
    """What stands where the field was read, in the reading that was taken."""
    for value in found:
        line = sheet.lines[value.line]
        same = (
            abs(abs(value.number) - abs(field.value)) <= _ROUNDED
            if value.shape == "number" and isinstance(field.value, Decimal)
            else value.content == field.value
        )
        if same and line.page == field.page and line.box(value.start, value.end) == field.box:
            yield value


def _odd(value: ParsedValue, shape: str) -> str:
    """An amount of money with three decimals is rather one in thousands, whatever other numbers look like."""
    odd = shape == "amount" and value.decimals == 3 and 1 <= abs(value.number) < 1000
    return f"{value.number} has three decimals, which money has not" if odd else ""


def _undecided(kind: DocumentKind, fields: Mapping[str, FieldValue], doubted: set[str]) -> set[str]:
    """Those for which the sum comes out in thousands as well as in decimals."""
    left = set(doubted)

    def agreed(*names: str) -> bool:
        return all(name in fields and (each := fields[name].signals) and each.agreed for name in names)

    for relation in kind.relations:
        match relation:
            case ProductRelation(one, other, result) if agreed(one, other, result):
                names = {one, other, result}
                # One factor and the product may both be a thousand times as large.
                both = result in left and len(left & {one, other}) == 1
            case SumRelation(one, other, result) if agreed(one, other, result):
                names = {one, other, result}
                both = all(name in left or not fields[name].value for name in names)
            case SettlementRelation(worth, paid) if worth in fields and agreed(paid):
                names = {worth, paid}
                both = names <= left
            case _:
                continue
        left -= set() if both else names
    return left
