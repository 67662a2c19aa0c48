"""Queries of the API: documents, arrivals, extractions, reviews, records and orders. Read only."""

from collections.abc import Sequence
from dataclasses import asdict
from uuid import UUID

from postroom.api_types import (
    ArrivalResource,
    DocumentResource,
    ExtractionResource,
    OrderResource,
    RecordResource,
    RecordVersionResource,
    ReviewResource,
)
from postroom.store import record_versions
from postroom.store.database import Connection
from postroom.store.views import fetch_all, fetch_in_order, fetch_one

_DOCUMENT = """
    SELECT documents.id, pipeline, kind, state, state_since, media_type, encode(documents.sha256, 'hex'),
        size, skip_reason, last_error, record_id, archive_path, archived_at, created_at, needs_password,
        part_of, part_pages, assignee_id
    FROM documents JOIN blobs USING (organization_id, sha256)
"""
_REVIEW = "SELECT id, document_id, reason, decision, actor_id, created_at, decided_at FROM reviews"
_RECORD = """
    SELECT id, kind, pipeline, key, fields, order_id, confirmed_by, confirmed_at, state, version, merged_into,
        (SELECT reference FROM orders WHERE orders.id = order_id) AS order_reference,
        ARRAY(SELECT documents.id FROM documents
            WHERE record_id = records.id ORDER BY created_at, documents.id) AS document_ids,
        ARRAY(SELECT archive_path FROM documents
            WHERE record_id = records.id AND archive_path IS NOT NULL
            ORDER BY created_at, documents.id) AS archive_paths
    FROM records
"""
_ORDER = """
    SELECT id, kind, reference, username, fields, state, created_at,
        (SELECT records.id FROM records WHERE order_id = orders.id LIMIT 1) AS record_id
    FROM orders
"""


async def list_documents(connection: Connection, ids: Sequence[UUID]) -> list[DocumentResource]:
    """These documents, in this order."""
    return await fetch_in_order(
        connection, DocumentResource, _DOCUMENT + " WHERE documents.id = ANY(%(ids)s)", ids
    )


async def get_document(connection: Connection, document: UUID) -> DocumentResource | None:
    return await fetch_one(
        connection, DocumentResource, _DOCUMENT + " WHERE documents.id = %(id)s", {"id": document}
    )


async def list_arrivals(connection: Connection, document: UUID) -> list[ArrivalResource]:
    return await fetch_all(
        connection,
        ArrivalResource,
        """
        SELECT id, source, message_id, part, provider, provider_message_id, sender, subject, file_name,
            received_at, arrived_at
        FROM arrivals WHERE document_id = %(id)s ORDER BY id LIMIT 200
        """,
        {"id": document},
    )


async def get_extraction(connection: Connection, document: UUID) -> ExtractionResource | None:
    """The newest extraction of a document."""
    return await fetch_one(
        connection,
        ExtractionResource,
        """
        SELECT id, kind, reader, fields, checks, created_at FROM extractions
        WHERE document_id = %(id)s ORDER BY id DESC LIMIT 1
        """,
        {"id": document},
    )


async def list_reviews(
    connection: Connection, *, undecided: bool | None, below: int | None, limit: int
) -> list[ReviewResource]:
    return await fetch_all(
        connection,
        ReviewResource,
        _REVIEW
        + """
        WHERE (%(open)s::boolean IS NULL OR (decision IS NULL) = %(open)s)
            AND (%(below)s::bigint IS NULL OR id < %(below)s)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"open": undecided, "below": below, "limit": limit},
    )


async def get_review(connection: Connection, review: int) -> ReviewResource | None:
    return await fetch_one(connection, ReviewResource, _REVIEW + " WHERE id = %(id)s", {"id": review})


async def list_records(connection: Connection, ids: Sequence[UUID]) -> list[RecordResource]:
    """These records, in this order."""
    return await fetch_in_order(connection, RecordResource, _RECORD + " WHERE id = ANY(%(ids)s)", ids)


async def get_record(connection: Connection, record: UUID) -> RecordResource | None:
    return await fetch_one(connection, RecordResource, _RECORD + " WHERE id = %(id)s", {"id": record})


async def list_record_versions(connection: Connection, record: UUID) -> list[RecordVersionResource]:
    return [
        RecordVersionResource(**asdict(version))
        for version in await record_versions.list_versions(connection, record)
    ]


async def list_orders(connection: Connection, ids: Sequence[UUID]) -> list[OrderResource]:
    """These orders, in this order."""
    return await fetch_in_order(connection, OrderResource, _ORDER + " WHERE id = ANY(%(ids)s)", ids)


async def get_order(connection: Connection, order: UUID) -> OrderResource | None:
    return await fetch_one(connection, OrderResource, _ORDER + " WHERE id = %(id)s", {"id": order})
