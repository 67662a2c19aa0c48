"""How a kind of document is declared: a dataclass whose fields say what they look like and are called.

Label words are given by language, separated by commas. A `?` behind a phrase says that it is weak evidence, a
`*` at one of its ends that it may be part of a longer word. Case, accents, hyphens and spaces do not matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import entry_points
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

from postroom.errors import PermanentError, SettingsError

Shape = Literal[
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
GROUP: Final = "postroom.kinds"


@dataclass(frozen=True, slots=True)
class Field:
    """What one field looks like and which words stand beside it. Made by the functions below."""

    shape: Shape
    labels: Mapping[str, str]  # language -> phrases
    units: str = ""  # words that stand right behind the value
    choices: Mapping[str, str] = field(default_factory=dict[str, str])  # value -> phrases that say so
    several: bool = False  # all values with these labels are added up
    goes_with: str = ""  # the field whose currency or fallback this is
    letter: bool = False  # the date that stands at the head of a letter, behind the name of a place
    timed: bool = False  # a date with a time of day behind it is rather this one


def amount(*, several: bool = False, **labels: str) -> Field:
    return Field("amount", labels, several=several)


def quantity(*, units: str = "", **labels: str) -> Field:
    return Field("quantity", labels, units=units)


def price(**labels: str) -> Field:
    return Field("price", labels)


def day(
    *, or_else: str = "", units: str = "", letter: bool = False, timed: bool = False, **labels: str
) -> Field:
    """A date; `or_else` names the dates that are meant instead where it is not written."""
    return Field("date", labels, units=units, goes_with=or_else, letter=letter, timed=timed)


def code(**labels: str) -> Field:
    """A number of a document, an account, an order: digits, perhaps with letters and hyphens."""
    return Field("code", labels)


def symbol(**labels: str) -> Field:
    """The short name of a security: capital letters."""
    return Field("symbol", labels)


def isin(**labels: str) -> Field:
    return Field("isin", labels)


def iban(**labels: str) -> Field:
    return Field("iban", labels)


def vat_id(**labels: str) -> Field:
    return Field("vat_id", labels)


def currency(of: str) -> Field:
    return Field("currency", {}, goes_with=of)


def choice(choices: Mapping[str, str], **labels: str) -> Field:
    return Field("choice", labels, choices=choices)


def party(**labels: str) -> Field:
    """The organization that wrote the document; labels where it is named by one."""
    return Field("party", labels)


def name(**labels: str) -> Field:
    """Words behind or below a label."""
    return Field("name", labels)


def rates(**labels: str) -> Field:
    """Amounts of tax by their rate in percent."""
    return Field("rates", labels)


def lines(**labels: str) -> Field:
    """The rows of a table of goods."""
    return Field("lines", labels)


@dataclass(frozen=True, slots=True)
class Product:
    """left * right = result, also where the price is in percent or in hundredths."""

    left: str
    right: str
    result: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.left, self.right, self.result


@dataclass(frozen=True, slots=True)
class Sum:
    """left + right = result."""

    left: str
    right: str
    result: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.left, self.right, self.result


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is paid is the worth with the extras added where one buys, taken off where one sells."""

    worth: str
    paid: str
    extras: tuple[str, ...]
    direction: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.worth, self.paid, *self.extras


Relation = Product | Sum | Settlement


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document. `model` is a dataclass; all its fields are optional and carry a `Field`."""

    name: str
    model: type[Any]
    titles: str  # phrases by which such a document is known, as label words are written
    needed: tuple[str, ...]  # without these no record is confirmed
    identity: tuple[str, ...]  # what makes two records the same
    key: tuple[str, ...]  # the parts of the record's name in the archive; `username` is whose it is
    relations: tuple[Relation, ...] = ()
    decoys: str = ""  # labels of values that are none of the fields
    # For a part of the identity, other fields that tell the same, where they were read with certainty.
    instead: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    apart: tuple[str, ...] = ()  # what tells two records apart where both have it
    otherwise: str = ""  # titles of papers that look alike and say something else: those are for a person

    @property
    def fields(self) -> dict[str, Field]:
        hints = get_type_hints(self.model, include_extras=True)
        return {each.name: _declared(hints[each.name], each.name) for each in fields(self.model)}


def _declared(hint: Any, name_: str) -> Field:
    if get_origin(hint) is Annotated:
        for each in get_args(hint)[1:]:
            if isinstance(each, Field):
                return each
    raise SettingsError(f"the field {name_} of a kind says nothing about how it is read")


def require(name: str | None) -> None:
    """That a kind of this name is installed, where one is named."""
    there = installed()
    if name is not None and name not in there:
        raise PermanentError(f"There is no kind {name}; there are {', '.join(sorted(there))}.")


def installed() -> dict[str, Kind]:
    """The kinds that ship and those of installed packages, found by the entry point `postroom.kinds`."""
    from postroom.documents.kinds.contract_note import CONTRACT_NOTE
    from postroom.documents.kinds.invoice import INVOICE

    kinds = {kind.name: kind for kind in (INVOICE, CONTRACT_NOTE)}
    for point in entry_points(group=GROUP):
        try:
            found = point.load()
        except Exception as error:
            raise SettingsError(
                f"the kind {point.name} of {point.value} cannot be imported ({type(error).__name__}): "
                "repair or uninstall its package"
            ) from error
        if not isinstance(found, Kind):
            raise SettingsError(f"the entry point {point.name} ({point.value}) is no Kind")
        _ = found.fields
        kinds[found.name] = found
    return kinds
