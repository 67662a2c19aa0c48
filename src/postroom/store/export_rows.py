"""Queries of the export: messages, mail events, documents and records, as rows for Parquet files. Read only.

Each reads a page in the order of its ids: of everything stored, or of the given ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import dict_row

from postroom.store.database import Connection

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChangedEntities:
    """What the events of a range of positions name. `revisions` are pairs of a message and a revision."""

    messages: Sequence[int]
    revisions: Sequence[tuple[int, int]]
    documents: Sequence[UUID]
    records: Sequence[UUID]


@dataclass(frozen=True, slots=True)
class ExportPage:
    """Which rows to read: those of `changed`, or all of them; up to a position, after an id."""

    changed: ChangedEntities | None
    position: int
    after: Any
    limit: int


async def list_messages(connection: Connection, page: ExportPage) -> list[Row]:
    return await _fetch(
        connection,
        """
        SELECT messages.id, messages.mailbox_id::text, mailboxes.address AS mailbox, provider, thread_id,
            folder_id, folders.name AS folder, provider_message_id, internet_message_id, from_name,
            from_address, to_recipients, cc_recipients, bcc_recipients, subject, sent_at, received_at, size,
            labels, categories, importance, is_read, is_flagged, is_draft, is_newsletter, is_automated,
            has_attachments, revision, messages.created_at, messages.updated_at, messages.deleted_at, left_at
        FROM messages
        JOIN mailboxes ON mailboxes.id = messages.mailbox_id
        LEFT JOIN folders ON folders.id = folder_id
        WHERE (%(ids)s::bigint[] IS NULL OR messages.id = ANY(%(ids)s))
            AND (%(after)s::bigint IS NULL OR messages.id > %(after)s)
        ORDER BY messages.id LIMIT %(limit)s
        """,
        page,
        {"ids": page.changed and list(page.changed.messages)},
    )


_MAIL_EVENT = """
    SELECT mail_events.id, mailbox_id::text, message_id, mail_events.revision, kind, from_folder_id,
        to_folder_id, labels_added, labels_removed, changed::text, observed_at
    FROM mail_events
"""


async def list_mail_events(connection: Connection, page: ExportPage) -> list[Row]:
    """Mail events. Without ids, all that the feed announced up to the position: later ones follow."""
    if page.changed is None:
        return await _fetch(
            connection,
            """
            WITH later AS MATERIALIZED (
                SELECT entity_id::bigint AS message_id, (data->>'revision')::integer AS revision FROM events
                WHERE entity_type = 'message' AND (position > %(position)s OR position IS NULL)
            )
            """  # noqa: S608  # of literals
            + _MAIL_EVENT
            + """
            WHERE (%(after)s::bigint IS NULL OR mail_events.id > %(after)s)
                AND NOT EXISTS (SELECT FROM later
                    WHERE later.message_id = mail_events.message_id AND later.revision = mail_events.revision)
            ORDER BY mail_events.id LIMIT %(limit)s
            """,
            page,
            {"position": page.position},
        )
    return await _fetch(
        connection,
        _MAIL_EVENT
        + """
        JOIN unnest(%(messages)s::bigint[], %(revisions)s::integer[]) AS wanted (message_id, revision)
            USING (message_id, revision)
        WHERE %(after)s::bigint IS NULL OR mail_events.id > %(after)s
        ORDER BY mail_events.id LIMIT %(limit)s
        """,
        page,
        {
            "messages": [message for message, _ in page.changed.revisions],
            "revisions": [revision for _, revision in page.changed.revisions],
        },
    )


async def list_documents(connection: Connection, page: ExportPage) -> list[Row]:
    """Documents with their first arrival. A change of a record may move its documents: they count too."""
    return await _fetch(
        connection,
        """
        SELECT documents.id::text, pipeline, kind, state, state_since, documents.media_type,
            encode(documents.sha256, 'hex') AS sha256, blobs.size, skip_reason, last_error, record_id::text,
            archive_path, archived_at, created_at, part_of::text, part_pages, source, message_id, part,
            sender, subject, file_name, received_at
        FROM documents
        JOIN blobs USING (organization_id, sha256)
        LEFT JOIN LATERAL (
            SELECT source, message_id, part, sender, subject, file_name, received_at FROM arrivals
            WHERE document_id = documents.id ORDER BY arrivals.id LIMIT 1
        ) AS arrival ON true
        WHERE (%(ids)s::uuid[] IS NULL OR documents.id = ANY(%(ids)s) OR record_id = ANY(%(records)s::uuid[]))
            AND (%(after)s::uuid IS NULL OR documents.id > %(after)s)
        ORDER BY documents.id LIMIT %(limit)s
        """,
        page,
        {
            "ids": page.changed and list(page.changed.documents),
            "records": page.changed and list(page.changed.records),
        },
    )


async def list_records(connection: Connection, page: ExportPage) -> list[Row]:
    return await _fetch(
        connection,
        """
        SELECT records.id::text, records.kind, pipeline, key, records.state, version, merged_into::text,
            order_id::text, reference AS order_reference, confirmed_by, confirmed_at, records.fields
        FROM records LEFT JOIN orders ON orders.id = order_id
        WHERE (%(ids)s::uuid[] IS NULL OR records.id = ANY(%(ids)s))
            AND (%(after)s::uuid IS NULL OR records.id > %(after)s)
        ORDER BY records.id LIMIT %(limit)s
        """,
        page,
        {"ids": page.changed and list(page.changed.records)},
    )


async def _fetch(
    connection: Connection, statement: LiteralString, page: ExportPage, values: dict[str, object]
) -> list[Row]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        # Planned for these values: an unused condition must not hide an index.
        await cursor.execute(statement, {"after": page.after, "limit": page.limit, **values}, prepare=False)
        return await cursor.fetchall()
