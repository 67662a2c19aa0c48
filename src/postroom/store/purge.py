"""Deletion of mail and personal data: the statements of retention and of purges on request.

Ledger entries stay, but their personal values are deleted, so a verification reports them as purged, not as
broken. Garbage collection removes the bytes once nothing refers to them. Batches and order are decided in
`flow`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from postroom.model import ContentPolicy, MailboxId
from postroom.store import threads
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class AddressOccurrences:
    """How often an address occurs."""

    messages: int  # sent from it
    received: int  # sent to it by others
    arrivals: int  # of documents sent from it
    ledger: int  # entries whose personal values contain it


async def delete_messages(connection: Connection, ids: Sequence[int]) -> int:
    """Delete messages with their content, attachments and events, and return how many."""
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
        ) AS purged
        WHERE ledger.id = entry_id AND entity_type = purged.type AND entity_id = purged.id
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
    await connection.execute(
        """
        DELETE FROM ledger_personal USING ledger, (
            SELECT 'message' AS type, id::text AS id FROM messages WHERE mailbox_id = %(mailbox)s
            UNION ALL
            SELECT 'attachment', message_id || '/' || part
            FROM attachments JOIN messages ON messages.id = message_id WHERE mailbox_id = %(mailbox)s
        ) AS purged
        WHERE ledger.id = entry_id AND entity_type = purged.type AND entity_id = purged.id
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
        DELETE FROM ledger_personal WHERE entry_id IN (
            SELECT entry_id FROM ledger_personal JOIN ledger ON ledger.id = entry_id
            WHERE occurred_at < postroom_now() - %s * interval '1 day' ORDER BY entry_id LIMIT %s)
        """,
        [days, limit],
    )
    return cursor.rowcount


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


def _address_pattern(address: str) -> str:
    """A pattern that matches the address but no longer address that contains it."""
    return rf"(?<![[:alnum:]._%+-]){re.escape(address.lower())}(?![[:alnum:]-]|\.[[:alnum:]])"


async def count_occurrences(connection: Connection, address: str) -> AddressOccurrences:
    """Count the occurrences of an address, ignoring case."""
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
    """Erase a sender from arrivals, corrections and the personal values of ledger entries."""
    parameters = {"address": address.lower(), "named": _address_pattern(address)}
    await connection.execute(
        """
        UPDATE arrivals SET sender = NULL, subject = NULL, file_name = NULL
        WHERE lower(sender) = %(address)s
        """,
        parameters,
    )
    await connection.execute(
        "UPDATE corrections SET sender = NULL WHERE lower(sender) = %(address)s", parameters
    )
    await connection.execute(
        "DELETE FROM ledger_personal WHERE lower(personal::text) ~ %(named)s", parameters
    )
