"""DocumentAnalysis: the kind, fields and checks of a document, and how it travels between processes.

Types and encoding only. `analysis` analyzes, in a sandboxed child; `FileSandbox.analyze` starts that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any, Final, cast

import msgspec

from postroom.documents.fields.extraction_result import (
    OFFLINE_READER,
    EInvoiceDifference,
    FieldCheck,
    FieldValue,
    ModelAnswer,
    ModelUsage,
)
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.page_ranges import PageRange


@dataclass(frozen=True, slots=True)
class DocumentAnalysis:
    """The kind and the fields of a document.

    With a `skip_reason` it is of no kind and has no fields.
    """

    kind: DocumentKind | None
    certainty: float
    skip_reason: str | None
    fields: dict[str, FieldValue]
    checks: tuple[FieldCheck, ...] = ()
    differences: tuple[EInvoiceDifference, ...] = ()
    source: str = OFFLINE_READER
    fallback_reason: str | None = None
    usage: tuple[ModelUsage, ...] = ()
    parts: tuple[PageRange, ...] = ()  # of a file that certainly holds several documents

    @property
    def failed_checks(self) -> tuple[str, ...]:
        return tuple(
            f"{each.name}: {each.words}" for each in self.checks if each.is_severe and not each.passed
        )

    @property
    def confidences(self) -> dict[str, float]:
        return {name: field.confidence for name, field in self.fields.items()}

    def values(self) -> dict[str, Any]:
        """Return the values as they are stored: decimals and dates as text, rows as objects."""
        return {name: _to_json_value(field.value) for name, field in self.fields.items()}


@dataclass(frozen=True, slots=True)
class AnalysisTask:
    """What a child analyzes: what was read from a file, and the names of the kinds it may be."""

    reading: FileReading
    kinds: tuple[str, ...]
    use_exact: bool = True
    answer: ModelAnswer | None = None


@dataclass(frozen=True, slots=True)
class _EncodedAnalysis:
    """An analysis on its way: the name of the kind, and values as they are stored."""

    kind: str | None
    certainty: float
    skip_reason: str | None
    fields: dict[str, FieldValue]
    checks: tuple[FieldCheck, ...]
    differences: tuple[EInvoiceDifference, ...]
    source: str
    parts: tuple[PageRange, ...]


decode_task: Final = msgspec.msgpack.Decoder(AnalysisTask).decode
_decode_analysis: Final = msgspec.msgpack.Decoder(_EncodedAnalysis).decode


def encode_analysis(analysis: DocumentAnalysis) -> bytes:
    values = analysis.values()
    return msgspec.msgpack.encode(
        _EncodedAnalysis(
            analysis.kind.name if analysis.kind else None,
            analysis.certainty,
            analysis.skip_reason,
            {name: replace(field, value=values[name]) for name, field in analysis.fields.items()},
            analysis.checks,
            analysis.differences,
            analysis.source,
            analysis.parts,
        )
    )


def decode_analysis(encoded: bytes, kinds: Sequence[DocumentKind]) -> DocumentAnalysis:
    """Decode an analysis by a child. Its values are as they are stored: decimals and dates as text."""
    found = _decode_analysis(encoded)
    return DocumentAnalysis(
        next((kind for kind in kinds if kind.name == found.kind), None),
        found.certainty,
        found.skip_reason,
        found.fields,
        found.checks,
        found.differences,
        found.source,
        parts=found.parts,
    )


def _to_json_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple):
        return [_to_json_value(each) for each in cast("tuple[Any, ...]", value)]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _to_json_value(getattr(value, each.name)) for each in fields(value)}
    return value
