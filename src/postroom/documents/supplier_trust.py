"""Finds uncertain values that need no review, because people confirmed such values of the same layout.

Pure: `flow.documents.supplier_trust` finds the confirmed documents, `flow.documents.route` decides. Trust
replaces no check, control or missing value, and never leads to a record that exists already.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from postroom.documents import record_matching
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.kinds.field_spec import FieldShape
from postroom.documents.stored_extraction import StoredExtraction, StoredField

MIN_CONFIRMED: Final = 2  # records whose values a person confirmed unchanged
# Values below these always need review. The first one is for values that all documents of a supplier repeat.
_MIN_REPEATED_CONFIDENCE: Final = 0.5
_MIN_CONFIDENCE: Final = 0.8
CERTAIN_IDENTIFIER: Final = 0.9  # from this confidence on, a VAT ID or an IBAN identifies the supplier
# Equal in all documents of a supplier. Others, such as amounts, must be found in the same way.
_REPEATED_SHAPES: Final = frozenset[FieldShape]({"party", "vat_id", "iban", "choice"})
_ALIGNED: Final = 0.03  # of the page's width
_IDENTIFIER_SHAPES: Final = frozenset[FieldShape]({"vat_id", "iban"})

Edges = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class ConfirmedReading:
    """What was read from a document that a person confirmed unchanged, and its record."""

    record: UUID
    fields: Mapping[str, StoredField]


def find_trusted_fields(
    kind: DocumentKind,
    extraction: StoredExtraction,
    readings: Sequence[ConfirmedReading],
    *,
    confirm_above: float,
) -> dict[str, list[UUID]]:
    """Find the uncertain fields that are trusted, each with the records that people confirmed.

    `readings` are those of the document's supplier and layout.
    """
    if not _is_identified(kind, extraction, readings, confirm_above):
        return {}
    trusted: dict[str, list[UUID]] = {}
    for name in (*kind.required, *kind.certain):
        read, shape = extraction.fields.get(name), kind.fields[name].shape
        if read is None or not is_trustworthy(shape, read.confidence, confirm_above):
            continue
        alike = [
            reading.record
            for reading in readings
            if name in reading.fields and _is_alike(shape, read, reading.fields[name])
        ]
        if len(set(alike)) >= MIN_CONFIRMED:
            trusted[name] = list(dict.fromkeys(alike))
    return trusted


def is_trustworthy(shape: FieldShape, confidence: float, confirm_above: float) -> bool:
    """Whether earlier confirmations can replace the review of a value with this confidence.

    Never of a currency: "$" means another one in the next document, and no check would notice.
    """
    floor = _MIN_REPEATED_CONFIDENCE if shape in _REPEATED_SHAPES else _MIN_CONFIDENCE
    return shape != "currency" and floor <= confidence < confirm_above


def _is_identified(
    kind: DocumentKind,
    extraction: StoredExtraction,
    readings: Sequence[ConfirmedReading],
    confirm_above: float,
) -> bool:
    """Whether the supplier is certain: its name, or a VAT ID or IBAN that the confirmed records share."""
    for name, spec in kind.fields.items():
        read = extraction.fields.get(name)
        if read is None:
            continue
        if spec.shape == "party" and read.confidence >= confirm_above:
            return True
        is_proven = spec.shape in _IDENTIFIER_SHAPES and read.confidence >= CERTAIN_IDENTIFIER
        if is_proven and record_matching.normalize_identifier(read.value, spec.shape):
            known = [reading for reading in readings if _get_value(reading, name) == read.value]
            if len(known) >= MIN_CONFIRMED:
                return True
    return False


def _get_value(reading: ConfirmedReading, name: str) -> Any:
    return reading.fields[name].value if name in reading.fields else None


def _is_alike(shape: FieldShape, read: StoredField, earlier: StoredField) -> bool:
    """Whether a value is at least as certain as one that was confirmed, and was found in the same way."""
    if read.confidence < earlier.confidence:
        return False
    if shape in _REPEATED_SHAPES:
        return read.value == earlier.value
    same_words = describe_evidence(read.evidence) == describe_evidence(earlier.evidence)
    return same_words and _is_same_column(read.box, earlier.box)


def _is_same_column(box: Edges | None, other: Edges | None) -> bool:
    """Whether two values are aligned, on the left or on the right."""
    if box is None or other is None:
        return box is other
    return any(abs(box[edge] - other[edge]) <= _ALIGNED for edge in (0, 2))


def describe_evidence(evidence: str) -> str:
    """The words of the evidence, without the numbers and dates that differ between documents."""
    return re.sub(r"\d[\d.,'\u2019]*", "0", evidence)
