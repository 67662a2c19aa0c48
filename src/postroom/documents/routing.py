"""What follows from what was read (D8): seen before, the order it fulfils, confirmed or for a person.

Pure. Values are as they are kept: decimals and dates as text, so that records and orders compare alike.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any, Final

AMOUNT_TOLERANCE: Final = Decimal("0.01")
DAYS_TOLERANCE: Final = 5
FEWEST_AGREEMENTS: Final = 2


@dataclass(frozen=True, slots=True)
class Expected:
    """An open order, as far as it tells."""

    reference: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Match:
    """The order that a document fulfils, or none; and why, in words."""

    reference: str | None
    reason: str
    is_ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class Doubts:
    """Why a person must decide; empty where nobody must."""

    reasons: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def __str__(self) -> str:
        return "; ".join(self.reasons)


def fingerprint(kind: str, identity: Sequence[str], values: Mapping[str, Any]) -> bytes | None:
    """The same for the same invoice or trade, whatever its bytes; None where a part of it is missing."""
    parts = [_plain(values.get(name)) for name in identity]
    if not all(parts):
        return None
    return sha256("\0".join([kind, *parts]).encode()).digest()


def doubts(
    *,
    needed: Sequence[str],
    confidences: Mapping[str, float],
    confirm_above: float,
    failed_checks: Sequence[str],
    differences: Sequence[str],
    match: Match,
) -> Doubts:
    """Everything that speaks against confirming by machine."""
    missing = [f"{name} was not found" for name in needed if name not in confidences]
    unsure = [
        f"{name} is uncertain ({confidences[name]:.2f})"
        for name in needed
        if name in confidences and confidences[name] < confirm_above
    ]
    ambiguous = [match.reason] if match.is_ambiguous else []
    return Doubts((*missing, *unsure, *failed_checks, *differences, *ambiguous))


def match(values: Mapping[str, Any], orders: Sequence[Expected]) -> Match:
    """The one order with which everything that both tell agrees, within tolerance."""
    found: list[tuple[int, Expected, list[str]]] = []
    for order in orders:
        told = [
            name for name in order.fields if values.get(name) not in (None, "") and order.fields[name] != ""
        ]
        if len(told) >= FEWEST_AGREEMENTS and all(_agree(values[n], order.fields[n]) for n in told):
            found.append((len(told), order, told))
    if not found:
        return Match(None, "no open order fits")
    best = max(count for count, _, _ in found)
    fitting = [(order, told) for count, order, told in found if count == best]
    if len(fitting) > 1:
        names = ", ".join(order.reference for order, _ in fitting)
        return Match(None, f"several open orders fit: {names}", is_ambiguous=True)
    order, told = fitting[0]
    exact = [name for name in told if _plain(values[name]) == _plain(order.fields[name])]
    near = [name for name in told if name not in exact]
    words = f"order {order.reference}: {', '.join(exact)} agree" if exact else f"order {order.reference}"
    return Match(order.reference, words + (f"; {', '.join(near)} within tolerance" if near else ""))


def key(parts: Sequence[str], values: Mapping[str, Any], *, username: str) -> str | None:
    """A name for the record made of its values, as archive paths show it; None where one is missing."""
    told = {**values, "username": username}
    found = [_key_part(told.get(name)) for name in parts]
    return "-".join(found) if all(found) else None


def _key_part(value: Any) -> str:
    if (day := _day(value)) is not None:
        return day.strftime("%Y%m%d")
    if (number := _number(value)) is not None:
        return f"{number.normalize():f}"
    return re.sub(r"[^\w.]+", "_", str(value or "")).strip("_")


def _agree(one: Any, other: Any) -> bool:
    if (first := _day(one)) is not None and (second := _day(other)) is not None:
        return abs((first - second).days) <= DAYS_TOLERANCE
    left, right = _number(one), _number(other)
    if left is not None and right is not None:
        return abs(left - right) <= AMOUNT_TOLERANCE * max(abs(left), abs(right))
    return _plain(one) == _plain(other)


def _plain(value: Any) -> str:
    """How a value is compared: numbers by what they are worth, words without case, spaces and signs."""
    if value is None:
        return ""
    if (number := _number(value)) is not None:
        return f"{number.normalize():f}"
    return re.sub(r"[\W_]+", "", str(value).casefold())


def is_number(value: Any) -> bool:
    return _number(value) is not None


def is_day(value: Any) -> bool:
    return _day(value) is not None


def _number(value: Any) -> Decimal | None:
    """Decimals are kept with a dot; a number of a document with zeros in front is words, not a number."""
    text = str(value).strip()
    if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", text) is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _day(value: Any) -> date | None:
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        return None
