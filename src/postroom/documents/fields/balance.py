"""Refines the total of an invoice after it was found: cash rounding, deposits, amount due, larger totals.

Works on the fields of the offline reader.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from postroom.documents.fields import calibration
from postroom.documents.fields.extraction_result import ConfidenceSignals, FieldCheck, FieldValue
from postroom.documents.fields.label_matching import LabelContext
from postroom.documents.fields.value_parsing import ParsedValue
from postroom.documents.kinds.document_kind import BalanceRelation, DocumentKind, SumRelation

_ROUNDING_WORDS: Final = re.compile(
    r"\b(?:round(?:ing|ed)|rundung\w{0,20}|gerundet|arrondi|arrotondamento|redondeo|afronding|avrunding)\b"
)
_TAX_TOLERANCE: Final = Decimal("0.10")  # taxes of several items are rounded one by one
_MAX_TAX_SHARE: Final = Decimal("0.3")  # of the net amount
_UNLABELLED_DEPOSIT: Final = 0.9  # the highest confidence
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
            found |= _sign_deposit(relation, found)
    return found


def check_total(
    kind: DocumentKind, fields: Mapping[str, FieldValue], found: Sequence[ParsedValue]
) -> Iterator[FieldCheck]:
    """Yield a failed check if the amounts may be one row of a table, whose total is stated as well."""
    sizes = {
        abs(value.number)
        for value in found
        if value.shape == "number" and value.decimals == 2 and value.likely and not value.percent
    }
    for relation in kind.relations:
        if not isinstance(relation, SumRelation):
            continue
        names = (relation.left, relation.right, relation.result)
        parts = [abs(field.value) for name in names if (field := fields.get(name))]
        if len(parts) < len(names) or not parts[1]:
            continue
        larger = [
            (net, vat)
            for net in sizes
            for vat in sizes
            if net > parts[0] and parts[1] < vat < _MAX_TAX_SHARE * net and net + vat in sizes
        ]
        if larger:
            net, vat = min(larger)
            words = f"{net} + {vat} = {net + vat} may be the total, of which {parts[2]} is a part"
            yield FieldCheck(f"{relation.result} is the total", False, words, fields=names, is_doubt=True)


def check_tax(
    kind: DocumentKind, fields: Mapping[str, FieldValue], found: Sequence[ParsedValue]
) -> Iterator[FieldCheck]:
    """Yield a failed check for a tax without a label or a rate: a balance brought forward adds up as well."""
    rates = {abs(value.number) for value in found if value.shape == "number" and value.percent}
    for relation in kind.relations:
        if not isinstance(relation, SumRelation):
            continue
        net, tax = fields.get(relation.left), fields.get(relation.right)
        if net is None or tax is None or not tax.value or not tax.signals or tax.signals.label > 0:
            continue
        if not any(abs(abs(net.value) * rate / 100 - abs(tax.value)) <= _TAX_TOLERANCE for rate in rates):
            words = f"{tax.value} has no label, and no rate explains it"
            yield FieldCheck(
                f"{relation.right} is a tax", False, words, fields=(relation.right,), is_doubt=True
            )


def check_balance(
    kind: DocumentKind, fields: Mapping[str, FieldValue], found: Sequence[ParsedValue]
) -> Iterator[FieldCheck]:
    """Yield a failed check if a deduction below the total, or an addition, leads to another amount due."""
    amounts = [value for value in found if value.shape == "number" and value.decimals == 2 and value.likely]
    for relation in kind.relations:
        if not isinstance(relation, BalanceRelation) or (total := fields.get(relation.total)) is None:
            continue
        payable, size = fields.get(relation.payable), abs(total.value)
        if payable and payable.value != total.value:
            continue
        known = {0} | {
            abs(field.value)
            for name, field in fields.items()
            if isinstance(field.value, Decimal) and name not in {relation.prepaid, relation.payable}
        }
        for change, rest in _pairs_below(amounts, size):
            if rest in {size - change, size + change} and not {change, rest} <= known:
                words = f"{rest} may be the amount due: it is printed below {total.value} and {change}"
                yield FieldCheck(
                    f"{relation.total} is due", False, words, fields=(relation.total,), is_doubt=True
                )
                return


def _pairs_below(amounts: Sequence[ParsedValue], total: Decimal) -> Iterator[tuple[Decimal, Decimal]]:
    """Yield the two amounts that follow the total in a column of amounts, each at the end of a line."""
    last = {value.line: value for value in amounts}
    column = [abs(last[line].number) for line in sorted(last)]
    for place, size in enumerate(column[:-2]):
        if size == total:
            yield column[place + 1], column[place + 2]


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
    if not missing and payable.signals and payable.signals.margin <= 0:
        return {}  # another amount has such a label too: it may be what is left to pay
    words = f"{total.value} - {missing} = {payable.value}"
    proven = {relation.payable: _confirm(payable, words)}
    if prepaid:
        proven[relation.prepaid] = _confirm(prepaid, words)
        if relation.prepaid not in numbers:
            # A tax that is withheld, or a discount, explains the balance as well as a deposit.
            confidence = min(proven[relation.prepaid].confidence, _UNLABELLED_DEPOSIT)
            proven[relation.prepaid] = replace(proven[relation.prepaid], confidence=confidence)
    return proven


def _sign_deposit(relation: BalanceRelation, numbers: Mapping[str, FieldValue]) -> dict[str, FieldValue]:
    """Give the deposit the sign of the total: a minus before it only says that it is deducted."""
    total, prepaid = numbers.get(relation.total), numbers.get(relation.prepaid)
    if prepaid is None:
        return {}
    size = abs(prepaid.value)
    return {relation.prepaid: replace(prepaid, value=size.copy_sign(total.value) if total else size)}


def _confirm(field: FieldValue, words: str) -> FieldValue:
    signals = replace(field.signals or ConfidenceSignals("number"), margin=1.0, agreed=True)
    return replace(
        field,
        confidence=max(field.confidence, calibration.confidence(signals)),
        evidence=f"{field.evidence}; {words}",
        signals=signals,
    )


def _move(context: LabelContext, field: FieldValue, value: ParsedValue, words: str) -> FieldValue:
    """Return the field with the value at another position of the document."""
    line = context.document.lines[value.line]
    box = line.box(value.start, value.end)
    return replace(field, value=value.number, evidence=words, page=line.page, box=box)
