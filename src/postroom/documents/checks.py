"""Tests of the values against each other and themselves, whoever read them. A failed one is for a person."""

from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

from postroom.documents.checkdigits import iban_is_right, isin_is_right, vat_id_is_right
from postroom.documents.kind import Kind, Product, Settlement, Sum
from postroom.documents.result import Check, FieldValue

_CENTS: Final = Decimal("0.02")
_DIGITS: Final = {"isin": isin_is_right, "iban": iban_is_right}


def check(kind: Kind, fields: Mapping[str, FieldValue]) -> tuple[Check, ...]:
    values = {name: field.value for name, field in fields.items()}
    return (*_relations(kind, values), *_numbers(kind, values), *_dates(values))


def _relations(kind: Kind, values: Mapping[str, Any]) -> Iterator[Check]:
    for relation in kind.relations:
        match relation:
            case Sum(left, right, result) if _all(values, left, right, result):
                total = values[left] + values[right]
                words = f"{left} + {right} = {total}, {result} is {values[result]}"
                yield Check(f"{left} + {right} = {result}", abs(total - values[result]) <= _CENTS, words)
            case Product(left, right, result) if _all(values, left, right, result):
                yield _product(values[left], values[right], values[result], f"{left} x {right} = {result}")
            case Settlement(worth, paid, _, direction) if _all(values, worth, paid, direction):
                yield from _settlement(values[worth], values[paid], values[direction])
            case _:
                pass


def _all(values: Mapping[str, Any], *names: str) -> bool:
    return all(values.get(name) is not None for name in names)


def _product(left: Decimal, right: Decimal, result: Decimal, name: str) -> Check:
    wanted = left * right
    # Prices are printed rounded, and may be in hundredths or in percent.
    right_one = any(
        abs(wanted * factor - result) <= max(_CENTS, abs(result) * Decimal("0.005")) for factor in _FACTORS
    )
    return Check(name, right_one, f"{left} x {right} = {wanted.normalize():f}, written is {result}")


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
        if value is None:
            continue
        if field.shape in _DIGITS:
            yield Check(f"check digits of {name}", _DIGITS[field.shape](str(value)), str(value))
        elif field.shape == "vat_id" and (right := vat_id_is_right(str(value))) is not None:
            yield Check(f"check digits of {name}", right, str(value), is_severe=False)


def _dates(values: Mapping[str, Any]) -> Iterator[Check]:
    for first, second in (("trade_date", "settlement_date"), ("issued_on", "due_on")):
        one, other = values.get(first), values.get(second)
        if isinstance(one, date) and isinstance(other, date):
            yield Check(f"{first} before {second}", one <= other, f"{one} and {other}")
