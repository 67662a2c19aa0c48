"""Checks whether the payment of a trade may be another amount, in another currency or without a label.

Many notes state the total of a trade in its own currency and, further down, charge the account in another.
Works on the fields of the offline reader and their values. It yields failed checks and changes no value.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from postroom.documents.fields.document_text import DocumentText
from postroom.documents.fields.extraction_result import FieldCheck, FieldValue
from postroom.documents.fields.value_parsing import ParsedValue
from postroom.documents.kinds.document_kind import DocumentKind, SettlementRelation

_CENT_TOLERANCE: Final = Decimal("0.02")
_RATE_TOLERANCE: Final = Decimal("0.0005")  # rates are printed rounded


def check_payments(
    kind: DocumentKind, fields: Mapping[str, FieldValue], found: Sequence[ParsedValue], document: DocumentText
) -> Iterator[FieldCheck]:
    """Yield a failed check if the payment may be another amount."""
    for relation in kind.relations:
        paid = fields.get(relation.paid) if isinstance(relation, SettlementRelation) else None
        if paid is None or not isinstance(relation, SettlementRelation):
            continue
        doubt = _describe_conversion(paid, found, document) or _describe_missing_label(paid)
        if doubt:
            yield FieldCheck(
                f"{relation.paid} is the payment", False, doubt, fields=(relation.paid,), is_doubt=True
            )


def _describe_missing_label(paid: FieldValue) -> str:
    if paid.signals is None or paid.signals.label > 0:
        return ""
    return f"{paid.value} has no label"


def _describe_conversion(paid: FieldValue, found: Sequence[ParsedValue], document: DocumentText) -> str:
    """Say which amount in another currency, below the payment, is the payment at an exchange rate."""
    at = _find_position(paid, found, document)
    if at is None or at.currency is None:
        return ""
    rates = {value.number for value in found if value.shape == "number" and value.rate and value.number > 0}
    converted = [size for rate in rates for size in (abs(at.number) * rate, abs(at.number) / rate)]
    for value in found:
        if value.shape != "number" or value.decimals != 2 or not value.likely:
            continue
        is_below = (value.line, value.start) > (at.line, at.start)
        if not is_below or value.currency in {None, at.currency}:
            continue
        size = abs(value.number)
        if any(abs(size - each) <= _CENT_TOLERANCE + _RATE_TOLERANCE * each for each in converted):
            return f"{at.number} {at.currency} is also stated as {value.number} {value.currency}"
    return ""


def _find_position(
    paid: FieldValue, found: Sequence[ParsedValue], document: DocumentText
) -> ParsedValue | None:
    for value in found:
        line = document.lines[value.line]
        if (
            value.shape == "number"
            and value.likely
            and line.page == paid.page
            and line.box(value.start, value.end) == paid.box
        ):
            return value
    return None
