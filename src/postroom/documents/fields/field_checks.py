"""Checks of extracted fields and their text: check digits, arithmetic, dates, formats, titles.

A severe failure needs review. A check changes no value. `field_validation` has the formats of single values.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, Final

from postroom.documents.fields.ambiguity import NUMBER_SHAPES
from postroom.documents.fields.check_digits import check_vat_id, is_valid_iban, is_valid_isin
from postroom.documents.fields.document_text import DocumentText, TextLine
from postroom.documents.fields.extraction_result import FieldCheck, FieldValue
from postroom.documents.fields.field_validation import describe_expected_format
from postroom.documents.fields.label_search import PhraseSearch, compile_phrases
from postroom.documents.fields.value_parsing import find_values
from postroom.documents.kinds.document_kind import (
    BalanceRelation,
    DocumentKind,
    ProductRelation,
    SettlementRelation,
    SumRelation,
)
from postroom.documents.kinds.field_spec import FieldShape

TITLE: Final = "title"  # the name of the check for titles of other kinds
_HEAD_LINES: Final = 40  # lines that may contain a title
_MAX_TITLE_WORDS: Final = 6
_HEAD_WORDS: Final = 8  # of a line in which a title may stand beside an address or a number
_TOP_LINES: Final = 6  # lines that may be a title in other words
_MAX_REVISION_WORDS: Final = 14  # of a title that names the document it changes
_CENT_TOLERANCE: Final = Decimal("0.02")
_ROUNDING_TOLERANCE: Final = Decimal("0.50")  # some amounts to be paid are rounded to the whole unit
_VALIDATORS: Final = {"isin": is_valid_isin, "iban": is_valid_iban}


def check_fields(kind: DocumentKind, fields: Mapping[str, FieldValue]) -> tuple[FieldCheck, ...]:
    known = {name: field.value for name, field in fields.items()}
    proven = {name for name, field in fields.items() if field.signals and field.signals.agreed}
    return (
        *_check_relations(kind, known, proven),
        *_check_tables(kind, known),
        *_check_all_check_digits(kind, known),
        *_check_date_order(known),
        *_check_readings(kind, fields),
    )


def check_formats(kind: DocumentKind, fields: Mapping[str, FieldValue]) -> Iterator[FieldCheck]:
    """Check the format of machine-readable values."""
    for name, field in fields.items():
        shape = kind.fields[name].shape
        said = f"{field.value:f}" if isinstance(field.value, Decimal) else str(field.value)
        if shape not in {"lines", "rates"} and (wanted := describe_expected_format(shape, said)):
            yield FieldCheck(
                f"format of {name}", passed=False, words=f"{said} is not {wanted}", fields=(name,)
            )


def check_text(kind: DocumentKind, document: DocumentText) -> Iterator[FieldCheck]:
    """Check that the whole text was read, is about one record, and has no title of another kind."""
    if document.excess:
        yield FieldCheck("length", passed=False, words=document.excess, is_doubt=True)
    for name in kind.required:
        if kind.fields[name].shape in _VALIDATORS:
            every = {
                str(value.content)
                for value in find_values(document)
                if value.shape == kind.fields[name].shape
            }
            proven = sorted(code for code in every if _VALIDATORS[kind.fields[name].shape](code))
            yield FieldCheck(f"one {name}", len(proven) <= 1, ", ".join(proven))
    yield from _check_titles(kind, document)


def _check_titles(kind: DocumentKind, document: DocumentText) -> Iterator[FieldCheck]:
    excluded, revisions = compile_phrases(kind.excluded_titles), compile_phrases(kind.revision_words)
    titles, credit_titles = compile_phrases(kind.titles), compile_phrases(kind.credit_titles)
    for line in document.lines[:_HEAD_LINES]:
        if credit := _find_credit_title(credit_titles, line):
            words = f"the title “{credit}” suggests another kind of document"
            amount = kind.controls.amount
            yield FieldCheck(
                TITLE,
                passed=False,
                words=f"{words}: amounts of a credit note must be negative",
                fields=(amount,) if amount else (),
            )
            continue
        if len(line.words) > _MAX_TITLE_WORDS:
            # "Contract note - replaces our note of 3 May 2026" is long.
            is_title = line.index < _TOP_LINES or any(start == 0 for _, start, _ in titles.find(line))
            if (
                is_title
                and len(line.words) <= _MAX_REVISION_WORDS
                and any(True for _ in revisions.find(line))
            ):
                yield _doubt_revision(line)
            continue
        title = next((line.text[:end] for _, start, end in excluded.find(line) if start == 0), None)
        if title is not None:
            words = f"the title “{title}” suggests another kind of document"
            yield FieldCheck(TITLE, passed=False, words=words)
        elif any(True for _ in revisions.find(line)):
            yield _doubt_revision(line)


def _find_credit_title(titles: PhraseSearch, line: TextLine) -> str:
    """Return the title of a credit note; in a short line it may stand beside an address or a number."""
    longest = _MAX_REVISION_WORDS if any(start == 0 for _, start, _ in titles.find(line)) else _HEAD_WORDS
    if len(line.words) > longest:
        return ""
    return next((line.text[start:end] for _, start, end in titles.find(line)), "")


def _doubt_revision(line: TextLine) -> FieldCheck:
    words = f"“{line.text}” may change or cancel another document"
    return FieldCheck("revision", passed=False, words=words)


def _check_relations(
    kind: DocumentKind, values: Mapping[str, Any], proven: AbstractSet[str]
) -> Iterator[FieldCheck]:
    for relation in kind.relations:
        match relation:
            case SumRelation(left, right, result) if _are_known(values, left, right, result):
                total = values[left] + values[right]
                words = f"{left} + {right} = {total}, {result} is {values[result]}"
                passed = abs(total - values[result]) <= _CENT_TOLERANCE
                yield FieldCheck(f"{left} + {right} = {result}", passed, words, fields=(left, right, result))
            case ProductRelation(left, right, result) if _are_known(values, left, right, result):
                found = _check_product(
                    values[left], values[right], values[result], f"{left} x {right} = {result}"
                )
                # A product confirmed with an exchange rate has its price in another currency.
                yield replace(
                    found,
                    passed=found.passed or {left, right, result} <= proven,
                    fields=(left, right, result),
                )
            # If every step from the gross amount to the payment was confirmed, nothing is left to check.
            case SettlementRelation(gross, paid, _, direction) if (
                _are_known(values, gross, paid, direction) and paid not in proven
            ):
                for check in _check_settlement(values[gross], values[paid], values[direction]):
                    yield replace(check, fields=(gross, paid, direction))
            case BalanceRelation(total, _, payable) if _are_known(values, total, payable):
                yield _check_balance(relation, values)
            case _:
                pass


def _check_tables(kind: DocumentKind, values: Mapping[str, Any]) -> Iterator[FieldCheck]:
    for each in kind.table_sums:
        rows, total = values.get(each.table), values.get(each.total)
        cells = [getattr(row, each.column) for row in rows or ()]
        if total is None or not cells or None in cells:
            continue
        found = sum(cells, Decimal(0))
        passed = abs(found - total) <= _CENT_TOLERANCE * len(cells)
        words = f"the sum of {each.column} in {each.table} is {found}, {each.total} is {total}"
        yield FieldCheck(
            f"{each.table} add up to {each.total}", passed, words, fields=(each.table, each.total)
        )


def _check_balance(relation: BalanceRelation, values: Mapping[str, Any]) -> FieldCheck:
    total, payable = values[relation.total], values[relation.payable]
    prepaid = values.get(relation.prepaid) or Decimal(0)
    # A deduction may be printed with a minus; in a credit note, all amounts have one.
    left = total - abs(prepaid).copy_sign(total)
    words = f"{relation.total} {total} - {relation.prepaid} {abs(prepaid)} = {left}"
    return FieldCheck(
        f"{relation.total} - {relation.prepaid} = {relation.payable}",
        abs(left - payable) <= _ROUNDING_TOLERANCE,
        f"{words}, {relation.payable} is {payable}",
        fields=(relation.payable, relation.total, relation.prepaid),
    )


def _are_known(values: Mapping[str, Any], *names: str) -> bool:
    return all(values.get(name) is not None for name in names)


def _check_product(left: Decimal, right: Decimal, result: Decimal, name: str) -> FieldCheck:
    wanted = left * right
    # Prices and fractional shares are printed rounded, and prices may be in hundredths or percent.
    rounding = abs(left) * _rounding_error(right) + abs(right) * _rounding_error(left)
    loose = max(_CENT_TOLERANCE, abs(result) * Decimal("0.005"), min(rounding, abs(result) / 20))
    right_one = any(abs(wanted * factor - result) <= loose for factor in _FACTORS)
    return FieldCheck(
        name, right_one, f"{left} x {right} = {wanted.normalize():f}; the document says {result}"
    )


def _rounding_error(number: Decimal) -> Decimal:
    """Return half of the last printed digit; whole numbers are exact."""
    exponent = number.as_tuple().exponent
    return Decimal(5).scaleb(exponent - 1) if isinstance(exponent, int) and exponent < 0 else Decimal(0)


_FACTORS: Final = (Decimal(1), Decimal("0.01"), Decimal(100))


def _check_settlement(gross: Decimal, paid: Decimal, direction: str) -> Iterator[FieldCheck]:
    """Fees are added to a purchase and deducted from a sale.

    Only if the currency is clearly the same.
    """
    if gross and Decimal("0.9") <= paid / gross <= Decimal("1.1") and paid != gross:
        yield FieldCheck(
            "fees are added to a purchase, deducted from a sale",
            (paid > gross) == (direction == "buy"),
            f"{direction}: gross {gross}, net {paid}",
        )


def _check_all_check_digits(kind: DocumentKind, values: Mapping[str, Any]) -> Iterator[FieldCheck]:
    for name, field in kind.fields.items():
        value = values.get(name)
        if value is not None and (found := _check_check_digits(name, field.shape, value)):
            yield found


def _check_check_digits(name: str, shape: FieldShape, value: Any) -> FieldCheck | None:
    """Check the check digits of a value, if it has any."""
    check = f"check digits of {name}"
    if shape in _VALIDATORS:
        return FieldCheck(check, _VALIDATORS[shape](str(value)), str(value), fields=(name,))
    if shape == "vat_id" and (right := check_vat_id(str(value))) is not None:
        return FieldCheck(check, right, str(value), is_severe=False, fields=(name,))
    return None


def _check_readings(kind: DocumentKind, fields: Mapping[str, FieldValue]) -> Iterator[FieldCheck]:
    """Fail for numbers and required codes in doubt. Other values in doubt have a low confidence."""
    for name, field in fields.items():
        shape = kind.fields[name].shape
        if field.ambiguity and (shape in NUMBER_SHAPES or (shape == "code" and name in kind.required)):
            yield FieldCheck(
                f"{name} is ambiguous", passed=False, words=field.ambiguity, fields=(name,), is_doubt=True
            )


def _check_date_order(values: Mapping[str, Any]) -> Iterator[FieldCheck]:
    for first, second in (
        ("trade_date", "settlement_date"),
        ("trade_date", "issued_on"),
        ("issued_on", "due_on"),
    ):
        one, other = values.get(first), values.get(second)
        if isinstance(one, date) and isinstance(other, date):
            yield FieldCheck(
                f"{first} before {second}", one <= other, f"{one} and {other}", fields=(first, second)
            )
