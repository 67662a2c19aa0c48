"""Refines the total of an invoice after it was found: cash rounding, deposits and the amount due.

Works on the fields of the offline reader.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Final

from postroom.documents.fields import calibration
from postroom.documents.fields.extraction_result import ConfidenceSignals, FieldValue
from postroom.documents.fields.label_matching import LabelContext
from postroom.documents.fields.value_parsing import ParsedValue
from postroom.documents.kinds.document_kind import BalanceRelation, DocumentKind

_ROUNDING_WORDS: Final = re.compile(
    r"\b(?:round(?:ing|ed)|rundung\w{0,20}|gerundet|arrondi|arrotondamento|redondeo|afronding|avrunding)\b"
)
_MAX_CASH_ROUNDING: Final = Decimal("0.02")  # to the next five cents


def refine_totals(
    context: LabelContext, kind: DocumentKind, numbers: Mapping[str, FieldValue]
) -> dict[str, FieldValue]:
    found = dict(numbers)
    amounts = [
        value
        for here in context.values.values()
        for value in here
        if value.shape == "number" and value.decimals == 2 and not value.percent
    ]
    for relation in kind.relations:
        if isinstance(relation, BalanceRelation):
            found |= _round_total(context, relation, found, amounts)
            found |= _prove_balance(context, relation, found, amounts)
    return found


def _round_total(
    context: LabelContext,
    relation: BalanceRelation,
    numbers: Mapping[str, FieldValue],
    amounts: list[ParsedValue],
) -> dict[str, FieldValue]:
    """Take the total after cash rounding, if the document states the difference and the result."""
    total = numbers.get(relation.total)
    differences = {
        abs(value.number)
        for value in amounts
        if 0 < abs(value.number) <= _MAX_CASH_ROUNDING
        and _ROUNDING_WORDS.search(context.document.lines[value.line].folded)
    }
    rounded = [each for each in amounts if total and abs(each.number - total.value) in differences]
    if total is None or len({value.number for value in rounded}) != 1:
        return {}
    words = f"{total.evidence}; {total.value} rounded to {rounded[-1].number}"
    return {relation.total: _move(context, total, rounded[-1], words)}


def _prove_balance(
    context: LabelContext,
    relation: BalanceRelation,
    numbers: Mapping[str, FieldValue],
    amounts: list[ParsedValue],
) -> dict[str, FieldValue]:
    """Confirm deposit and amount due by the total; a deposit needs no label if nothing else explains it."""
    total, prepaid, payable = (
        numbers.get(name) for name in (relation.total, relation.prepaid, relation.payable)
    )
    if total is None or payable is None or not total.value:
        return {}
    missing = abs(total.value) - abs(payable.value)
    if prepaid is None and missing > 1:
        paid = next((each for each in amounts if abs(each.number) == missing), None)
        prepaid = _move(context, payable, paid, "the total less the amount due") if paid else None
    if abs(prepaid.value if prepaid else Decimal(0)) != missing:
        return {}
    words = f"{total.value} - {missing} = {payable.value}"
    parts = {relation.payable: payable} | ({relation.prepaid: prepaid} if prepaid else {})
    return {
        name: replace(
            field,
            confidence=max(field.confidence, calibration.confidence(signals)),
            evidence=f"{field.evidence}; {words}",
            signals=signals,
        )
        for name, field in parts.items()
        for signals in [replace(field.signals or ConfidenceSignals("number"), margin=1.0, agreed=True)]
    }


def _move(context: LabelContext, field: FieldValue, value: ParsedValue, words: str) -> FieldValue:
    """Return the field with the value at another position of the document."""
    line = context.document.lines[value.line]
    box = line.box(value.start, value.end)
    return replace(field, value=value.number, evidence=words, page=line.page, box=box)
