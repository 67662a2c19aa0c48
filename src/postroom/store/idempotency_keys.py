"""The table `idempotency_keys`: answers of writes that may be asked for again, for a day."""

from dataclasses import dataclass
from typing import Final

from postroom.store.database import Connection

KEPT_HOURS: Final = 24
# A request that left no answer after this long never will; whether it was done, nobody knows.
ABANDONED_AFTER_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """A key that came before. Without a status its first request is under way, or was cut off."""

    request_sha256: bytes
    status: int | None
    body: bytes | None
    cut_off: bool


async def begin(
    connection: Connection, actor: str, key: str, request_sha256: bytes
) -> IdempotentRequest | None:
    """None where the key is new, and taken from now on."""
    await connection.execute(
        "DELETE FROM idempotency_keys WHERE created_at < postroom_now() - %s * interval '1 hour'",
        [KEPT_HOURS],
    )
    cursor = await connection.execute(
        """
        INSERT INTO idempotency_keys (organization_id, actor_id, key, request_sha256)
        VALUES (current_organization(), %s, %s, %s) ON CONFLICT DO NOTHING RETURNING 1
        """,
        [actor, key, request_sha256],
    )
    if await cursor.fetchone() is not None:
        return None
    cursor = await connection.execute(
        """
        SELECT request_sha256, status, body,
            status IS NULL AND created_at < postroom_now() - %s * interval '1 second'
        FROM idempotency_keys WHERE actor_id = %s AND key = %s
        """,
        [ABANDONED_AFTER_SECONDS, actor, key],
    )
    row = await cursor.fetchone()
    return IdempotentRequest(*row) if row else IdempotentRequest(request_sha256, None, None, cut_off=False)


async def store_response(connection: Connection, actor: str, key: str, status: int, body: bytes) -> None:
    await connection.execute(
        "UPDATE idempotency_keys SET status = %s, body = %s WHERE actor_id = %s AND key = %s",
        [status, body, actor, key],
    )


async def release(connection: Connection, actor: str, key: str) -> None:
    """What was begun came to nothing and may be tried again."""
    await connection.execute(
        "DELETE FROM idempotency_keys WHERE actor_id = %s AND key = %s AND status IS NULL", [actor, key]
    )
