"""Deletion of mail and personal data: the statements of retention and of purges on request.

Ledger entries stay, but their personal values are deleted, so a verification reports them as purged, not as
broken. Garbage collection removes the bytes once nothing refers to them. Batches and order are decided in
`flow`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg import AsyncCursor, sql
from psycopg.rows import TupleRow

from postroom.model import ContentPolicy, MailboxId
from postroom.store import ledger, threads
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class AddressOccurrences:
    """How often an address occurs."""

    messages: int  # sent from it
    received: int  # sent to it by others
    arrivals: int  # of documents sent from it
    ledger: int  # entries whose personal values contain it
    archived: int  # documents whose archive path contains it


@dataclass(frozen=True, slots=True)
class AddressSearch:
    """An address to find: its spellings in lower case, and patterns for its encodings."""

    spellings: Sequence[str]
    pattern: str
    base64_pattern: str


async def delete_messages(connection: Connection, ids: Sequence[int]) -> int:
    """Delete messages with their content, attachments and events, and return how many."""
    if not ids:
        return 0
    await _block_syncs(connection, ids)
    cursor = await connection.execute(
        """
        SELECT ledger.id FROM ledger JOIN (
            SELECT 'message' AS type, id::text AS id FROM unnest(%(ids)b::int8[]) AS id
            UNION ALL
            SELECT 'attachment', message_id || '/' || part FROM attachments
            WHERE message_id = ANY(%(ids)b::int8[])
        ) AS purged ON entity_type = purged.type AND entity_id = purged.id
        """,
        {"ids": list(ids)},
    )
    await _purge_found(connection, cursor)
    await connection.execute(
        """
        UPDATE arrivals SET sender = NULL, subject = NULL, file_name = NULL
        WHERE message_id = ANY(%b::int8[])
        """,
        [list(ids)],
    )
    cursor = await connection.execute(
        "DELETE FROM messages WHERE id = ANY(%b::int8[]) RETURNING thread_id", [list(ids)]
    )
    thread_ids = [row[0] for row in await cursor.fetchall()]
    await _refresh_threads(connection, set(thread_ids))
    return len(thread_ids)


async def _block_syncs(connection: Connection, ids: Sequence[int]) -> None:
    """Block the syncs of these messages' mailboxes, so that the rows they have read do not change."""
    await connection.execute(
        """
        SELECT FROM work WHERE kind = 'sync'
            AND subject IN (SELECT mailbox_id::text FROM messages WHERE id = ANY(%b::int8[]))
        ORDER BY subject COLLATE "C" FOR UPDATE
        """,
        [list(ids)],
    )


async def _refresh_threads(connection: Connection, touched: set[int]) -> None:
    """Delete empty threads and recompute the totals of the others."""
    await connection.execute(
        """
        DELETE FROM threads WHERE id = ANY(%b::int8[])
            AND NOT EXISTS (SELECT FROM messages WHERE thread_id = threads.id)
        """,
        [sorted(touched)],
    )
    await threads.sum_threads(connection, touched)


async def erase_people_of_mailbox(connection: Connection, mailbox: MailboxId) -> None:
    """Erase people from the ledger and arrivals who appear there through one mailbox's mail."""
    cursor = await connection.execute(
        """
        SELECT ledger.id FROM ledger JOIN (
            SELECT 'message' AS type, id::text AS id FROM messages WHERE mailbox_id = %(mailbox)s
            UNION ALL
            SELECT 'attachment', message_id || '/' || part
            FROM attachments JOIN messages ON messages.id = message_id WHERE mailbox_id = %(mailbox)s
        ) AS purged ON entity_type = purged.type AND entity_id = purged.id
        """,
        {"mailbox": mailbox},
    )
    await _purge_found(connection, cursor)
    await connection.execute(
        """
        UPDATE arrivals SET sender = NULL, subject = NULL, file_name = NULL
        FROM messages WHERE messages.id = message_id AND mailbox_id = %s
        """,
        [mailbox],
    )


async def _purge_found(connection: Connection, found: AsyncCursor[TupleRow]) -> int:
    """Purge the personal values of the ledger entries whose ids a query returned; how many had some."""
    return await ledger.purge_entries(connection, [row[0] for row in await found.fetchall()])


async def list_old_messages(
    connection: Connection, policy: ContentPolicy, *, days: float, limit: int
) -> list[int]:
    """Messages of mailboxes with this policy that were received more than `days` ago."""
    cursor = await connection.execute(
        """
        SELECT messages.id FROM messages JOIN mailboxes ON mailboxes.id = mailbox_id
        WHERE content_policy = %s AND received_at < postroom_now() - %s * interval '1 day'
        ORDER BY messages.id LIMIT %s
        """,
        [policy, days, limit],
    )
    return [row[0] for row in await cursor.fetchall()]


async def list_deleted_messages(connection: Connection, *, days: float, limit: int) -> list[int]:
    """Messages that were deleted more than `days` ago."""
    cursor = await connection.execute(
        """
        SELECT id FROM messages WHERE deleted_at < postroom_now() - %s * interval '1 day'
        ORDER BY id LIMIT %s
        """,
        [days, limit],
    )
    return [row[0] for row in await cursor.fetchall()]


async def delete_old_mail_events(connection: Connection, *, days: float, limit: int) -> int:
    cursor = await connection.execute(
        """
        DELETE FROM mail_events WHERE id IN (
            SELECT id FROM mail_events WHERE observed_at < postroom_now() - %s * interval '1 day'
            ORDER BY id LIMIT %s)
        """,
        [days, limit],
    )
    return cursor.rowcount


async def delete_old_personal_values(connection: Connection, *, days: float, limit: int) -> int:
    """Delete the personal values of ledger entries older than `days`, and return how many."""
    cursor = await connection.execute(
        """
        SELECT entry_id FROM ledger_personal JOIN ledger ON ledger.id = entry_id
        WHERE occurred_at < postroom_now() - %s * interval '1 day' ORDER BY entry_id LIMIT %s
        """,
        [days, limit],
    )
    return await _purge_found(connection, cursor)


async def delete_resolved_failures(connection: Connection, *, days: float, limit: int) -> int:
    """Delete failures that were resolved more than `days` ago, and return how many."""
    cursor = await connection.execute(
        """
        DELETE FROM failures WHERE id IN (
            SELECT id FROM failures WHERE resolved_at < postroom_now() - %s * interval '1 day'
            ORDER BY id LIMIT %s)
        """,
        [days, limit],
    )
    return cursor.rowcount


async def count_occurrences(connection: Connection, wanted: AddressSearch) -> AddressOccurrences:
    """Count what a purge removes of an address, and the mail from others that it keeps."""
    cursor = await connection.execute(
        """
        SELECT (SELECT count(*) FROM messages WHERE lower(from_address) = ANY(%(spellings)s)),
            (SELECT count(*) FROM messages
             WHERE lower(from_address) = ANY(%(spellings)s) IS NOT TRUE AND EXISTS (
                SELECT FROM jsonb_array_elements(to_recipients || cc_recipients || bcc_recipients) AS person
                WHERE lower(person ->> 'address') = ANY(%(spellings)s))),
            (SELECT count(*) FROM arrivals WHERE lower(sender) = ANY(%(spellings)s)),
            (SELECT count(*) FROM ledger_personal WHERE personal::text ~ %(pattern)s),
            (SELECT count(*) FROM documents WHERE archive_path ~ %(pattern)s)
        """,
        _parameters(wanted),
    )
    row = await cursor.fetchone()
    assert row is not None, "counts have a row"
    return AddressOccurrences(*row)


async def list_sent_by(connection: Connection, wanted: AddressSearch, *, limit: int) -> list[int]:
    cursor = await connection.execute(
        "SELECT id FROM messages WHERE lower(from_address) = ANY(%s) ORDER BY id LIMIT %s",
        [list(wanted.spellings), limit],
    )
    return [row[0] for row in await cursor.fetchall()]


async def erase_sender(connection: Connection, wanted: AddressSearch) -> None:
    """Erase a sender from arrivals, corrections and the personal values of ledger entries."""
    parameters = _parameters(wanted)
    await connection.execute(
        """
        UPDATE arrivals SET sender = NULL, subject = NULL, file_name = NULL
        WHERE lower(sender) = ANY(%(spellings)s)
        """,
        parameters,
    )
    await connection.execute(
        "UPDATE corrections SET sender = NULL WHERE lower(sender) = ANY(%(spellings)s)", parameters
    )
    cursor = await connection.execute(
        "SELECT entry_id FROM ledger_personal WHERE personal::text ~ %(pattern)s", parameters
    )
    await _purge_found(connection, cursor)


async def mark_archive_paths(connection: Connection, wanted: AddressSearch) -> list[UUID]:
    """Mark the documents whose archive path contains an address, so that their copies move."""
    cursor = await connection.execute(
        """
        UPDATE documents SET archive_outdated_at = postroom_now()
        WHERE archive_path ~ %(pattern)s
            OR id IN (SELECT document_id FROM archive_copies WHERE path ~ %(pattern)s)
        RETURNING id
        """,
        _parameters(wanted),
    )
    return [row[0] for row in await cursor.fetchall()]


async def mark_archive_paths_of_mailbox(connection: Connection, mailbox: MailboxId) -> list[UUID]:
    """Mark the archived documents that came through one mailbox, so that their copies move."""
    cursor = await connection.execute(
        """
        UPDATE documents SET archive_outdated_at = postroom_now()
        WHERE (archive_path IS NOT NULL OR id IN (SELECT document_id FROM archive_copies)) AND id IN (
            SELECT document_id FROM arrivals JOIN messages ON messages.id = message_id
            WHERE mailbox_id = %s)
        RETURNING id
        """,
        [mailbox],
    )
    return [row[0] for row in await cursor.fetchall()]


async def list_searchable_tables(connection: Connection) -> list[str]:
    """The tables with rows of the organization, all of which may contain an address."""
    cursor = await connection.execute(
        """
        SELECT relname FROM pg_class WHERE relnamespace = 'postroom'::regnamespace AND relkind = 'r'
            AND relrowsecurity AND has_table_privilege(oid, 'SELECT') ORDER BY relname
        """
    )
    return [row[0] for row in await cursor.fetchall()]


async def count_rows_with(connection: Connection, table: str, wanted: AddressSearch) -> int:
    """Count the rows of a table that contain an address in any column and encoding."""
    statement = sql.SQL(
        "SELECT count(*) FROM {} AS stored WHERE stored::text ~ %(pattern)s OR stored::text ~ %(base64)s"
    ).format(sql.Identifier("postroom", table))
    cursor = await connection.execute(statement, {"pattern": wanted.pattern, "base64": wanted.base64_pattern})
    row = await cursor.fetchone()
    return row[0] if row else 0


def _parameters(wanted: AddressSearch) -> dict[str, object]:
    return {"spellings": list(wanted.spellings), "pattern": wanted.pattern}
