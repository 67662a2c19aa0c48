"""An extraction in the form in which it is stored: types and conversion from an analysis.

Also the application of earlier corrections, and the checks of values that a person corrected. Pure;
`store.records` has the SQL.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from postroom.documents import record_matching
from postroom.documents.fields.extraction_result import FieldValue
from postroom.documents.fields.field_checks import (
    check_check_digits,
    check_fields,
    name_agreement_check,
    name_digit_check,
    name_format_check,
    name_reading_check,
)
from postroom.documents.files.file_reading import Box, Transcript
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.field_spec import FieldShape

if TYPE_CHECKING:
    from postroom.documents.analysis_result import DocumentAnalysis
    from postroom.documents.fields.extraction_result import FieldCheck

E_INVOICE_READER: Final = "e-invoice"  # the reader's name if all values come from XML
HEAD_WORDS: Final = 8
_CHECK_NAME: Final = re.compile(r"[a-z][a-z0-9_+=, ]*(?=: )")
# Doubts about the reading: the person who confirms the values has looked at the document.
_DOUBT: Final = re.compile(r"kind|analysis|density|length|one reading of .+|both readers agree on .+")
_E_INVOICE_CHECK: Final = "e-invoice"  # the name of differences between XML and visible text


@dataclass(frozen=True, slots=True)
class StoredField:
    """A value as it is stored (decimals and dates as text), its confidence and its position."""

    value: Any
    confidence: float
    page: int | None = None
    box: tuple[float, float, float, float] | None = None
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class StoredCheck:
    words: str
    passed: bool
    is_severe: bool = True  # if it fails, the document needs review

    @property
    def name(self) -> str:
        """What is checked, without values: before the first colon."""
        found = _CHECK_NAME.match(self.words)
        return found[0] if found else _E_INVOICE_CHECK

    @property
    def details(self) -> str:
        return self.words.removeprefix(f"{self.name}: ")

    @property
    def is_failed(self) -> bool:
        return self.is_severe and not self.passed

    @property
    def needs_override(self) -> bool:
        """Whether the values contradict each other or the document."""
        return self.is_failed and not _DOUBT.fullmatch(self.name)


@dataclass(frozen=True, slots=True)
class StoredExtraction:
    kind: str
    reader: str
    skip_reason: str | None = None
    fields: Mapping[str, StoredField] = field(default_factory=dict[str, StoredField])
    checks: tuple[StoredCheck, ...] = ()
    differences: tuple[str, ...] = ()  # between e-invoice XML and the visible text
    layout: str | None = None  # equal for documents that look alike
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0
    is_ocr: bool = False  # its words come from OCR

    @property
    def is_exact(self) -> bool:
        return self.reader.startswith(E_INVOICE_READER)

    @property
    def values(self) -> dict[str, Any]:
        return {name: each.value for name, each in self.fields.items()}


def to_stored(found: "DocumentAnalysis", kind: str, transcript: Transcript) -> StoredExtraction:
    """Convert an analysis to the form in which it is stored."""
    values = found.values()
    return StoredExtraction(
        kind=kind,
        reader=found.source,
        skip_reason=found.skip_reason,
        fields={
            name: StoredField(values[name], each.confidence, each.page, _to_edges(each.box), each.evidence)
            for name, each in found.fields.items()
        },
        checks=_to_stored_checks(found),
        differences=tuple(each.words for each in found.differences),
        layout=layout_fingerprint(transcript),
        input_tokens=sum(each.input_tokens for each in found.usage),
        output_tokens=sum(each.output_tokens for each in found.usage),
        cost=sum(each.cost_usd for each in found.usage),
        is_ocr=transcript.method == "ocr",
    )


def _to_stored_checks(found: "DocumentAnalysis") -> tuple[StoredCheck, ...]:
    """Convert all checks, and add the reason why no language model was used."""
    checks = [_to_stored_check(each) for each in found.checks]
    fallback = (
        [StoredCheck(f"read offline: {found.fallback_reason}", passed=True)] if found.fallback_reason else []
    )
    return (*checks, *fallback)


def _to_stored_check(check: "FieldCheck") -> StoredCheck:
    return StoredCheck(f"{check.name}: {check.words}", check.passed, check.is_severe)


def _to_edges(box: Box | None) -> tuple[float, float, float, float] | None:
    return (box.left, box.top, box.right, box.bottom) if box else None


def layout_fingerprint(transcript: Transcript) -> str | None:
    """Hash the first words and their rough positions: equal for documents with the same head."""
    head = [
        f"{word.text.casefold()} {word.box.left:.1f} {word.box.top:.1f}"
        for word in transcript.words
        if word.page == 0 and len(word.text) > 2 and word.text.isalpha()
    ][:HEAD_WORDS]
    return sha256("\n".join(head).encode()).hexdigest()[:16] if len(head) == HEAD_WORDS else None


def apply_corrections(
    extraction: StoredExtraction,
    corrections: Mapping[str, Mapping[str, Any]],
    shapes: Mapping[str, FieldShape],
) -> StoredExtraction:
    """Apply corrections that people made before: by field, the wrong value and its correction.

    Corrected values get the same checks as values that were read.
    """
    fields = dict(extraction.fields)
    for name, corrected in corrections.items():
        read = fields.get(name)
        wrong = str(read.value) if read is not None else ""
        if wrong in corrected and corrected[wrong] is not None:
            right = StoredField(corrected[wrong], 0.99, evidence="a person corrected this before")
            fields[name] = right if read is None else replace(right, page=read.page, box=read.box)
    changed = [name for name in corrections if fields.get(name) is not extraction.fields.get(name)]
    former = tuple(
        f"{check}:" for name in changed for check in (name_digit_check(name), name_reading_check(name))
    )
    new_checks = [check_check_digits(name, shapes[name], fields[name].value) for name in changed]
    other_checks = [each for each in extraction.checks if not each.words.startswith(former)]
    return replace(
        extraction,
        fields=fields,
        checks=(*other_checks, *(_to_stored_check(each) for each in new_checks if each)),
    )


def check_corrected(
    kind: DocumentKind, checks: Sequence[StoredCheck], read: Mapping[str, Any], corrected: Mapping[str, Any]
) -> tuple[StoredCheck, ...]:
    """Return the checks with those of the corrected fields computed again, as a person's values require.

    The others stay: some depend on the text, and the arithmetic of values with an exchange rate was proven
    when they were read.
    """
    before, after = (_check_values(kind, values) for values in (read, {**read, **corrected}))
    outdated = {check.name for check in (*before, *after) if not corrected.keys().isdisjoint(check.fields)}
    for name in corrected:
        outdated |= {
            name_digit_check(name),
            name_format_check(name),
            name_reading_check(name),
            name_agreement_check(name),
        }
    kept = [
        check for check in checks if check.name not in outdated and not _is_difference_of(check, corrected)
    ]
    return (*kept, *(_to_stored_check(check) for check in after if check.name in outdated))


def _check_values(kind: DocumentKind, values: Mapping[str, Any]) -> "tuple[FieldCheck, ...]":
    fields = {
        name: FieldValue(typed, 1.0, "")
        for name, spec in kind.fields.items()
        if (typed := _to_typed(values.get(name), spec.shape)) is not None
    }
    return check_fields(kind, fields)


def _to_typed(value: Any, shape: FieldShape) -> Any:
    """Return a stored value with its type; None if there is none, or for a table."""
    if value is None or isinstance(value, list):
        return None
    if shape in record_matching.NUMBER_SHAPES:
        return Decimal(str(value)) if record_matching.is_number(value) else None
    if shape == "date":
        return date.fromisoformat(str(value)) if record_matching.is_date(value) else None
    return value


def _is_difference_of(check: StoredCheck, names: Mapping[str, Any]) -> bool:
    """Whether it is a difference between the XML and the visible text in one of these fields."""
    return any(check.words.endswith(f" for {name}; the visible text does not") for name in names)
