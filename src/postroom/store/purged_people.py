"""The table `forgotten_people`: whose mail from before a moment is not stored again (K7). It names nobody."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from postroom.store.database import Connection


class ReceivedMessage(NamedTuple):
    """One message: its key, who sent it, and when it came."""

    key: str
    address: str
    received_at: datetime | None


async def add(connection: Connection, address: str) -> None:
    """From now on. Who is known already is forgotten anew."""
    known = await connection.execute(
        """
        UPDATE forgotten_people SET forgotten_at = postroom_now()
        WHERE address_sha256 = sha256(salt || convert_to(%s, 'UTF8'))
        """,
        [address.lower()],
    )
    if known.rowcount:
        return
    await connection.execute(
        """
        INSERT INTO forgotten_people (organization_id, address_sha256, salt)
        SELECT current_organization(), sha256(salt || convert_to(%s, 'UTF8')), salt
        FROM uuid_send(gen_random_uuid()) AS salt
        """,
        [address.lower()],
    )


async def has_any(connection: Connection) -> bool:
    cursor = await connection.execute("SELECT EXISTS (SELECT FROM forgotten_people)")
    return await cursor.fetchone() == (True,)


async def find_blocked_messages(connection: Connection, mail: Sequence[ReceivedMessage]) -> set[str]:
    """The keys of what must not be stored: sent by them, and not known to have come since."""
    cursor = await connection.execute(
        """
        SELECT key FROM unnest(%b::text[], %b::text[], %b::timestamptz[]) AS given (key, address, received_at)
        WHERE EXISTS (
            SELECT FROM forgotten_people
            WHERE address_sha256 = sha256(salt || convert_to(address, 'UTF8'))
                AND (received_at IS NULL OR received_at < forgotten_at)
        )
        """,
        [
            [each.key for each in mail],
            [each.address.lower() for each in mail],
            [each.received_at for each in mail],
        ],
    )
    return {row[0] for row in await cursor.fetchall()}
