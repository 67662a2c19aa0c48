"""Controls that an accountant expects: dates, addressee, bank account and amount against what is known.

Compares a document's values with its receipt, the organization's names and earlier records of its issuer.
Pure: `flow.documents.controls` finds what is known. Values have the form in which they are stored.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from statistics import median
from typing import Any, Final

from postroom.documents import record_matching
from postroom.documents.fields.document_text import fold_text
from postroom.documents.fields.extraction_result import FieldCheck
from postroom.documents.kinds.document_kind import DocumentKind

MAX_AGE: Final = timedelta(days=2 * 365)  # of a date, when the document was received
MAX_AHEAD: Final = timedelta(days=365)
MIN_RECORDS: Final = 5  # fewer amounts have no usual range
# An amount is unusual beyond this factor of the median, or more where the issuer's amounts vary more.
USUAL_FACTOR: Final = 5.0
USUAL_DEVIATIONS: Final = 6.0
_MAX_NAMED: Final = 3  # accounts in a message


@dataclass(frozen=True, slots=True)
class EarlierRecord:
    """Account, amount and currency of a confirmed record of the same issuer."""

    account: str | None
    amount: str | None
    currency: str | None


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """What a document is compared with."""

    received_on: date
    records: Sequence[EarlierRecord] = ()
    our_names: Sequence[str] = ()


def list_names(kind: DocumentKind) -> frozenset[str]:
    """The names of all controls of a kind."""
    controls = kind.controls
    known = [name for name in (controls.account, controls.addressee) if name]
    return frozenset(
        [f"plausible {name}" for name in controls.dates]
        + [f"known {name}" for name in known]
        + ([f"usual {controls.amount}"] if controls.amount else [])
    )


def find_currency(kind: DocumentKind) -> str | None:
    """The field that holds the currency of the controlled amount."""
    amount = kind.controls.amount
    return next(
        (name for name, field in kind.fields.items() if amount and field.related_fields == amount), None
    )


def check_controls(
    kind: DocumentKind, values: Mapping[str, Any], facts: KnownFacts
) -> tuple[FieldCheck, ...]:
    """Compare the values with what is known. Without anything to compare with, there is no check."""
    return (
        *_check_dates(kind, values, facts.received_on),
        *_check_account(kind, values, facts.records),
        *_check_amount(kind, values, facts.records),
        *_check_addressee(kind, values, facts.our_names),
    )


def _check_dates(kind: DocumentKind, values: Mapping[str, Any], received_on: date) -> Iterator[FieldCheck]:
    for name in kind.controls.dates:
        if (day := record_matching.to_date(values.get(name))) is None:
            continue
        passed = received_on - MAX_AGE <= day <= received_on + MAX_AHEAD
        words = f"{day}, received on {received_on}"
        if not passed:
            words = f"{day} is years away from the receipt on {received_on}"
        yield FieldCheck(f"plausible {name}", passed, words, fields=(name,))


def _check_account(
    kind: DocumentKind, values: Mapping[str, Any], records: Sequence[EarlierRecord]
) -> Iterator[FieldCheck]:
    name = kind.controls.account
    account = values.get(name) if name else None
    known = list(dict.fromkeys(record.account for record in records if record.account))
    if name is None or not account or not known:
        return
    passed = _compact(account) in {_compact(each) for each in known}
    if passed:
        words = f"{account} is in earlier records of this issuer"
    else:
        named = ", ".join(known[:_MAX_NAMED])
        words = f"{account} is new for this issuer, whose records have {named}. Verify it with the issuer"
    yield FieldCheck(f"known {name}", passed, words, fields=_list_fields(kind, name))


def _check_amount(
    kind: DocumentKind, values: Mapping[str, Any], records: Sequence[EarlierRecord]
) -> Iterator[FieldCheck]:
    name = kind.controls.amount
    amount = record_matching.to_decimal(values.get(name)) if name else None
    if name is None or not amount:
        return
    currency = find_currency(kind)
    usual = [
        abs(other)
        for record in records
        if (currency is None or record.currency == values.get(currency))
        and (other := record_matching.to_decimal(record.amount))
    ]
    if len(usual) < MIN_RECORDS:
        return
    middle = median(usual)
    passed = is_usual(abs(amount), usual)
    words = f"{amount}, usually about {middle:.2f} ({len(usual)} records)"
    if not passed:
        words = f"{amount} is far from the usual {middle:.2f}, the median of {len(usual)} records"
    yield FieldCheck(f"usual {name}", passed, words, fields=_list_fields(kind, name, currency))


def _check_addressee(
    kind: DocumentKind, values: Mapping[str, Any], our_names: Sequence[str]
) -> Iterator[FieldCheck]:
    name = kind.controls.addressee
    addressee = values.get(name) if name else None
    if name is None or not addressee or not our_names:
        return
    passed = any(_contains_name(str(addressee), our_name) for our_name in our_names)
    words = f"{addressee} is one of your organization's names"
    if not passed:
        words = f"{addressee} is not one of your organization's names"
    yield FieldCheck(f"known {name}", passed, words, fields=(name,))


def _contains_name(addressee: str, our_name: str) -> bool:
    """Whether the words of our name are in the addressee, in this order: "Firma Nordwind AG, Einkauf"."""
    words, ours = (re.findall(r"\w+", fold_text(text)) for text in (addressee, our_name))
    return any(words[start : start + len(ours)] == ours for start in range(len(words) - len(ours) + 1))


def _compact(account: str) -> str:
    return "".join(account.split()).upper()


def is_usual(amount: Decimal, usual: Sequence[Decimal]) -> bool:
    """Whether an amount is near the median, on a logarithmic scale. One outlier does not change that."""
    sizes = [math.log(value) for value in usual]
    middle = median(sizes)
    spread = median(abs(size - middle) for size in sizes)
    return abs(math.log(amount) - middle) <= max(math.log(USUAL_FACTOR), USUAL_DEVIATIONS * spread)


def _list_fields(kind: DocumentKind, *names: str | None) -> tuple[str, ...]:
    """The fields that decide a check: these, and those that identify the issuer."""
    issuer = [name for name, field in kind.fields.items() if field.shape in {"party", "vat_id"}]
    return tuple(name for name in (*names, *issuer) if name)
