"""Removing mail for good (K7): rows with all that hangs on them, and what the ledger knows of people.

Entries of the ledger stay; their personal side rows go, so a verification says purged, not broken. Bytes
follow when the collection finds that nothing refers to them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from postroom.model import ContentPolicy, MailboxId
from postroom.store import threads
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class AddressOccurrences:
    """Where somebody's address stands."""

    messages: int  # sent by them
    received: int  # sent by others, to them
    arrivals: int  # of documents that they sent
    ledger: int  # entries whose personal values name them


async def delete_messages(connection: Connection, ids: Sequence[int]) -> int:
    """Remove these messages with their content, attachments and events; how many there were."""
    if not ids:
        return 0
    await _block_syncs(connection, ids)
    await connection.execute(
        """
        DELETE FROM ledger_personal USING ledger, (
            SELECT 'message' AS type, id::text AS id FROM unnest(%(ids)b::int8[]) AS id
            UNION ALL
            SELECT 'attachment', message_id || '/' || part FROM attachments
            WHERE message_id = ANY(%(ids)b::int8[])
        ) AS told
        WHERE ledger.id = entry_id AND entity_type = told.type AND entity_id = told.id
        """,
        {"ids": list(ids)},
    )
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
    gone = [row[0] for row in await cursor.fetchall()]
    await _refresh_threads(connection, set(gone))
    return len(gone)


async def _block_syncs(connection: Connection, ids: Sequence[int]) -> None:
    """A sync commits before, or after: what it read of its mailbox's messages holds until it has written."""
    await connection.execute(
        """
        SELECT FROM work WHERE kind = 'sync'
            AND subject IN (SELECT mailbox_id::text FROM messages WHERE id = ANY(%b::int8[]))
        ORDER BY subject COLLATE "C" FOR UPDATE
        """,
        [list(ids)],
    )


async def _refresh_threads(connection: Connection, touched: set[int]) -> None:
    """A thread of which nothing is left goes; the others are summed up anew."""
    await connection.execute(
        """
        DELETE FROM threads WHERE id = ANY(%b::int8[])
            AND NOT EXISTS (SELECT FROM messages WHERE thread_id = threads.id)
        """,
        [sorted(touched)],
    )
    await threads.sum_threads(connection, touched)


async def erase_people_of_mailbox(connection: Connection, mailbox: MailboxId) -> None:
    """What ledger and documents tell of people through the mail of one mailbox, before that mail goes."""
    await connection.execute(
        """
        DELETE FROM ledger_personal USING ledger, (
            SELECT 'message' AS type, id::text AS id FROM messages WHERE mailbox_id = %(mailbox)s
            UNION ALL
            SELECT 'attachment', message_id || '/' || part
            FROM attachments JOIN messages ON messages.id = message_id WHERE mailbox_id = %(mailbox)s
        ) AS told
        WHERE ledger.id = entry_id AND entity_type = told.type AND entity_id = told.id
        """,
        {"mailbox": mailbox},
    )
    await connection.execute(
        """
        UPDATE arrivals SET sender = NULL, subject = NULL, file_name = NULL
        FROM messages WHERE messages.id = message_id AND mailbox_id = %s
        """,
        [mailbox],
    )


async def list_old_messages(
    connection: Connection, policy: ContentPolicy, *, days: float, limit: int
) -> list[int]:
    """Those of mailboxes with this policy that were received longer ago."""
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
    """Those that left their mailbox longer ago."""
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
    """Of entries of the ledger that are older."""
    cursor = await connection.execute(
        """
        DELETE FROM ledger_personal WHERE entry_id IN (
            SELECT entry_id FROM ledger_personal JOIN ledger ON ledger.id = entry_id
            WHERE occurred_at < postroom_now() - %s * interval '1 day' ORDER BY entry_id LIMIT %s)
        """,
        [days, limit],
    )
    return cursor.rowcount


async def delete_resolved_failures(connection: Connection, *, days: float, limit: int) -> int:
    """Those that were resolved longer ago."""
    cursor = await connection.execute(
        """
        DELETE FROM failures WHERE id IN (
            SELECT id FROM failures WHERE resolved_at < postroom_now() - %s * interval '1 day'
            ORDER BY id LIMIT %s)
        """,
        [days, limit],
    )
    return cursor.rowcount


def _address_pattern(address: str) -> str:
    """A pattern for the address in a text, and not for a longer one of which it is a part."""
    return rf"(?<![[:alnum:]._%+-]){re.escape(address.lower())}(?![[:alnum:]-]|\.[[:alnum:]])"


async def count_occurrences(connection: Connection, address: str) -> AddressOccurrences:
    """Where an address stands, however it is capitalised."""
    cursor = await connection.execute(
        """
        SELECT (SELECT count(*) FROM messages WHERE lower(from_address) = %(address)s),
            (SELECT count(*) FROM messages
             WHERE lower(from_address) IS DISTINCT FROM %(address)s AND EXISTS (
                SELECT FROM jsonb_array_elements(to_recipients || cc_recipients || bcc_recipients) AS person
                WHERE lower(person ->> 'address') = %(address)s)),
            (SELECT count(*) FROM arrivals WHERE lower(sender) = %(address)s),
            (SELECT count(*) FROM ledger_personal
             WHERE lower(personal::text) ~ %(named)s)
        """,
        {"address": address.lower(), "named": _address_pattern(address)},
    )
    row = await cursor.fetchone()
    assert row is not None, "counts have a row"
    return AddressOccurrences(*row)


async def list_sent_by(connection: Connection, address: str, *, limit: int) -> list[int]:
    cursor = await connection.execute(
        "SELECT id FROM messages WHERE lower(from_address) = %s ORDER BY id LIMIT %s",
        [address.lower(), limit],
    )
    return [row[0] for row in await cursor.fetchall()]


async def erase_sender(connection: Connection, address: str) -> None:
    """Forget who sent documents and taught corrections, and the personal values of entries that name them."""
    wanted = {"address": address.lower(), "named": _address_pattern(address)}
    await connection.execute(
        """
        UPDATE arrivals SET sender = NULL, subject = NULL, file_name = NULL
        WHERE lower(sender) = %(address)s
        """,
        wanted,
    )
    await connection.execute("UPDATE corrections SET sender = NULL WHERE lower(sender) = %(address)s", wanted)
    await connection.execute("DELETE FROM ledger_personal WHERE lower(personal::text) ~ %(named)s", wanted)
