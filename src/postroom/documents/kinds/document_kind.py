"""DocumentKind: the declaration of a kind: its fields, titles, and relations between its values.

The kinds themselves are in `invoice` and `contract_note`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from postroom.documents.kinds.field_spec import FieldSpec
from postroom.errors import SettingsError


@dataclass(frozen=True, slots=True)
class ProductRelation:
    """left * right = result, also for prices in percent or in hundredths."""

    left: str
    right: str
    result: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.left, self.right, self.result


@dataclass(frozen=True, slots=True)
class SumRelation:
    """left + right = result."""

    left: str
    right: str
    result: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.left, self.right, self.result


@dataclass(frozen=True, slots=True)
class SettlementRelation:
    """paid = gross + extras for a purchase, gross - extras for a sale."""

    gross: str
    paid: str
    extras: tuple[str, ...]
    direction: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.gross, self.paid, *self.extras


@dataclass(frozen=True, slots=True)
class BalanceRelation:
    """total - prepaid = payable. Only checked: the total is found without it."""

    total: str
    prepaid: str
    payable: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.total, self.prepaid, self.payable


Relation = ProductRelation | SumRelation | SettlementRelation | BalanceRelation


@dataclass(frozen=True, slots=True)
class TableSum:
    """The values of a column add up to a field."""

    table: str
    column: str
    total: str


@dataclass(frozen=True, slots=True)
class AccountingControls:
    """Fields that are compared with the document's receipt, its issuer's records and our names."""

    dates: tuple[str, ...] = ()  # not years away from the receipt
    account: str | None = None  # a bank account that an earlier record has
    amount: str | None = None  # within the usual range of the earlier records
    addressee: str | None = None  # one of the organization's names


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of document.

    `model` is a dataclass with optional fields annotated with a `FieldSpec`.
    """

    name: str
    model: type[Any]
    titles: str  # phrases that are titles of such documents, written like labels
    required: tuple[str, ...]  # fields without which no record is confirmed
    identity: tuple[str, ...]  # fields that identify a record
    key: tuple[str, ...]  # fields of the record's key in archive paths; `username` is the mailbox owner's
    relations: tuple[Relation, ...] = ()
    table_sums: tuple[TableSum, ...] = ()
    ignored_labels: str = ""  # labels of values that belong to no field
    # For a field of the identity, other fields that identify the same, if read with certainty.
    identity_alternatives: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    distinguishing_fields: tuple[str, ...] = ()  # fields that distinguish two records if both have them
    # Fields that name one document: another one with equal values amends it, and needs review if it differs.
    document_identity: tuple[str, ...] = ()
    compared_fields: tuple[str, ...] = ()  # besides the required ones, fields in which duplicates must agree
    excluded_titles: str = ""  # titles of similar documents that mean something else and need review
    credit_titles: str = ""  # the excluded titles of credit notes, whose amounts are negative
    revision_words: str = ""  # words in titles of documents that change or cancel another, and need review
    certain: tuple[str, ...] = ()  # fields that may be missing, but need review if they are uncertain
    controls: AccountingControls = AccountingControls()

    @property
    def fields(self) -> dict[str, FieldSpec]:
        hints = get_type_hints(self.model, include_extras=True)
        return {each.name: _find_field_spec(hints[each.name], each.name) for each in fields(self.model)}

    @property
    def foreign_amounts(self) -> frozenset[str]:
        """The price and the gross amount of a trade, which may be in another currency than the payment."""
        gross_amounts = {
            relation.gross for relation in self.relations if isinstance(relation, SettlementRelation)
        }
        prices = {name for name, field in self.fields.items() if field.shape == "price"}
        return frozenset(gross_amounts | prices)


def _find_field_spec(hint: Any, name_: str) -> FieldSpec:
    if get_origin(hint) is Annotated:
        for annotation in get_args(hint)[1:]:
            if isinstance(annotation, FieldSpec):
                return annotation
    raise SettingsError(f"The field {name_} of a document kind has no FieldSpec. Annotate it with one.")
