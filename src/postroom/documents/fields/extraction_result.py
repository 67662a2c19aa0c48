"""Types of a reader's result: values with confidence, position and evidence, checks, a model's answer.

Types only. `stored_extraction` has the form in which results are stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from postroom.documents.files.file_reading import Box

OFFLINE_READER: Final = "offline"  # the name of the reader that needs no language model


@dataclass(frozen=True, slots=True)
class ConfidenceSignals:
    """The evidence for a value.

    `calibration` computes its confidence from this alone.
    """

    shape: str
    label: float = 0.0  # how well its position fits its label
    margin: float = 0.0  # the lead over the next best value
    agreed: bool = False  # confirmed by arithmetic
    checked: bool = False  # its check digits are valid
    is_repeated: bool = False  # the document contains it more than once
    has_rival_value: bool = False  # the same label has another value elsewhere
    is_letter_spaced: bool = False  # its line is set with letter spacing; characters may be missing


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A value with its confidence, its position and why it was chosen."""

    value: Any
    confidence: float
    evidence: str
    page: int | None = None
    box: Box | None = None
    signals: ConfidenceSignals | None = None
    ambiguity: str = ""  # why the same characters may mean another value


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """One check of a value, or of values against each other."""

    name: str
    passed: bool
    words: str
    is_severe: bool = True  # if it fails, the document needs review
    fields: tuple[str, ...] = ()  # the fields whose values decide it
    is_doubt: bool = False  # about the reading: a person who confirms the values has looked at the document


@dataclass(frozen=True, slots=True)
class EInvoiceDifference:
    """A value of the XML that the visible text does not contain."""

    field: str
    xml_value: str
    words: str


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The cost of a language model call; a high estimate where the price is unknown."""

    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A language model's values by field, as JSON has them, or the reason why there are none."""

    reader: str
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    usage: tuple[ModelUsage, ...] = ()
    fallback_reason: str | None = None


@dataclass(frozen=True, slots=True)
class FieldExtraction:
    """The fields that a reader found, and how it found them."""

    fields: Mapping[str, FieldValue]
    checks: tuple[FieldCheck, ...] = ()
    reader: str = OFFLINE_READER
