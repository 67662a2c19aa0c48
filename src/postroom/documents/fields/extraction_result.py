"""What was understood: fields with confidence, place and evidence, and the checks they passed or failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from postroom.documents.files.transcript import Box


@dataclass(frozen=True, slots=True)
class ConfidenceSignals:
    """What speaks for a value. Confidence is made of these and nothing else (`calibration`)."""

    shape: str
    label: float = 0.0  # how well it stands beside its label
    margin: float = 0.0  # how far the next best value is behind
    agreed: bool = False  # arithmetic confirmed it
    checked: bool = False  # its check digits are right
    is_repeated: bool = False  # it stands in the document more than once
    has_rival_value: bool = False  # another value stands beside the very same label
    is_letter_spaced: bool = False  # the letters of its line were set apart, and signs may be missing


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A value with the probability that it is right, where it stands, and why it was taken."""

    value: Any
    confidence: float
    evidence: str
    page: int | None = None
    box: Box | None = None
    signals: ConfidenceSignals | None = None
    ambiguity: str = ""  # why its signs may as well mean another value


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """One test of the values against each other or themselves."""

    name: str
    passed: bool
    words: str
    is_severe: bool = True  # where it fails, a person must look


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What asking a language model cost; an estimate on the high side where its price is not known."""

    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class FieldExtraction:
    """The fields that a reader read, and what it has to say about how."""

    fields: Mapping[str, FieldValue]
    checks: tuple[FieldCheck, ...] = ()
    reader: str = "offline"
    fallback_reason: str | None = None
    usage: tuple[ModelUsage, ...] = field(default_factory=tuple[ModelUsage, ...])
