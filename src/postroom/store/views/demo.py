"""Queries of the demo page: the ids of all messages, which it compares with the simulator's."""

from postroom.model import MailboxId
from postroom.store.database import Connection


async def list_message_ids(connection: Connection, mailbox: MailboxId) -> list[tuple[str, str]]:
    """Provider id and Internet message id of each message that is not deleted."""
    cursor = await connection.execute(
        """
        SELECT provider_message_id, coalesce(internet_message_id, '') FROM messages
        WHERE mailbox_id = %s AND deleted_at IS NULL
        """,
        [mailbox],
    )
    return await cursor.fetchall()
