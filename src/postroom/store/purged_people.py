"""The table `purged_people`: salted digests of senders whose older mail must not be stored again."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from postroom.store.database import Connection


class ReceivedMessage(NamedTuple):
    """A message from the provider: its key, sender and time."""

    key: str
    address: str
    received_at: datetime | None


async def add(connection: Connection, address: str) -> None:
    """Block mail that this person sent until now. Repeating it moves the time forward."""
    updated = await connection.execute(
        """
        UPDATE purged_people SET purged_at = postroom_now()
        WHERE address_sha256 = sha256(salt || convert_to(%s, 'UTF8'))
        """,
        [address.lower()],
    )
    if updated.rowcount:
        return
    await connection.execute(
        """
        INSERT INTO purged_people (organization_id, address_sha256, salt)
        SELECT current_organization(), sha256(salt || convert_to(%s, 'UTF8')), salt
        FROM uuid_send(gen_random_uuid()) AS salt
        """,
        [address.lower()],
    )


async def has_any(connection: Connection) -> bool:
    cursor = await connection.execute("SELECT EXISTS (SELECT FROM purged_people)")
    return await cursor.fetchone() == (True,)


async def find_blocked_messages(connection: Connection, messages: Sequence[ReceivedMessage]) -> set[str]:
    """Keys of messages that must not be stored: sent by a purged person before the purge."""
    cursor = await connection.execute(
        """
        SELECT key FROM unnest(%b::text[], %b::text[], %b::timestamptz[])
            AS message (key, address, received_at)
        WHERE EXISTS (
            SELECT FROM purged_people
            WHERE address_sha256 = sha256(salt || convert_to(address, 'UTF8'))
                AND (received_at IS NULL OR received_at < purged_at)
        )
        """,
        [
            [message.key for message in messages],
            [message.address.lower() for message in messages],
            [message.received_at for message in messages],
        ],
    )
    return {row[0] for row in await cursor.fetchall()}
