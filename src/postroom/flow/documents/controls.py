"""Check a document's values against its receipt, the organization's names and its issuer's records.

`process` stores the checks of what was read. `review` computes them again, for the values that a person
enters, and because other records may have been confirmed meanwhile.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from postroom.documents import accounting_controls, stored_extraction
from postroom.documents.accounting_controls import EarlierRecord, KnownFacts
from postroom.documents.fields.extraction_result import FieldCheck
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.stored_extraction import StoredExtraction
from postroom.flow.documents import route
from postroom.flow.documents.route import RouteContext
from postroom.store import documents, organizations, records
from postroom.store.connection import Connection
from postroom.store.documents import Document


async def add_checks(
    connection: Connection, context: RouteContext, document: Document, extraction: StoredExtraction
) -> StoredExtraction:
    """Add the checks of what was read."""
    if extraction.skip_reason is not None:
        return extraction
    kind, identity = context.kinds[extraction.kind], context.identities[extraction.kind]
    read = {name: {"confidence": value.confidence} for name, value in extraction.fields.items()}
    unsure = route.find_uncertain_fields(read, identity, is_ocr=extraction.is_ocr)
    found = await check_record(connection, context, document, kind, extraction.values, doubted=unsure)
    return replace(extraction, checks=(*extraction.checks, *map(stored_extraction.to_stored_check, found)))


async def check_record(
    connection: Connection,
    context: RouteContext,
    document: Document,
    kind: DocumentKind,
    values: Mapping[str, Any],
    *,
    doubted: Collection[str],
) -> tuple[FieldCheck, ...]:
    """Check the values of a document. `doubted` fields are too uncertain to identify its issuer by."""
    arrivals = await documents.list_arrivals(connection, document.id)
    received_at = next((each.received_at for each in arrivals if each.received_at), document.created_at)
    facts = KnownFacts(
        received_at.date(),
        await _list_earlier_records(connection, context, document, kind, values, doubted),
        await organizations.list_names(connection) if kind.controls.addressee else (),
    )
    return accounting_controls.check_controls(kind, values, facts)


async def _list_earlier_records(
    connection: Connection,
    context: RouteContext,
    document: Document,
    kind: DocumentKind,
    values: Mapping[str, Any],
    doubted: Collection[str],
) -> list[EarlierRecord]:
    """Find records of the same issuer: those with its name, or else those with its VAT ID."""
    controls = kind.controls
    if controls.account is None and controls.amount is None:
        return []
    currency = accounting_controls.find_currency(kind)
    names = [name or "" for name in (controls.account, controls.amount, currency)]
    for issuer in context.identities[kind.name].get_issuer_hashes(kind.name, values, doubted=doubted):
        found = await records.list_earlier_values(connection, document.id, document.pipeline, issuer, names)
        if found:
            return [EarlierRecord(*row) for row in found]
    return []
