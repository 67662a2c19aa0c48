"""The table `unannounced_messages`: new messages that a sync found and no push had announced.

A push that comes in time empties it for its mailbox; `flow.mailboxes.push_silence` decides about that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from postroom.model import MailboxId
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class UnannouncedMessage:
    key: str
    received_at: datetime  # by the provider's clock
    found_at: datetime


async def add(connection: Connection, mailbox: MailboxId, found: Mapping[str, datetime | None]) -> None:
    """Add messages, and delete those of earlier days. Without a time of receipt, it was received now."""
    await connection.execute(
        """
        DELETE FROM unannounced_messages
        WHERE mailbox_id = %s AND found_at < postroom_now() - interval '1 day'
        """,
        [mailbox],
    )
    await connection.execute(
        """
        INSERT INTO unannounced_messages (organization_id, mailbox_id, provider_message_id, received_at)
        SELECT current_organization(), %s, key, coalesce(received_at, postroom_now())
        FROM unnest(%s::text[], %s::timestamptz[]) AS found (key, received_at)
        ON CONFLICT DO NOTHING
        """,
        [mailbox, list(found), list(found.values())],
    )


async def list_recent(connection: Connection, mailbox: MailboxId) -> Sequence[UnannouncedMessage]:
    """Messages that were found in the last day."""
    cursor = connection.cursor(row_factory=class_row(UnannouncedMessage))
    await cursor.execute(
        """
        SELECT provider_message_id AS key, received_at, found_at FROM unannounced_messages
        WHERE mailbox_id = %s AND found_at >= postroom_now() - interval '1 day'
        """,
        [mailbox],
    )
    return await cursor.fetchall()


async def delete_all(connection: Connection, mailbox: MailboxId) -> None:
    await connection.execute("DELETE FROM unannounced_messages WHERE mailbox_id = %s", [mailbox])
