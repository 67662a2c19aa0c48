"""How a document kind declares one field: its shape, and the labels printed beside its values.

Label phrases are given by language, separated by commas. A `?` behind a phrase marks weak evidence. A `*` at
one end means that the phrase may be part of a longer word. Case, accents, hyphens and spaces do not matter.
`fields.label_search` finds the labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FieldShape = Literal[
    "amount",
    "quantity",
    "price",
    "date",
    "currency",
    "code",
    "isin",
    "iban",
    "vat_id",
    "symbol",
    "party",
    "recipient",
    "name",
    "choice",
    "rates",
    "lines",
]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """The shape and the labels of one field. Created by the functions below."""

    shape: FieldShape
    labels: Mapping[str, str]  # language -> phrases
    units: str = ""  # words directly behind the value
    choices: Mapping[str, str] = field(default_factory=dict[str, str])  # value -> phrases that mean it
    is_summed: bool = False  # the sum of all values with these labels
    related_fields: str = ""  # the amount of a currency, or the fallbacks of a date
    in_letterhead: bool = False  # a date in the letterhead, behind a place name, is this one
    is_explicit: bool = False  # an amount without arithmetic: only a value right of its label
    has_time: bool = False  # a date followed by a time of day is probably this one


def amount(*, is_summed: bool = False, is_explicit: bool = False, **labels: str) -> FieldSpec:
    return FieldSpec("amount", labels, is_summed=is_summed, is_explicit=is_explicit)


def quantity(*, units: str = "", **labels: str) -> FieldSpec:
    return FieldSpec("quantity", labels, units=units)


def price(**labels: str) -> FieldSpec:
    return FieldSpec("price", labels)


def day(
    *,
    fallback_dates: str = "",
    units: str = "",
    in_letterhead: bool = False,
    has_time: bool = False,
    **labels: str,
) -> FieldSpec:
    """A date; `fallback_dates` names the fields used where it is missing."""
    return FieldSpec(
        "date",
        labels,
        units=units,
        related_fields=fallback_dates,
        in_letterhead=in_letterhead,
        has_time=has_time,
    )


def code(**labels: str) -> FieldSpec:
    """An identifier such as an invoice or account number: digits, possibly with other characters."""
    return FieldSpec("code", labels)


def symbol(**labels: str) -> FieldSpec:
    """A ticker symbol, in capitals."""
    return FieldSpec("symbol", labels)


def isin(**labels: str) -> FieldSpec:
    return FieldSpec("isin", labels)


def iban(**labels: str) -> FieldSpec:
    return FieldSpec("iban", labels)


def vat_id(**labels: str) -> FieldSpec:
    return FieldSpec("vat_id", labels)


def currency(of: str) -> FieldSpec:
    return FieldSpec("currency", {}, related_fields=of)


def choice(choices: Mapping[str, str], **labels: str) -> FieldSpec:
    return FieldSpec("choice", labels, choices=choices)


def party(**labels: str) -> FieldSpec:
    """The organization that issued the document; labels are optional."""
    return FieldSpec("party", labels)


def recipient(**labels: str) -> FieldSpec:
    """The organization or person to whom the document is addressed; labels are optional."""
    return FieldSpec("recipient", labels)


def name(**labels: str) -> FieldSpec:
    """Words right of a label or below it."""
    return FieldSpec("name", labels)


def rates(**labels: str) -> FieldSpec:
    """Tax amounts by rate in percent."""
    return FieldSpec("rates", labels)


def lines(**labels: str) -> FieldSpec:
    """The line items of an invoice."""
    return FieldSpec("lines", labels)
