"""What a document kind declares: its fields, its titles, and how its values relate to each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from postroom.documents.kinds.field_spec import FieldSpec
from postroom.errors import SettingsError


@dataclass(frozen=True, slots=True)
class ProductRelation:
    """left * right = result, also where the price is in percent or in hundredths."""

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
    """What is paid is the worth with the extras added where one buys, taken off where one sells."""

    worth: str
    paid: str
    extras: tuple[str, ...]
    direction: str

    @property
    def names(self) -> tuple[str, ...]:
        return self.worth, self.paid, *self.extras


Relation = ProductRelation | SumRelation | SettlementRelation


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A kind of document. `model` is a dataclass; all its fields are optional and carry a `Field`."""

    name: str
    model: type[Any]
    titles: str  # phrases by which such a document is known, as label words are written
    required: tuple[str, ...]  # without these no record is confirmed
    identity: tuple[str, ...]  # what makes two records the same
    key: tuple[str, ...]  # the parts of the record's name in the archive; `username` is whose it is
    relations: tuple[Relation, ...] = ()
    ignored_labels: str = ""  # labels of values that are none of the fields
    # For a part of the identity, other fields that tell the same, where they were read with certainty.
    identity_alternatives: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    distinguishing_fields: tuple[str, ...] = ()  # what tells two records apart where both have it
    excluded_titles: str = (
        ""  # titles of papers that look alike and say something else: those are for a person
    )

    @property
    def fields(self) -> dict[str, FieldSpec]:
        hints = get_type_hints(self.model, include_extras=True)
        return {each.name: _find_field_spec(hints[each.name], each.name) for each in fields(self.model)}


def _find_field_spec(hint: Any, name_: str) -> FieldSpec:
    if get_origin(hint) is Annotated:
        for each in get_args(hint)[1:]:
            if isinstance(each, FieldSpec):
                return each
    raise SettingsError(f"the field {name_} of a kind says nothing about how it is read")
