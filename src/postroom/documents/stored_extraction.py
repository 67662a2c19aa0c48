"""An extraction in the form in which it is stored: types and conversion from an analysis.

Also the application of earlier corrections. Pure; `store.records` has the SQL.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from postroom.documents.fields.field_checks import check_check_digits, name_digit_check, name_reading_check
from postroom.documents.files.file_reading import Box, Transcript
from postroom.documents.kinds.field_spec import FieldShape

if TYPE_CHECKING:
    from postroom.documents.analysis import DocumentAnalysis
    from postroom.documents.fields.extraction_result import FieldCheck

E_INVOICE_READER: Final = "e-invoice"  # the reader's name if all values come from XML
HEAD_WORDS: Final = 8


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
