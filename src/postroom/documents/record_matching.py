"""Compares a document's values with records and open orders: identity, matches, reasons for a review.

Also the record's key for archive paths. Pure: it finds and decides, `flow.documents.route` acts. Values have
the form in which they are stored (decimals and dates as text).
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from itertools import product
from typing import Any, Final
from uuid import UUID

from postroom.documents.fields.check_digits import check_vat_id, is_valid_iban
from postroom.documents.kinds.field_spec import FieldShape

AMOUNT_TOLERANCE: Final = Decimal("0.01")
DAYS_TOLERANCE: Final = 5
MIN_AGREEMENTS: Final = 2
MAX_ISSUER_KEY: Final = 500  # characters that fit into an index
NUMBER_SHAPES: Final = frozenset[FieldShape]({"amount", "quantity", "price"})
NAME_SHAPES: Final = frozenset[FieldShape]({"party", "recipient", "name"})  # the same name has many spellings
ORDER_NUMBERS: Final = frozenset(
    {"number", "purchase_order"}
)  # fields that identify one order or its document
_NO_RECORD: Final = UUID(int=0)  # the document has no record yet
# Variants of dashes and slashes, which differ between readings of the same document.
_SAME_SEPARATORS: Final = {ord(each): "-" for each in "‐‑‒–—―−﹘﹣－"} | {  # noqa: RUF001  that they look alike is the point
    ord(each): "/"
    for each in "⁄∕／"  # noqa: RUF001  the same
}


@dataclass(frozen=True, slots=True)
class ExpectedOrder:
    """An open order with the fields that it names."""

    reference: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OrderMatch:
    """The order that a document fulfils, or None, and why."""

    reference: str | None
    reason: str
    is_ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class OrderFit:
    """A waiting record and an open order that agree in all fields both have."""

    record: UUID
    order: ExpectedOrder
    shared: tuple[str, ...]
    exact: tuple[str, ...]

    @property
    def has_order_number(self) -> bool:
        return not ORDER_NUMBERS.isdisjoint(self.exact)

    @property
    def match(self) -> OrderMatch:
        near = [name for name in self.shared if name not in self.exact]
        words = f"order {self.order.reference}"
        words += f": {', '.join(self.exact)} agree" if self.exact else ""
        words += f"; {', '.join(near)} within tolerance" if near else ""
        return OrderMatch(self.order.reference, words)


@dataclass(frozen=True, slots=True)
class ReadValue:
    """A value read from a document, and whether it is certain."""

    value: Any
    is_sure: bool


@dataclass(frozen=True, slots=True)
class ReviewReasons:
    """Why a document needs review; empty if it does not."""

    reasons: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.reasons)

    def __str__(self) -> str:
        return "; ".join(self.reasons)


def identity_hashes(
    kind: str,
    identity: Sequence[str],
    values: Mapping[str, Any],
    shapes: Mapping[str, FieldShape],
    *,
    identity_alternatives: Mapping[str, Sequence[str]] | None = None,
    doubted: Collection[str] = (),
) -> tuple[bytes, ...]:
    """Return hashes that identify an invoice or trade regardless of its file; none if a part is missing.

    One hash for each way to identify it: a supplier has a VAT ID as well as a name.
    """
    ways = [
        [
            f"{name}={plain}"
            for name in names
            if (plain := normalize_identifier(values.get(name), shapes[name]))
        ]
        for part in identity
        for names in [
            [*(each for each in (identity_alternatives or {}).get(part, ()) if each not in doubted), part],
        ]
    ]
    return tuple(sha256("\0".join([kind, *parts]).encode()).digest() for parts in product(*ways))


def record_fingerprint(
    identity_hash: bytes, names: Sequence[str], values: Mapping[str, Any], shapes: Mapping[str, FieldShape]
) -> bytes:
    """Return a hash that is equal for records with this identity and equal values of these fields."""
    normalized = "\0".join(_normalize(values.get(name), shapes[name]) for name in names)
    return sha256(identity_hash + normalized.encode()).digest()


def find_disagreements(
    values: Mapping[str, Any],
    other: Mapping[str, Any],
    names: Sequence[str],
    shapes: Mapping[str, FieldShape],
) -> list[str]:
    """Return the fields that both have with different values, except names."""
    return [
        name
        for name in names
        if shapes[name] not in NAME_SHAPES
        and (one := _normalize(values.get(name), shapes[name]))
        and (two := _normalize(other.get(name), shapes[name]))
        and one != two
    ]


def find_contradiction(value: Any, others: Sequence[ReadValue], shape: FieldShape) -> ReadValue | None:
    """Return the most certain different value; None if any value agrees or there is none."""
    plain = _normalize(value, shape)
    comparable = [each for each in others if _normalize(each.value, shape)]
    if (
        not plain
        or shape in NAME_SHAPES
        or any(_normalize(each.value, shape) == plain for each in comparable)
    ):
        return None
    return max(comparable, key=lambda each: each.is_sure, default=None)


def issuer_keys(values: Mapping[str, Any], shapes: Mapping[str, FieldShape]) -> dict[str, str]:
    """Return the fields that identify the issuer of a document, the most reliable first."""
    order: tuple[FieldShape, ...] = ("vat_id", "iban", "party")
    return {
        name: f"{name}={plain}"[:MAX_ISSUER_KEY]
        for shape in order
        for name in shapes
        if shapes[name] == shape and (plain := normalize_identifier(values.get(name), shape))
    }


def issuer_hashes(
    kind: str, values: Mapping[str, Any], shapes: Mapping[str, FieldShape], *, doubted: Collection[str] = ()
) -> tuple[bytes, ...]:
    """Return hashes that identify the issuer of a document: by its name, then by its VAT ID."""
    keys = issuer_keys(values, shapes)
    known = [
        keys[name]
        for name in reversed(keys)
        if shapes[name] == "party" or (shapes[name] == "vat_id" and name not in doubted)
    ]
    return tuple(sha256(f"{kind}\0issuer\0{key}".encode()).digest() for key in known)


def normalize_identifier(value: Any, shape: FieldShape) -> str:
    """Return the normalized identifier; empty if its check digits are invalid."""
    plain = _normalize(value, shape)
    if (shape == "vat_id" and check_vat_id(plain.upper()) is False) or (
        shape == "iban" and not is_valid_iban(plain.upper())
    ):
        return ""
    return plain


def find_review_reasons(
    *,
    required: Sequence[str],
    certain: Sequence[str],
    confidences: Mapping[str, float],
    confirm_above: float,
    failed_checks: Sequence[str],
    differences: Sequence[str],
    match: OrderMatch,
    trusted: Collection[str] = (),
) -> ReviewReasons:
    """Collect every reason against confirming the record automatically. `trusted` fields may be uncertain."""
    missing = [f"{name} was not found" for name in required if name not in confidences]
    unsure = [
        f"{name} is uncertain ({confidences[name]:.2f})"
        for name in (*required, *certain)
        if name in confidences and confidences[name] < confirm_above and name not in trusted
    ]
    ambiguous = [match.reason] if match.is_ambiguous else []
    return ReviewReasons((*missing, *unsure, *failed_checks, *differences, *ambiguous))


def match_order(
    values: Mapping[str, Any], orders: Sequence[ExpectedOrder], shapes: Mapping[str, FieldShape]
) -> OrderMatch:
    """Find the one order that agrees in all fields both have, amounts and dates within tolerance."""
    found = [fit for order in orders if (fit := _fit_order(_NO_RECORD, values, order, shapes))]
    if not found:
        return OrderMatch(None, "no open order fits")
    best = max(len(fit.shared) for fit in found)
    fitting = [fit for fit in found if len(fit.shared) == best]
    if len(fitting) > 1:
        names = ", ".join(fit.order.reference for fit in fitting)
        return OrderMatch(None, f"several open orders fit: {names}", is_ambiguous=True)
    return fitting[0].match


def assign_orders(
    waiting: Sequence[tuple[UUID, Mapping[str, Any], Sequence[ExpectedOrder]]],
    shapes: Mapping[str, FieldShape],
) -> list[OrderFit]:
    """Choose the records to link to orders, from records with the orders that may fit.

    An equal order number decides. Without one, record and order must fit each other and nothing else.
    """
    fits = [
        fit
        for record, values, orders in waiting
        for order in orders
        if (fit := _fit_order(record, values, order, shapes))
    ]
    numbered = [fit for fit in fits if fit.has_order_number]
    best = _choose_unrivalled(numbered, lambda fit: len(fit.exact))
    records, references = {fit.record for fit in best}, {fit.order.reference for fit in best}
    left = [fit for fit in fits if fit.record not in records and fit.order.reference not in references]
    # If several fits have the order number, a person decides.
    doubted = [fit for fit in left if fit.has_order_number]
    records, references = {fit.record for fit in doubted}, {fit.order.reference for fit in doubted}
    return best + [
        fit
        for fit in _choose_unrivalled(left, lambda _: 0)
        if fit.record not in records and fit.order.reference not in references
    ]


def _choose_unrivalled(fits: Sequence[OrderFit], rank: Callable[[OrderFit], int]) -> list[OrderFit]:
    """Return the fits that rank above every other fit of the same record or order."""
    ranks: dict[UUID | str, list[int]] = {}
    for fit in fits:
        for side in (fit.record, fit.order.reference):
            ranks.setdefault(side, []).append(rank(fit))
    return [
        fit
        for fit in fits
        if all(
            max(ranks[side]) == rank(fit) and ranks[side].count(rank(fit)) == 1
            for side in (fit.record, fit.order.reference)
        )
    ]


def _fit_order(
    record: UUID, values: Mapping[str, Any], order: ExpectedOrder, shapes: Mapping[str, FieldShape]
) -> OrderFit | None:
    shared = [
        name for name in order.fields if values.get(name) not in (None, "") and order.fields[name] != ""
    ]
    if len(shared) < MIN_AGREEMENTS or not all(
        agree_within_tolerance(values[n], order.fields[n], shapes[n]) for n in shared
    ):
        return None
    exact = [name for name in shared if _is_equal(values[name], order.fields[name], shapes[name])]
    return OrderFit(record, order, tuple(shared), tuple(exact))


def build_record_key(
    parts: Sequence[str], values: Mapping[str, Any], shapes: Mapping[str, FieldShape], *, username: str
) -> str | None:
    """Build the record's key for archive paths from its values; None if one is missing."""
    known = {**values, "username": username}
    found = [_format_key_part(known.get(name), shapes.get(name)) for name in parts]
    return "-".join(found) if all(found) else None


def _format_key_part(value: Any, shape: FieldShape | None) -> str:
    if shape == "choice":
        return str(value or "").upper()
    if (day := to_date(value)) is not None:
        return day.strftime("%Y%m%d")
    if (number := to_decimal(value)) is not None:
        return f"{number.normalize():f}"
    return re.sub(r"[^\w.]+", "_", str(value or "")).strip("_")


def agree_within_tolerance(one: Any, other: Any, shape: FieldShape) -> bool:
    if shape == "date" and (first := to_date(one)) is not None and (second := to_date(other)) is not None:
        return abs((first - second).days) <= DAYS_TOLERANCE
    left, right = to_decimal(one), to_decimal(other)
    if shape in NUMBER_SHAPES and left is not None and right is not None:
        return abs(left - right) <= AMOUNT_TOLERANCE * max(abs(left), abs(right))
    return _is_equal(one, other, shape)


def _is_equal(one: Any, other: Any, shape: FieldShape) -> bool:
    return _normalize(one, shape) == _normalize(other, shape)


def _normalize(value: Any, shape: FieldShape) -> str:
    """Normalize a value for comparison: numbers by value, text without case and punctuation.

    Document numbers keep hyphens and slashes: 2024-1-12 is not 2024-11-2.
    """
    if value is None:
        return ""
    if shape in NUMBER_SHAPES and (number := to_decimal(value)) is not None:
        return f"{number.normalize():f}"
    text = str(value).casefold()
    if shape == "code":
        return re.sub(r"\s+", "", text.translate(_SAME_SEPARATORS))
    if shape == "party":
        # Some issuers print identifiers (GLN) above or beside their name.
        lines = [re.sub(r"\b(gln|\d{13})\b", "", line) for line in text.splitlines()]
        text = next((line for line in lines if re.search(r"[^\W\d_]", line)), text)
    return re.sub(r"[\W_]+", "", text)


def is_number(value: Any) -> bool:
    return to_decimal(value) is not None


def is_date(value: Any) -> bool:
    return to_date(value) is not None


def to_decimal(value: Any) -> Decimal | None:
    """Parse a stored decimal.

    A document number with leading zeros is text, not a number.
    """
    text = str(value).strip()
    if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", text) is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def to_date(value: Any) -> date | None:
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        return None
