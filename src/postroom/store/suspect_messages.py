"""The table `suspect_messages`: messages over which a worker may have crashed or stalled.

A sync that may crash its worker handles messages one by one and records each before it touches it. A lease
that is lost then names the message. The next run counts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from postroom.model import MailboxId
from postroom.store.database import Connection
from postroom.store.work import Lease

PARKED_LOST_LEASES = 2  # from then on a message is parked


@dataclass(frozen=True, slots=True)
class SuspectMessage:
    """`is_parked`: not fetched until its open failure is due, or retried by a person."""

    key: str
    is_parked: bool


async def list_all(connection: Connection, mailbox: MailboxId) -> list[SuspectMessage]:
    cursor = await connection.execute(
        """
        SELECT provider_message_id, lost_leases >= %s AND EXISTS (
            SELECT FROM failures
            WHERE failures.mailbox_id = suspect_messages.mailbox_id AND kind = 'message'
                AND subject = provider_message_id AND resolved_at IS NULL
                AND (due_at IS NULL OR due_at > postroom_now()))
        FROM suspect_messages WHERE mailbox_id = %s
        """,
        [PARKED_LOST_LEASES, mailbox],
    )
    return [SuspectMessage(*row) for row in await cursor.fetchall()]


async def list_parked(connection: Connection, mailbox: MailboxId) -> set[str]:
    return {each.key for each in await list_all(connection, mailbox) if each.is_parked}


async def start(connection: Connection, mailbox: MailboxId, lease: Lease, key: str) -> None:
    """Record that this lease handles a message now. The one before it is handled and no longer a suspect."""
    await finish(connection, mailbox)
    await connection.execute(
        """
        INSERT INTO suspect_messages (organization_id, mailbox_id, provider_message_id, work_lost_leases)
        SELECT current_organization(), %s, %s, lost_leases FROM work WHERE id = %s
        ON CONFLICT (organization_id, mailbox_id, provider_message_id)
            DO UPDATE SET work_lost_leases = excluded.work_lost_leases
        """,
        [mailbox, key, lease.id],
    )


async def finish(connection: Connection, mailbox: MailboxId) -> None:
    """Record that the message being handled is handled."""
    await connection.execute(
        "DELETE FROM suspect_messages WHERE mailbox_id = %s AND work_lost_leases IS NOT NULL", [mailbox]
    )


async def count_lost_leases(connection: Connection, mailbox: MailboxId, lease: Lease) -> Mapping[str, int]:
    """Count the lost lease of a message that an earlier run was handling.

    Return the keys to park, and how often each was parked before.

    A run that ended otherwise, with an error or because its worker stopped, lost no lease.
    """
    cursor = await connection.execute(
        """
        UPDATE suspect_messages SET lost_leases = lost_leases + 1, work_lost_leases = NULL
        WHERE mailbox_id = %s AND work_lost_leases < %s RETURNING provider_message_id, lost_leases
        """,
        [mailbox, lease.lost_leases],
    )
    counted = await cursor.fetchall()
    await connection.execute(
        "UPDATE suspect_messages SET work_lost_leases = NULL WHERE mailbox_id = %s", [mailbox]
    )
    await connection.execute(
        "DELETE FROM suspect_messages WHERE mailbox_id = %s AND lost_leases = 0", [mailbox]
    )
    return {key: lost - PARKED_LOST_LEASES for key, lost in counted if lost >= PARKED_LOST_LEASES}
