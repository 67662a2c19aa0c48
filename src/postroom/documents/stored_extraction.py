"""An extraction in the form in which it is stored: types and conversion from an analysis.

Also the application of earlier corrections, and the checks of values that a person corrected. Pure;
`store.records` has the SQL.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast, get_type_hints

import msgspec

from postroom.documents import record_matching
from postroom.documents.fields.extraction_result import FieldValue
from postroom.documents.fields.field_checks import TITLE, check_fields
from postroom.documents.files.file_reading import Box, Transcript
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.field_spec import FieldShape
from postroom.documents.page_ranges import PageRange

if TYPE_CHECKING:
    from postroom.documents.analysis_result import DocumentAnalysis
    from postroom.documents.fields.extraction_result import FieldCheck

E_INVOICE_READER: Final = "e-invoice"  # the reader's name if all values come from XML
HEAD_WORDS: Final = 8
_E_INVOICE_CHECK: Final = "e-invoice"  # the name of differences between XML and visible text
# Checks that an earlier version stored have only words, from which the rest follows.
_EARLIER_NAME: Final = re.compile(r"[a-z][a-z0-9_+=, ]*(?=: )")
_EARLIER_DOUBT: Final = re.compile(r"kind|analysis|density|length|one reading of .+|both readers agree on .+")
_EARLIER_DIFFERENCE: Final = re.compile(r" for (\w+); the visible text does not$")


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
    """A check as it is stored; see FieldCheck. Its words start with its name, except for an e-invoice."""

    name: str
    words: str
    passed: bool
    is_severe: bool = True
    fields: tuple[str, ...] = ()
    is_doubt: bool = False

    @property
    def details(self) -> str:
        return self.words.removeprefix(f"{self.name}: ")

    @property
    def is_failed(self) -> bool:
        return self.is_severe and not self.passed

    @property
    def needs_override(self) -> bool:
        """Whether the values contradict each other or the document."""
        return self.is_failed and not self.is_doubt


@dataclass(frozen=True, slots=True)
class StoredExtraction:
    kind: str
    reader: str
    skip_reason: str | None = None
    fields: Mapping[str, StoredField] = field(default_factory=dict[str, StoredField])
    checks: tuple[StoredCheck, ...] = ()
    layout: str | None = None  # equal for documents that look alike
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0
    is_ocr: bool = False  # its words come from OCR
    parts: tuple[PageRange, ...] = ()  # of a file that certainly holds several documents

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
        layout=layout_fingerprint(transcript),
        input_tokens=sum(each.input_tokens for each in found.usage),
        output_tokens=sum(each.output_tokens for each in found.usage),
        cost=sum(each.cost_usd for each in found.usage),
        is_ocr=transcript.method == "ocr",
        parts=found.parts,
    )


def _to_stored_checks(found: "DocumentAnalysis") -> tuple[StoredCheck, ...]:
    """Convert all checks and differences, and add the reason why no language model was used."""
    checks = [to_stored_check(check) for check in found.checks]
    checks += [
        StoredCheck(_E_INVOICE_CHECK, difference.words, passed=False, fields=(difference.field,))
        for difference in found.differences
    ]
    if found.fallback_reason:
        checks.append(StoredCheck("read offline", f"read offline: {found.fallback_reason}", passed=True))
    return tuple(checks)


def to_stored_check(check: "FieldCheck") -> StoredCheck:
    words = f"{check.name}: {check.words}"
    return StoredCheck(check.name, words, check.passed, check.is_severe, check.fields, check.is_doubt)


def read_check(stored: Mapping[str, Any]) -> StoredCheck:
    """Read a check from its JSON, also one that an earlier version stored."""
    if "name" in stored:
        return msgspec.convert(stored, StoredCheck)
    words: str = stored["words"]
    found = _EARLIER_NAME.match(words)
    name = found[0] if found else _E_INVOICE_CHECK
    is_doubt = _EARLIER_DOUBT.fullmatch(name) is not None
    fields = _EARLIER_DIFFERENCE.findall(words)
    if name.startswith("fees "):
        fields = re.findall(r"\w+", words)
    elif found and (is_doubt or not name.startswith("one ")):  # `one isin` is about the text
        fields = re.findall(r"\w+", name)
    return StoredCheck(name, words, stored["passed"], stored.get("is_severe", True), tuple(fields), is_doubt)


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
    extraction: StoredExtraction, corrections: Mapping[str, Mapping[str, Any]], kind: DocumentKind
) -> StoredExtraction:
    """Apply corrections that people made before: by field, the wrong value and its correction.

    Corrected values get the same checks as values that a person enters.
    """
    corrected: dict[str, StoredField] = {}
    for name, right_values in corrections.items():
        read = extraction.fields.get(name)
        right = right_values.get(str(read.value) if read else "")
        if right is not None:
            learned = StoredField(right, 0.99, evidence="a person corrected this before")
            corrected[name] = replace(learned, page=read.page, box=read.box) if read else learned
    values = {name: learned.value for name, learned in corrected.items()}
    return replace(
        extraction,
        fields={**extraction.fields, **corrected},
        checks=check_corrected(kind, extraction.checks, extraction.values, values),
    )


def check_corrected(
    kind: DocumentKind, checks: Sequence[StoredCheck], read: Mapping[str, Any], corrected: Mapping[str, Any]
) -> tuple[StoredCheck, ...]:
    """Return the checks with those of the corrected fields computed again, as a person's values require.

    The others stay: some depend on the text, and the arithmetic of values with an exchange rate was proven
    when they were read. The title of a credit note passes once its amount is negative.
    """
    new = [
        to_stored_check(check)
        for check in _check_values(kind, {**read, **corrected})
        if not corrected.keys().isdisjoint(check.fields)
    ]
    replaced = {check.name for check in new}
    kept = [
        check for check in checks if corrected.keys().isdisjoint(check.fields) and check.name not in replaced
    ]
    titles = [
        replace(check, passed=any(str(corrected.get(name)).startswith("-") for name in check.fields))
        for check in checks
        if check.name == TITLE and check not in kept
    ]
    return (*kept, *titles, *new)


def _check_values(kind: DocumentKind, values: Mapping[str, Any]) -> "tuple[FieldCheck, ...]":
    hints = get_type_hints(kind.model)
    fields = {
        name: FieldValue(typed, 1.0, "")
        for name, spec in kind.fields.items()
        if (typed := _to_typed(values.get(name), spec.shape, hints[name])) is not None
    }
    return check_fields(kind, fields)


def _to_typed(value: Any, shape: FieldShape, hint: Any) -> Any:
    """Return a stored value with its type; None if there is none."""
    if isinstance(value, list):
        return _to_rows(cast("list[Any]", value), hint)
    if value is None:
        return None
    if shape in record_matching.NUMBER_SHAPES:
        return record_matching.to_decimal(value)
    if shape == "date":
        return record_matching.to_date(value)
    return value


def _to_rows(value: list[Any], hint: Any) -> Any:
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError:  # rows of an earlier version of the kind
        return None
