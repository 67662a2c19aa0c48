"""The page of a record: its values, checks, documents, versions, ledger entries and webhooks.

It is changed on the page of its document, see `record_changes`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.api_types import LedgerEntryResource
from postroom.documents.stored_extraction import StoredCheck
from postroom.flow.documents import value_checks
from postroom.flow.documents.route import MACHINE
from postroom.store import archive_copies, documents, orders, record_versions, records
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.store.record_versions import RecordVersion
from postroom.store.records import Record
from postroom.store.views import actor_names, admin, record_events
from postroom.web import field_labels, field_views, pages
from postroom.web.document_context import DocumentPagesContext
from postroom.web.documents import STATE_NAMES
from postroom.web.field_views import FieldView
from postroom.web.ledger import EVENT_NAMES
from postroom.web.sessions import get_visitor, member_route

MAX_ENTRIES = 200


@dataclass(frozen=True, slots=True)
class RecordDocument:
    """A document of a record, with the name of its file and the earlier copies in the archive."""

    document: Document
    file_name: str
    sender: str | None
    earlier_copies: Sequence[str]


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A field that a version changed."""

    label: str
    shape: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """A version, and the fields that differ from the one before."""

    version: RecordVersion
    changes: Sequence[ChangedField]


def routes(context: DocumentPagesContext) -> list[Route]:
    return [member_route(context.site, "/records/{record:uuid}", partial(record_page, context))]


async def record_page(context: DocumentPagesContext, request: Request) -> Response:
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        record = await records.get(connection, request.path_params["record"])
        if record is None:
            raise HTTPException(404)
        values = await _load_page(connection, context, record)
    return pages.render_page(request, "record_page.html", record=record, now=datetime.now(UTC), **values)


async def _load_page(connection: Connection, context: DocumentPagesContext, record: Record) -> dict[str, Any]:
    held = await documents.list_by_record(connection, record.id)
    versions = await record_versions.list_versions(connection, record.id)
    entries = await _list_entries(connection, record, held)
    actors = [record.confirmed_by, *(version.actor_id for version in versions)]
    actors += [entry.actor_id for entry in entries if entry.actor_id]
    return {
        "title": _name_record(record),
        "kind": field_labels.kind_label(record.kind),
        "supplier": await records.get_supplier(connection, record.id),
        "fields": list_values(context, record.kind, record.fields),
        "checks": await _list_checks(connection, context, record, held),
        "documents": [await _load_document(connection, document) for document in held],
        "order": await orders.get(connection, record.order_id) if record.order_id else None,
        "into": await records.get(connection, record.merged_into) if record.merged_into else None,
        "merged": await records.list_merged_into(connection, record.id),
        "versions": _compare_versions(context, record.kind, versions),
        "entries": entries,
        "events": await record_events.list_events(connection, record.id),
        "people": {**await actor_names.find_names(connection, actors), MACHINE: "Postroom"},
        "event_names": EVENT_NAMES,
        "state_names": STATE_NAMES,
    }


def _name_record(record: Record) -> str:
    """What people call a record: its number, the security of a trade, or else its key."""
    fields = record.fields
    return str(fields.get("number") or fields.get("name") or fields.get("isin") or record.name)


def list_values(context: DocumentPagesContext, kind: str, fields: Mapping[str, Any]) -> list[FieldView]:
    """The fields of a record or an order, in the order of their kind."""
    values = {name: {"value": value, "confidence": 1.0} for name, value in fields.items()}
    return field_views.build_fields(values, kind, context.review.routing.identities.get(kind))


async def _load_document(connection: Connection, document: Document) -> RecordDocument:
    arrivals = await documents.list_arrivals(connection, document.id)
    last = arrivals[-1] if arrivals else None
    return RecordDocument(
        document,
        (last.file_name if last else None) or "Unnamed file",
        last.sender if last else None,
        await archive_copies.list_earlier(connection, document.id),
    )


async def _list_checks(
    connection: Connection, context: DocumentPagesContext, record: Record, held: Sequence[Document]
) -> Sequence[StoredCheck]:
    """The checks of the record's values, against its first document."""
    extraction = await records.get_newest_extraction(connection, held[0].id) if held else None
    if extraction is None:
        return ()
    changes = value_checks.find_changes(value_checks.get_read_values(extraction), record.fields)
    return await value_checks.check_values(connection, context.review, held[0], extraction, changes)


async def _list_entries(
    connection: Connection, record: Record, held: Sequence[Document]
) -> list[LedgerEntryResource]:
    """The ledger entries of the record and its documents, oldest first."""
    about: list[tuple[str, UUID]] = [("record", record.id), *(("document", each.id) for each in held)]
    entries = [
        entry
        for entity_type, entity in about
        for entry in await admin.list_ledger_entries(
            connection, entity_type=entity_type, entity_id=str(entity), below=None, limit=MAX_ENTRIES
        )
    ]
    return sorted(entries, key=lambda entry: entry.id)


def _compare_versions(
    context: DocumentPagesContext, kind: str, versions: Sequence[RecordVersion]
) -> list[VersionChanges]:
    """Each version with what it changed, newest first."""
    identity = context.review.routing.identities.get(kind)
    shapes: Mapping[str, str] = identity.shapes if identity else {}
    before: Mapping[str, Any] = {}
    compared: list[VersionChanges] = []
    for version in versions:
        names = [
            name for name in {**before, **version.fields} if before.get(name) != version.fields.get(name)
        ]
        changes = [
            ChangedField(
                field_labels.field_label(kind, name),
                shapes.get(name, ""),
                _shorten(before.get(name)),
                _shorten(version.fields.get(name)),
            )
            for name in names
        ]
        compared.append(VersionChanges(version, changes if compared else ()))
        before = version.fields
    return compared[::-1]


def _shorten(value: Any) -> str:
    if isinstance(value, list):
        return "changed rows"
    return "nothing" if value is None else str(value)
