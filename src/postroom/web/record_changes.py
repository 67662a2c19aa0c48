"""The record on the page of its document: its state, order and versions, and the changes a person makes.

The changes themselves are in `flow.documents.record_changes`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request

from postroom.errors import PermanentError
from postroom.flow.documents import order_links, record_changes, value_checks
from postroom.flow.documents.record_changes import RecordChange
from postroom.flow.documents.value_checks import ReviewContext
from postroom.store import archive_copies, documents, orders, record_versions, records
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.store.orders import Order
from postroom.store.record_versions import RecordVersion
from postroom.store.records import ExtractionRow, Record
from postroom.web import forms
from postroom.web.document_context import parse_uuid
from postroom.web.sessions import get_visitor

ACTIONS: Final = frozenset({"reopen", "correct", "void", "merge", "split"})
NO_ORDER: Final = "none"
_ORDER_PREFIX: Final = "order:"


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record as the page of one of its documents shows it.

    `merged` are the records that were merged into it, `earlier_copies` those of the document in the archive.
    """

    record: Record
    documents: Sequence[Document]
    versions: Sequence[RecordVersion]
    order: Order | None
    merged: Sequence[Record]
    earlier_copies: Sequence[str]


@dataclass(frozen=True, slots=True)
class ReviewChoices:
    """What a person can choose besides the values: an order, and whether the document amends a record."""

    orders: Sequence[Order]
    chosen_order: str | None
    may_replace: bool


async def load_view(connection: Connection, document: Document) -> RecordView | None:
    """The record of a document, with everything that the page shows of it."""
    record = await records.get(connection, document.record_id) if document.record_id else None
    if record is None:
        return None
    return RecordView(
        record,
        await documents.list_by_record(connection, record.id),
        await record_versions.list_versions(connection, record.id),
        await orders.get(connection, record.order_id) if record.order_id else None,
        await records.list_merged_into(connection, record.id),
        await archive_copies.list_earlier(connection, document.id),
    )


async def load_choices(
    connection: Connection, context: ReviewContext, document: Document, extraction: ExtractionRow
) -> ReviewChoices:
    """The orders that fit the values."""
    identity = context.routing.identities.get(extraction.kind)
    values = await value_checks.get_known_values(connection, document, extraction)
    if identity is None:
        return ReviewChoices((), None, may_replace=False)
    record = await records.get(connection, document.record_id) if document.record_id else None
    own = await orders.get(connection, record.order_id) if record and record.order_id else None
    listed = await orders.list_offered(connection, extraction.kind, own.id if own else None)
    fitting = await asyncio.to_thread(order_links.list_fitting, values, listed, identity.shapes)
    offered = fitting + ([own] if own and own not in fitting else [])
    return ReviewChoices(
        sorted(offered, key=lambda order: order.reference),
        own.reference if own else None,
        may_replace=bool(identity.document_identity),
    )


def overlay_values(extracted: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The extracted fields with the values of their record, which a correction starts from."""
    return {
        name: field
        if field.get("value") == values.get(name)
        else {**field, "value": values.get(name), "confidence": 1.0}
        for name in {**extracted, **values}
        for field in [extracted.get(name, {})]
    }


def parse_order(form: Mapping[str, str]) -> str | None:
    """The chosen reference; "" for none, and None without a choice."""
    chosen = form.get("order", "")
    return "" if chosen == NO_ORDER else chosen.removeprefix(_ORDER_PREFIX) or None


async def find_record(connection: Connection, name: str, pipeline: str) -> UUID:
    """The record with this key or id, which a person entered."""
    found = await records.find_by_name(connection, name.strip(), pipeline)
    if len(found) != 1:
        problem = "No record" if not found else "More than one record"
        raise PermanentError(f"{problem} has the key or ID “{name.strip()}”. Enter the whole ID.")
    return found[0].id


async def change_record(
    connection: Connection,
    context: ReviewContext,
    change: RecordChange,
    document: Document,
    action: str,
    form: Mapping[str, str],
    corrections: Mapping[str, Any],
) -> None:
    """Make the change that a person chose on the page of a document."""
    match action:
        case "reopen":
            await record_changes.reopen(connection, context, change)
        case "void":
            await record_changes.void(connection, context, change)
        case "correct":
            override = form.get("override", "").splitlines()
            await record_changes.correct(
                connection, context, change, corrections, override=override, order=parse_order(form)
            )
        case "merge":
            into = await find_record(connection, form.get("into", ""), document.pipeline)
            await record_changes.merge(connection, context, change, into=into)
        case "split":
            alone = None if change.record != document.record_id else document.id
            await record_changes.split(connection, context, change, document=alone)
        case _:
            raise HTTPException(404)


def build_change(request: Request, document: Document, form: Mapping[str, str]) -> RecordChange:
    """The change of the version that the page showed. A merge is undone for the record that was merged."""
    visitor = get_visitor(request)
    merged = parse_uuid(form.get("merged"))
    record = merged or document.record_id
    if record is None:
        raise PermanentError("The document has no record.")
    version = None if merged else forms.parse_number(form.get("version"))
    return RecordChange(visitor.organization, record, visitor.actor, form.get("reason", ""), version)
