"""Analyzes what was read from a file: its kind, fields and checks. Runs in a sandboxed child.

The entry point to `fields` and `kinds`. Pure; it takes milliseconds of CPU. A language
model's answer is merged with what the offline reader found; everything else is done in the same way.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from postroom.documents import classifier, part_detection
from postroom.documents.analysis_result import DocumentAnalysis
from postroom.documents.classifier import Classification
from postroom.documents.fields import answer_rating, einvoice_xml, offline_reader
from postroom.documents.fields.document_text import DocumentText, build_document_text
from postroom.documents.fields.einvoice_xml import EInvoice
from postroom.documents.fields.extraction_result import FieldCheck, FieldExtraction, ModelAnswer
from postroom.documents.fields.field_checks import check_fields, check_formats, check_text
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.part_detection import DetectedParts
from postroom.documents.stored_extraction import E_INVOICE_READER

_MIN_KIND_CERTAINTY: Final = 0.5  # a document below this may be something else and needs review


def analyze(
    reading: FileReading,
    kinds: Sequence[DocumentKind],
    *,
    use_exact: bool = True,
    answer: ModelAnswer | None = None,
) -> DocumentAnalysis:
    """Analyze with the offline reader. Without `use_exact`, e-invoice XML is ignored."""
    document, verdict, found = _inspect(reading, kinds, use_exact=use_exact)
    if verdict.kind is None:
        return _skipped_analysis(verdict)
    if found:
        return _from_einvoice(verdict, found, document)
    extraction = offline_reader.read_fields(reading.transcript, verdict.kind)
    if answer:
        typed = msgspec.convert(answer.values, verdict.kind.model)
        rated = answer_rating.rate_answer(typed, extraction, document, verdict.kind)
        extraction = replace(rated, reader=answer.reader)
    parts = part_detection.find_parts(reading.transcript, verdict.kind)
    return _from_extraction(verdict, document, extraction, parts)


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
    verdict: Classification,
    document: DocumentText,
    extraction: FieldExtraction,
    parts: DetectedParts | None,
) -> DocumentAnalysis:
    assert verdict.kind
    is_known = verdict.certainty >= _MIN_KIND_CERTAINTY
    known = FieldCheck("kind", is_known, f"certainty {verdict.certainty:.2f}", is_doubt=True)
    checks = (
        known,
        *([parts.check] if parts else []),
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
        parts=parts.ranges if parts and parts.is_certain else (),
    )
