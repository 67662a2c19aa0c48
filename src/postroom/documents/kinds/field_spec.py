"""How a document kind declares one field: its shape and the words beside it.

Label phrases are given by language, separated by commas. A `?` behind a phrase marks weak evidence. A `*` at
either end means that the phrase may be part of a longer word. Case, accents, hyphens and spaces do not matter.
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
    "name",
    "choice",
    "rates",
    "lines",
]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """What one field looks like and which words stand beside it. Made by the functions below."""

    shape: FieldShape
    labels: Mapping[str, str]  # language -> phrases
    units: str = ""  # words that stand right behind the value
    choices: Mapping[str, str] = field(default_factory=dict[str, str])  # value -> phrases that say so
    is_summed: bool = False  # all values with these labels are added up
    related_fields: str = ""  # the field whose currency or fallback this is
    in_letterhead: bool = False  # the date that stands at the head of a letter, behind the name of a place
    has_time: bool = False  # a date with a time of day behind it is rather this one


def amount(*, is_summed: bool = False, **labels: str) -> FieldSpec:
    return FieldSpec("amount", labels, is_summed=is_summed)


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
    """A date; `or_else` names the dates that are meant instead where it is not written."""
    return FieldSpec(
        "date",
        labels,
        units=units,
        related_fields=fallback_dates,
        in_letterhead=in_letterhead,
        has_time=has_time,
    )


def code(**labels: str) -> FieldSpec:
    """A number of a document, an account, an order: digits, perhaps with letters and hyphens."""
    return FieldSpec("code", labels)


def symbol(**labels: str) -> FieldSpec:
    """The short name of a security: capital letters."""
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
    """The organization that wrote the document; labels where it is named by one."""
    return FieldSpec("party", labels)


def name(**labels: str) -> FieldSpec:
    """Words behind or below a label."""
    return FieldSpec("name", labels)


def rates(**labels: str) -> FieldSpec:
    """Amounts of tax by their rate in percent."""
    return FieldSpec("rates", labels)


def lines(**labels: str) -> FieldSpec:
    """The rows of a table of goods."""
    return FieldSpec("lines", labels)
