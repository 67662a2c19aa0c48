"""Tests of the values against each other and themselves, whoever read them. A failed one is for a person."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, Final

from postroom.documents.ambiguity import NUMBERS
from postroom.documents.checkdigits import iban_is_right, isin_is_right, vat_id_is_right
from postroom.documents.field_validation import misfit
from postroom.documents.kind import Kind, Product, Settlement, Shape, Sum
from postroom.documents.labels import phrases
from postroom.documents.result import Check, FieldValue
from postroom.documents.sheet import Sheet
from postroom.documents.values import values

_HEAD: Final = 40  # lines in which a title may stand
_TITLE: Final = 6  # words of a title at most
_CENTS: Final = Decimal("0.02")
_DIGITS: Final = {"isin": isin_is_right, "iban": iban_is_right}


def check(kind: Kind, fields: Mapping[str, FieldValue]) -> tuple[Check, ...]:
    known = {name: field.value for name, field in fields.items()}
    proven = {name for name, field in fields.items() if field.signals and field.signals.agreed}
    return (*_relations(kind, known, proven), *_numbers(kind, known), *_dates(known), *_scales(kind, fields))


def forms(kind: Kind, fields: Mapping[str, FieldValue]) -> Iterator[Check]:
    """Whether values that were written for machines look like what they are said to be."""
    for name, field in fields.items():
        shape = kind.fields[name].shape
        said = f"{field.value:f}" if isinstance(field.value, Decimal) else str(field.value)
        if shape not in {"lines", "rates"} and (wanted := misfit(shape, said)):
            yield Check(f"form of {name}", passed=False, words=f"{said} is not {wanted}")


def paper(kind: Kind, sheet: Sheet) -> Iterator[Check]:
    """Tests of the text itself: that it is about one thing, and does not call itself something else."""
    for name in kind.needed:
        if kind.fields[name].shape in _DIGITS:
            every = {str(value.content) for value in values(sheet) if value.shape == kind.fields[name].shape}
            proven = sorted(code for code in every if _DIGITS[kind.fields[name].shape](code))
            yield Check(f"one {name}", len(proven) <= 1, ", ".join(proven))
    search = phrases(kind.otherwise)
    for line in sheet.lines[:_HEAD]:
        for _, start, end in search.find(line):
            if start == 0 and len(line.words) <= _TITLE:
                yield Check("title", passed=False, words=f"“{line.text[:end]}” stands in it like a title")


def _relations(kind: Kind, values: Mapping[str, Any], proven: AbstractSet[str]) -> Iterator[Check]:
    for relation in kind.relations:
        match relation:
            case Sum(left, right, result) if _all(values, left, right, result):
                total = values[left] + values[right]
                words = f"{left} + {right} = {total}, {result} is {values[result]}"
                yield Check(f"{left} + {right} = {result}", abs(total - values[result]) <= _CENTS, words)
            case Product(left, right, result) if _all(values, left, right, result):
                found = _product(values[left], values[right], values[result], f"{left} x {right} = {result}")
                # What came out at the rate of exchange has its price in another currency.
                yield replace(found, passed=found.passed or {left, right, result} <= proven)
            # Where every step from the worth to what is paid came out right, nothing is left to test.
            case Settlement(worth, paid, _, direction) if (
                _all(values, worth, paid, direction) and paid not in proven
            ):
                yield from _settlement(values[worth], values[paid], values[direction])
            case _:
                pass


def _all(values: Mapping[str, Any], *names: str) -> bool:
    return all(values.get(name) is not None for name in names)


def _product(left: Decimal, right: Decimal, result: Decimal, name: str) -> Check:
    wanted = left * right
    # Prices and parts of shares are printed rounded, and prices may be in hundredths or in percent.
    rounding = abs(left) * _half(right) + abs(right) * _half(left)
    loose = max(_CENTS, abs(result) * Decimal("0.005"), min(rounding, abs(result) / 20))
    right_one = any(abs(wanted * factor - result) <= loose for factor in _FACTORS)
    return Check(name, right_one, f"{left} x {right} = {wanted.normalize():f}, written is {result}")


def _half(number: Decimal) -> Decimal:
    """Half of the last digit that is printed; whole numbers are exact."""
    exponent = number.as_tuple().exponent
    return Decimal(5).scaleb(exponent - 1) if isinstance(exponent, int) and exponent < 0 else Decimal(0)


_FACTORS: Final = (Decimal(1), Decimal("0.01"), Decimal(100))


def _settlement(worth: Decimal, paid: Decimal, direction: str) -> Iterator[Check]:
    """Who buys pays the fees, who sells has them taken off. Only where the currency is plainly the same."""
    if worth and Decimal("0.9") <= paid / worth <= Decimal("1.1") and paid != worth:
        yield Check(
            "fees are on the right side",
            (paid > worth) == (direction == "buy"),
            f"{direction}: worth {worth}, paid {paid}",
        )


def _numbers(kind: Kind, values: Mapping[str, Any]) -> Iterator[Check]:
    for name, field in kind.fields.items():
        value = values.get(name)
        if value is not None and (found := digits(name, field.shape, value)):
            yield found


def digits(name: str, shape: Shape, value: Any) -> Check | None:
    """Whether the check digits of a value agree, where it has some."""
    if shape in _DIGITS:
        return Check(f"check digits of {name}", _DIGITS[shape](str(value)), str(value))
    if shape == "vat_id" and (right := vat_id_is_right(str(value))) is not None:
        return Check(f"check digits of {name}", right, str(value), is_severe=False)
    return None


def _scales(kind: Kind, fields: Mapping[str, FieldValue]) -> Iterator[Check]:
    for name, field in fields.items():
        if field.doubt and kind.fields[name].shape in NUMBERS:
            yield Check(f"thousands or decimals of {name}", passed=False, words=field.doubt)


def _dates(values: Mapping[str, Any]) -> Iterator[Check]:
    for first, second in (
        ("trade_date", "settlement_date"),
        ("trade_date", "issued_on"),
        ("issued_on", "due_on"),
    ):
        one, other = values.get(first), values.get(second)
        if isinstance(one, date) and isinstance(other, date):
            yield Check(f"{first} before {second}", one <= other, f"{one} and {other}")
