"""Analyzes what was read from a file: its kind, fields and checks.

The entry point to `fields` and `kinds`. `analyze` is pure and takes milliseconds of CPU; run it in a thread.
`analyze_with` takes the fields from another reader and does everything else in the same way. Nothing is
stored; `stored_extraction` converts the result.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, Final, cast

from postroom.documents import classifier
from postroom.documents.classifier import Classification
from postroom.documents.fields import einvoice_xml, offline_reader
from postroom.documents.fields.document_text import DocumentText, build_document_text
from postroom.documents.fields.einvoice_xml import EInvoice, EInvoiceDifference
from postroom.documents.fields.extraction_result import FieldCheck, FieldExtraction, FieldValue, ModelUsage
from postroom.documents.fields.field_checks import check_fields, check_formats, check_text
from postroom.documents.fields.field_reader import FieldReader, SourceFile
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.stored_extraction import E_INVOICE_READER

_MIN_KIND_CERTAINTY: Final = 0.5  # a document below this may be something else and needs review


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
    source: str = "offline"
    fallback_reason: str | None = None
    usage: tuple[ModelUsage, ...] = ()

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


def analyze(
    reading: FileReading, kinds: Sequence[DocumentKind], *, use_exact: bool = True
) -> DocumentAnalysis:
    """Analyze with the offline reader. Without `use_exact`, e-invoice XML is ignored."""
    document, verdict, found = _inspect(reading, kinds, use_exact=use_exact)
    if verdict.kind is None:
        return _skipped_analysis(verdict)
    if found:
        return _from_einvoice(verdict, found, document)
    return _from_extraction(verdict, document, offline_reader.read_fields(reading.transcript, verdict.kind))


async def analyze_with(
    field_reader: FieldReader,
    reading: FileReading,
    kinds: Sequence[DocumentKind],
    *,
    file: SourceFile | None = None,
    use_exact: bool = True,
) -> DocumentAnalysis:
    """Analyze with another reader where there is no e-invoice XML.

    CPU work runs in a thread.
    """
    looked_at = partial(_inspect, reading, kinds, use_exact=use_exact)
    document, verdict, found = await asyncio.to_thread(looked_at)
    if verdict.kind is None:
        return _skipped_analysis(verdict)
    if found:
        return _from_einvoice(verdict, found, document)
    return _from_extraction(verdict, document, await field_reader.read(reading, verdict.kind, file))


def _inspect(
    reading: FileReading, kinds: Sequence[DocumentKind], *, use_exact: bool
) -> tuple[DocumentText, Classification, EInvoice | None]:
    document = build_document_text(reading.transcript)
    if reading.skip_reason:
        return document, Classification(None, 0.999, reading.skip_reason), None
    invoice = next((kind for kind in kinds if kind.name == "invoice"), None)
    found = einvoice_xml.find_einvoice(reading.embedded) if use_exact and reading.embedded else None
    if found and invoice:
        return document, Classification(invoice, 0.999, None), found
    if found:
        return document, Classification(None, 0.999, f"it is an e-invoice ({found.syntax})"), None
    if not document.lines:
        return document, Classification(None, 0.9, "it contains no text"), None
    return document, classifier.classify(document, kinds), None


def _skipped_analysis(verdict: Classification) -> DocumentAnalysis:
    return DocumentAnalysis(None, verdict.certainty, verdict.skip_reason, {})


def _from_einvoice(verdict: Classification, found: EInvoice, document: DocumentText) -> DocumentAnalysis:
    assert verdict.kind
    placed = einvoice_xml.locate_fields(found, document)
    return DocumentAnalysis(
        verdict.kind,
        verdict.certainty,
        None,
        placed,
        (*check_formats(verdict.kind, placed), *check_fields(verdict.kind, placed)),
        einvoice_xml.find_differences(found, document),
        source=f"{E_INVOICE_READER} ({found.syntax})",
    )


def _from_extraction(
    verdict: Classification, document: DocumentText, extraction: FieldExtraction
) -> DocumentAnalysis:
    assert verdict.kind
    known = FieldCheck("kind", verdict.certainty >= _MIN_KIND_CERTAINTY, f"certainty {verdict.certainty:.2f}")
    checks = (
        known,
        *check_text(verdict.kind, document),
        *extraction.checks,
        *check_fields(verdict.kind, extraction.fields),
    )
    return DocumentAnalysis(
        verdict.kind,
        verdict.certainty,
        None,
        dict(extraction.fields),
        checks,
        source=extraction.reader,
        fallback_reason=extraction.fallback_reason,
        usage=extraction.usage,
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
