"""Marks fields with two readings: day or month first, shared currency signs, decimals, a doubtful minus.

Works on the fields of any reader and on the values that they came from. It lowers confidences and changes no
value.
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

NUMBER_SHAPES: Final = frozenset({"amount", "quantity", "price"})
_ROUNDING: Final = Decimal("0.005")
# A date is one of two, and most dollars are American.
_CONFIDENCE_FACTORS: Final = {"date": 0.5, "currency": 0.8, "code": 0.8}


def mark_ambiguous(
    kind: DocumentKind, fields: Mapping[str, FieldValue], found: Sequence[ParsedValue], document: DocumentText
) -> dict[str, FieldValue]:
    """Lower the confidence of ambiguous fields, or mark them."""
    doubts = {
        name: doubt
        for name, field in fields.items()
        if (doubt := _describe_ambiguity(kind, name, field, found, document))
    }
    numbers = {name for name in doubts if kind.fields[name].shape in NUMBER_SHAPES}
    decided = numbers - _unresolved_by_arithmetic(kind, fields, numbers)
    return {
        name: _lower_confidence(field, doubts[name], kind.fields[name].shape)
        if name in doubts and name not in decided
        else field
        for name, field in fields.items()
    }


def _lower_confidence(field: FieldValue, doubt: str, shape: str) -> FieldValue:
    confidence = round(field.confidence * _CONFIDENCE_FACTORS.get(shape, 1.0), 3)
    evidence = field.evidence if doubt in field.evidence else f"{field.evidence}; {doubt}"
    return replace(field, confidence=confidence, evidence=evidence, ambiguity=doubt)


def _describe_ambiguity(
    kind: DocumentKind, name: str, field: FieldValue, found: Sequence[ParsedValue], document: DocumentText
) -> str:
    shape = kind.fields[name].shape
    if shape == "currency":
        same = (value for value in found if value.shape == "currency" and value.content == field.value)
        return next((value.ambiguity for value in same if value.ambiguity), "")
    if shape == "code" and name not in kind.required:
        return field.ambiguity  # a required one fails a check
    if shape != "date" and shape not in NUMBER_SHAPES:
        return ""
    return next(
        (
            doubt
            for value in _values_at(field, found, document)
            if (
                doubt := value.ambiguity
                or _describe_doubtful_sign(value, field)
                or _describe_three_decimals(value, shape)
            )
        ),
        "",
    )


def _values_at(
    field: FieldValue, found: Sequence[ParsedValue], document: DocumentText
) -> Iterator[ParsedValue]:
    """Yield the values at the field's position that equal the field."""
    for value in found:
        line = document.lines[value.line]
        same = (
            abs(abs(value.number) - abs(field.value)) <= _ROUNDING
            if value.shape == "number" and isinstance(field.value, Decimal)
            else value.content == field.value
        )
        if same and line.page == field.page and line.box(value.start, value.end) == field.box:
            yield value


def _describe_doubtful_sign(value: ParsedValue, field: FieldValue) -> str:
    """A doubtful minus, unless the field has no sign: fees are the same with and without one."""
    return value.sign_ambiguity if value.content == field.value else ""


def _describe_three_decimals(value: ParsedValue, shape: str) -> str:
    """Money has no three decimals: the number is probably in thousands, whatever other numbers look like."""
    odd = shape == "amount" and value.decimals == 3 and 1 <= abs(value.number) < 1000
    return f"{value.number} has three decimals, unlike money" if odd else ""


def _unresolved_by_arithmetic(
    kind: DocumentKind, fields: Mapping[str, FieldValue], doubted: set[str]
) -> set[str]:
    """Return the fields whose arithmetic holds in thousands as well as in decimals."""
    left = set(doubted)

    def agreed(*names: str) -> bool:
        return all(name in fields and (each := fields[name].signals) and each.agreed for name in names)

    for relation in kind.relations:
        match relation:
            case ProductRelation(one, other, result) if agreed(one, other, result):
                names = {one, other, result}
                # One factor and the product may both be a thousand times larger.
                both = result in left and len(left & {one, other}) == 1
            case SumRelation(one, other, result) if agreed(one, other, result):
                names = {one, other, result}
                both = all(name in left or not fields[name].value for name in names)
            case SettlementRelation(gross, paid) if gross in fields and agreed(paid):
                names = {gross, paid}
                both = names <= left
            case _:
                continue
        left -= set() if both else names
    return left
