"""From what was read to what it means: kind, fields, checks. The one entry to the understanding of documents.

`understand` is pure and takes milliseconds of CPU; run it beside the event loop. `understand_with` asks
another reader for the fields and does everything else in the same way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, Final, Protocol, cast

from postroom.documents import classify, einvoice_xml, reader
from postroom.documents.checks import check, forms, paper
from postroom.documents.classify import Verdict
from postroom.documents.einvoice_xml import Difference, Exact
from postroom.documents.kind import Kind
from postroom.documents.result import Check, Extraction, FieldValue, Usage
from postroom.documents.sheet import Sheet, lay_out
from postroom.documents.transcript import Reading
from postroom.documents.understood import EXACT

_KNOWN: Final = 0.5  # a document that may as well be something else is for a person


@dataclass(frozen=True, slots=True)
class File:
    """The bytes a reading came from and its pages as WebP, for readers that look at them themselves."""

    media_type: str
    content: bytes
    pages: Callable[[], Awaitable[Sequence[bytes]]] | None = None


class FieldReader(Protocol):
    """Reads the fields of a kind. Offline by labels and arithmetic, or by a language model."""

    async def read(self, reading: Reading, kind: Kind, file: File | None) -> Extraction: ...


@dataclass(frozen=True, slots=True)
class Understanding:
    """What a document is and says. With a `skip_reason` it is none of the kinds and has no fields."""

    kind: Kind | None
    certainty: float
    skip_reason: str | None
    fields: dict[str, FieldValue]
    checks: tuple[Check, ...] = ()
    differences: tuple[Difference, ...] = ()
    source: str = "offline"
    fallback_reason: str | None = None
    usage: tuple[Usage, ...] = ()

    @property
    def failed_checks(self) -> tuple[str, ...]:
        return tuple(
            f"{each.name}: {each.words}" for each in self.checks if each.is_severe and not each.passed
        )

    @property
    def confidences(self) -> dict[str, float]:
        return {name: field.confidence for name, field in self.fields.items()}

    def values(self) -> dict[str, Any]:
        """As they are kept: decimals and dates as text, rows as objects."""
        return {name: _kept(field.value) for name, field in self.fields.items()}


def understand(reading: Reading, kinds: Sequence[Kind], *, use_exact: bool = True) -> Understanding:
    """Offline. `use_exact` off hides the XML of e-invoices."""
    sheet, verdict, found = _looked_at(reading, kinds, use_exact=use_exact)
    if verdict.kind is None:
        return _skipped(verdict)
    if found:
        return _exactly(verdict, found, sheet)
    return _read(verdict, sheet, reader.read(reading.transcript, verdict.kind))


async def understand_with(
    field_reader: FieldReader,
    reading: Reading,
    kinds: Sequence[Kind],
    *,
    file: File | None = None,
    use_exact: bool = True,
) -> Understanding:
    """The same with another reader for what no XML says; what takes CPU is done beside the event loop."""
    looked_at = partial(_looked_at, reading, kinds, use_exact=use_exact)
    sheet, verdict, found = await asyncio.to_thread(looked_at)
    if verdict.kind is None:
        return _skipped(verdict)
    if found:
        return _exactly(verdict, found, sheet)
    return _read(verdict, sheet, await field_reader.read(reading, verdict.kind, file))


def _looked_at(
    reading: Reading, kinds: Sequence[Kind], *, use_exact: bool
) -> tuple[Sheet, Verdict, Exact | None]:
    sheet = lay_out(reading.transcript)
    invoice = next((kind for kind in kinds if kind.name == "invoice"), None)
    found = einvoice_xml.find(reading.embedded) if use_exact and reading.embedded else None
    if found and invoice:
        return sheet, Verdict(invoice, 0.999, None), found
    if found:
        return sheet, Verdict(None, 0.999, f"it is an e-invoice ({found.syntax})"), None
    if not sheet.lines:
        return sheet, Verdict(None, 0.9, "there is no text in it"), None
    return sheet, classify.classify(sheet, kinds), None


def _skipped(verdict: Verdict) -> Understanding:
    return Understanding(None, verdict.certainty, verdict.skip_reason, {})


def _exactly(verdict: Verdict, found: Exact, sheet: Sheet) -> Understanding:
    assert verdict.kind
    placed = einvoice_xml.placed(found, sheet)
    return Understanding(
        verdict.kind,
        verdict.certainty,
        None,
        placed,
        (*forms(verdict.kind, placed), *check(verdict.kind, placed)),
        einvoice_xml.differences(found, sheet),
        source=f"{EXACT} ({found.syntax})",
    )


def _read(verdict: Verdict, sheet: Sheet, extraction: Extraction) -> Understanding:
    assert verdict.kind
    known = Check("kind", verdict.certainty >= _KNOWN, f"certain to {verdict.certainty:.2f}")
    checks = (known, *paper(verdict.kind, sheet), *check(verdict.kind, extraction.fields))
    return Understanding(
        verdict.kind,
        verdict.certainty,
        None,
        dict(extraction.fields),
        checks,
        source=extraction.reader,
        fallback_reason=extraction.fallback_reason,
        usage=extraction.usage,
    )


def _kept(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple):
        return [_kept(each) for each in cast("tuple[Any, ...]", value)]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _kept(getattr(value, each.name)) for each in fields(value)}
    return value
