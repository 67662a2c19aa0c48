"""The table `idempotency_keys`: for a day, the responses to API writes that clients may repeat."""

from dataclasses import dataclass
from typing import Final

from postroom.store.database import Connection

KEPT_HOURS: Final = 24
# A request without a response after this long was cut off. Its outcome is unknown.
ABANDONED_AFTER_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """An earlier request with the same key. Without a status it is running or was cut off."""

    request_sha256: bytes
    status: int | None
    body: bytes | None
    is_abandoned: bool


async def begin(
    connection: Connection, actor: str, key: str, request_sha256: bytes
) -> IdempotentRequest | None:
    """Reserve the key and return None, or return the earlier request that used it."""
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
    return (
        IdempotentRequest(*row) if row else IdempotentRequest(request_sha256, None, None, is_abandoned=False)
    )


async def store_response(connection: Connection, actor: str, key: str, status: int, body: bytes) -> None:
    await connection.execute(
        "UPDATE idempotency_keys SET status = %s, body = %s WHERE actor_id = %s AND key = %s",
        [status, body, actor, key],
    )


async def release(connection: Connection, actor: str, key: str) -> None:
    """Release the key of a request that had no effect, so that it can be repeated."""
    await connection.execute(
        "DELETE FROM idempotency_keys WHERE actor_id = %s AND key = %s AND status IS NULL", [actor, key]
    )
