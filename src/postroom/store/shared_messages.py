"""Our side of messages with shared state: the table `foreign_message_ids`, and their documents.

The table that the other scheduler shares with us is in `shared_state`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from postroom.model import MailboxId
from postroom.store.database import Connection
from postroom.store.shared_state import SharedMessageDetails


@dataclass(frozen=True, slots=True)
class SharedMessage:
    """A message in a pipeline with shared state. `foreign_id` is None until the provider was asked."""

    id: int
    mailbox: MailboxId
    provider_message_id: str
    foreign_id: str | None
    details: SharedMessageDetails


@dataclass(frozen=True, slots=True)
class SharedMessageProgress:
    """Progress of a message's documents in a pipeline. `pending`: some are not finished or not unpacked."""

    documents: int
    pending: bool
    records: int
    archive_paths: Sequence[str]
    error: str | None


async def list_by_ids(connection: Connection, pipeline: str, messages: Sequence[int]) -> list[SharedMessage]:
    cursor = await connection.execute(
        """
        SELECT messages.id, mailbox_id, provider_message_id, foreign_id, address, from_address, received_at,
            subject
        FROM messages
        JOIN mailboxes ON mailboxes.organization_id = messages.organization_id AND mailboxes.id = mailbox_id
        LEFT JOIN foreign_message_ids ON foreign_message_ids.message_id = messages.id AND pipeline = %s
        WHERE messages.id = ANY(%s) ORDER BY messages.id
        """,
        [pipeline, list(messages)],
    )
    return [
        SharedMessage(id_, mailbox, provider_id, foreign_id, SharedMessageDetails(*details))
        for id_, mailbox, provider_id, foreign_id, *details in await cursor.fetchall()
    ]


async def store_foreign_id(connection: Connection, pipeline: str, message: int, foreign_id: str) -> None:
    await connection.execute(
        """
        INSERT INTO foreign_message_ids (organization_id, pipeline, message_id, foreign_id)
        VALUES (current_organization(), %s, %s, %s)
        """,
        [pipeline, message, foreign_id],
    )


async def get_progress(
    connection: Connection, pipeline: str, message: int, *, archives: bool
) -> SharedMessageProgress:
    """The progress of a message. With `archives`, a completed document must be archived, too.

    A document that belongs to another pipeline counts as an attachment that led to nothing here.
    """
    cursor = await connection.execute(
        """
        SELECT count(*),
            coalesce(bool_or(state IN ('queued', 'processing')
                OR (%(archives)s AND state = 'completed' AND archived_at IS NULL
                    AND pipeline = %(pipeline)s)), false)
                OR EXISTS (SELECT FROM work WHERE kind = 'unpack' AND state <> 'parked'
                    AND starts_with(subject, %(message)s || '/')),
            count(DISTINCT record_id) FILTER (WHERE pipeline = %(pipeline)s),
            coalesce(array_agg(archive_path ORDER BY archive_path)
                FILTER (WHERE archive_path IS NOT NULL AND pipeline = %(pipeline)s), '{}'),
            min(last_error) FILTER (WHERE state = 'failed')
        FROM documents
        WHERE %(pipeline)s IN (SELECT unnest(pipelines || pipeline))
            AND id IN (SELECT document_id FROM arrivals WHERE message_id = %(message)s::int8)
        """,
        {"pipeline": pipeline, "message": str(message), "archives": archives},
    )
    [row] = await cursor.fetchall()
    return SharedMessageProgress(*row)


async def list_queued_documents(connection: Connection, pipeline: str, message: int) -> list[str]:
    """Ids of the message's queued documents."""
    cursor = await connection.execute(
        """
        SELECT DISTINCT id::text FROM documents WHERE %s = ANY(pipelines) AND state = 'queued'
            AND id IN (SELECT document_id FROM arrivals WHERE message_id = %s)
        """,
        [pipeline, message],
    )
    return [row[0] for row in await cursor.fetchall()]


async def list_work_subjects(connection: Connection, document: UUID) -> list[str]:
    """Subjects of the `share_state` work of every message that brought the document."""
    cursor = await connection.execute(
        """
        SELECT DISTINCT accepting || '/' || message_id
        FROM arrivals JOIN documents ON documents.id = document_id
        CROSS JOIN unnest(pipelines) AS accepting
        WHERE document_id = %s AND message_id IS NOT NULL
        """,
        [document],
    )
    return [row[0] for row in await cursor.fetchall()]
