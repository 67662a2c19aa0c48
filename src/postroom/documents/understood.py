"""What a document was understood as: the shape in which every reader's answer is kept and routed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldRead:
    """A value as it is kept (decimals and dates as text), how sure it is, and where it stands."""

    value: Any
    confidence: float
    page: int | None = None
    box: tuple[float, float, float, float] | None = None
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    words: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Understood:
    kind: str
    reader: str
    skip_reason: str | None = None
    fields: Mapping[str, FieldRead] = field(default_factory=dict[str, FieldRead])
    checks: tuple[Check, ...] = ()
    differences: tuple[str, ...] = ()  # between exact data and the visible text
    layout: str | None = None  # the same for documents that look alike
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0

    @property
    def values(self) -> dict[str, Any]:
        return {name: each.value for name, each in self.fields.items()}


def taught(understood: Understood, lessons: Mapping[str, Mapping[str, Any]]) -> Understood:
    """Put right what people put right before: by field, what was read then and what it should have been."""
    fields = dict(understood.fields)
    for name, corrected in lessons.items():
        read = fields.get(name)
        wrong = str(read.value) if read is not None else ""
        if wrong in corrected and corrected[wrong] is not None:
            right = FieldRead(corrected[wrong], 0.99, evidence="a person corrected this before")
            fields[name] = right if read is None else replace(right, page=read.page, box=read.box)
    return replace(understood, fields=fields)
