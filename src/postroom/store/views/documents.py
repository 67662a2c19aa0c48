"""Documents, what was read from them, reviews, records and orders, as the API shows them."""

from datetime import datetime
from uuid import UUID

from postroom.shapes import Arrival, Document, Extraction, Order, Record, Review
from postroom.store.database import Connection
from postroom.store.views import many, one

_DOCUMENT = """
    SELECT documents.id, pipeline, kind, state, state_since, media_type, encode(documents.sha256, 'hex'),
        size, skip_reason, last_error, record_id, archive_path, archived_at, created_at
    FROM documents JOIN blobs USING (organization_id, sha256)
"""
_REVIEW = "SELECT id, document_id, reason, decision, actor_id, created_at, decided_at FROM reviews"
_RECORD = "SELECT id, kind, pipeline, key, fields, order_id, confirmed_by, confirmed_at FROM records"
_ORDER = "SELECT id, kind, reference, username, fields, state, created_at FROM orders"

After = tuple[datetime, UUID] | None


async def documents(
    connection: Connection, *, state: str | None, pipeline: str | None, after: After, limit: int
) -> list[Document]:
    return await many(
        connection,
        Document,
        _DOCUMENT
        + """
        WHERE (%(state)s::text IS NULL OR state = %(state)s)
            AND (%(pipeline)s::text IS NULL OR pipeline = %(pipeline)s)
            AND (%(first)s OR (created_at, documents.id) < (%(at)s, %(id)s))
        ORDER BY created_at DESC, documents.id DESC LIMIT %(limit)s
        """,
        {"state": state, "pipeline": pipeline, **_below(after), "limit": limit},
    )


async def document(connection: Connection, document: UUID) -> Document | None:
    return await one(connection, Document, _DOCUMENT + " WHERE documents.id = %(id)s", {"id": document})


async def arrivals(connection: Connection, document: UUID) -> list[Arrival]:
    return await many(
        connection,
        Arrival,
        """
        SELECT id, source, message_id, part, provider, provider_message_id, sender, subject, file_name,
            received_at, arrived_at
        FROM arrivals WHERE document_id = %(id)s ORDER BY id LIMIT 200
        """,
        {"id": document},
    )


async def extraction(connection: Connection, document: UUID) -> Extraction | None:
    """The newest one counts."""
    return await one(
        connection,
        Extraction,
        """
        SELECT id, kind, reader, fields, checks, created_at FROM extractions
        WHERE document_id = %(id)s ORDER BY id DESC LIMIT 1
        """,
        {"id": document},
    )


async def reviews(
    connection: Connection, *, undecided: bool | None, below: int | None, limit: int
) -> list[Review]:
    return await many(
        connection,
        Review,
        _REVIEW
        + """
        WHERE (%(open)s::boolean IS NULL OR (decision IS NULL) = %(open)s)
            AND (%(below)s::bigint IS NULL OR id < %(below)s)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"open": undecided, "below": below, "limit": limit},
    )


async def review(connection: Connection, review: int) -> Review | None:
    return await one(connection, Review, _REVIEW + " WHERE id = %(id)s", {"id": review})


async def records(connection: Connection, *, kind: str | None, after: After, limit: int) -> list[Record]:
    return await many(
        connection,
        Record,
        _RECORD
        + """
        WHERE (%(kind)s::text IS NULL OR kind = %(kind)s)
            AND (%(first)s OR (confirmed_at, id) < (%(at)s, %(id)s))
        ORDER BY confirmed_at DESC, id DESC LIMIT %(limit)s
        """,
        {"kind": kind, **_below(after), "limit": limit},
    )


async def record(connection: Connection, record: UUID) -> Record | None:
    return await one(connection, Record, _RECORD + " WHERE id = %(id)s", {"id": record})


async def orders(connection: Connection, *, state: str | None, after: After, limit: int) -> list[Order]:
    return await many(
        connection,
        Order,
        _ORDER
        + """
        WHERE (%(state)s::text IS NULL OR state = %(state)s)
            AND (%(first)s OR (created_at, id) < (%(at)s, %(id)s))
        ORDER BY created_at DESC, id DESC LIMIT %(limit)s
        """,
        {"state": state, **_below(after), "limit": limit},
    )


async def order(connection: Connection, order: UUID) -> Order | None:
    return await one(connection, Order, _ORDER + " WHERE id = %(id)s", {"id": order})


def _below(after: After) -> dict[str, object]:
    return {"first": after is None, "at": after[0] if after else None, "id": after[1] if after else None}
