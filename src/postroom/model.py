"""The words of the domain as types: identifiers, enums, frozen values. No I/O."""

from dataclasses import dataclass
from hmac import compare_digest
from typing import NewType, NoReturn
from uuid import UUID

OrganizationId = NewType("OrganizationId", UUID)


class Secret:
    """A value that str, repr, format, logs and pickles never show. `reveal` is the only way out."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(********)"

    def __str__(self) -> str:
        return "********"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied to another process")


@dataclass(frozen=True, slots=True)
class Done:
    """How a step ends well: it is due again after so many seconds, or nothing more is to be done."""

    again_after: float | None = None
