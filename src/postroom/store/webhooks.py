"""The tables `webhooks` and `deliveries`: receivers, their position in the feed, what is pending.

Sending and signing are in `flow.outbound.deliver`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from psycopg.rows import class_row

from postroom.model import WebhookFormat
from postroom.ports import SealedSecret
from postroom.store.database import Connection

MAX_RETRY_DAYS: Final = 3


@dataclass(frozen=True, slots=True)
class Webhook:
    id: UUID
    url: str
    kinds: list[str]
    format: WebhookFormat
    position: int
    replays: int
    failing_since: datetime | None
    last_error: str | None
    last_delivered_at: datetime | None
    disabled_at: datetime | None
    disabled_because: str | None
    created_at: datetime
    waiting: int
    given_up: int
    failing_too_long: bool


@dataclass(frozen=True, slots=True)
class PendingDelivery:
    """A delivery that was not accepted, or that waits behind one about the same entity."""

    event_id: int
    position: int
    entity_type: str
    entity_id: str
    body: str
    attempts: int
    last_error: str | None
    too_old: bool


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """The state of a delivery after a run.

    Accepted (neither `error` nor `wait`), due again in `wait` seconds, or given up (`error` without `wait`).
    """

    event_id: int
    position: int
    entity_type: str
    entity_id: str
    body: str
    attempts: int
    error: str | None
    wait: float | None


# The 3 days are MAX_RETRY_DAYS.
_READ: Final = """
    SELECT id, url, kinds, format, position, replays, failing_since, last_error, last_delivered_at,
        disabled_at, disabled_because, created_at,
        (SELECT count(*) FROM deliveries WHERE webhook_id = webhooks.id AND due_at IS NOT NULL) AS waiting,
        (SELECT count(*) FROM deliveries WHERE webhook_id = webhooks.id AND due_at IS NULL) AS given_up,
        coalesce(failing_since < postroom_now() - 3 * interval '1 day', false) AS failing_too_long
    FROM webhooks
"""


async def add(
    connection: Connection,
    webhook: UUID,
    url: str,
    kinds: Sequence[str],
    secret: SealedSecret,
    style: WebhookFormat = WebhookFormat.STANDARD,
) -> None:
    """Add a webhook. It receives events from now on, and earlier ones only by a replay."""
    await connection.execute(
        """
        INSERT INTO webhooks (organization_id, id, url, kinds, format, key_id, sealed_secret, position)
        VALUES (current_organization(), %s, %s, %s, %s, %s, %s,
            coalesce((SELECT last_position FROM feeds), 0))
        """,
        [webhook, url, list(kinds), style, secret.key_id, secret.value],
    )


async def list_all(connection: Connection) -> list[Webhook]:
    cursor = connection.cursor(row_factory=class_row(Webhook))
    await cursor.execute(_READ + " ORDER BY created_at, id")
    return await cursor.fetchall()


async def get(connection: Connection, webhook: UUID) -> Webhook | None:
    cursor = connection.cursor(row_factory=class_row(Webhook))
    await cursor.execute(_READ + " WHERE id = %s", [webhook])
    return await cursor.fetchone()


async def list_filters(connection: Connection) -> list[list[str]]:
    """The filters of enabled webhooks, except of those that receive all kinds."""
    cursor = await connection.execute(
        "SELECT kinds FROM webhooks WHERE disabled_at IS NULL AND kinds <> '{}'"
    )
    return [row[0] for row in await cursor.fetchall()]


async def get_secret(connection: Connection, webhook: UUID) -> SealedSecret | None:
    cursor = await connection.execute("SELECT key_id, sealed_secret FROM webhooks WHERE id = %s", [webhook])
    row = await cursor.fetchone()
    return SealedSecret(row[0], row[1]) if row else None


async def update(connection: Connection, webhook: UUID, *, url: str, kinds: Sequence[str]) -> None:
    await connection.execute(
        "UPDATE webhooks SET url = %s, kinds = %s WHERE id = %s", [url, list(kinds), webhook]
    )


async def remove(connection: Connection, webhook: UUID) -> bool:
    cursor = await connection.execute("DELETE FROM webhooks WHERE id = %s RETURNING 1", [webhook])
    return await cursor.fetchone() is not None


async def enable(connection: Connection, webhook: UUID) -> None:
    """Enable the webhook and retry all pending deliveries, abandoned ones too."""
    await connection.execute(
        """
        UPDATE webhooks SET disabled_at = NULL, disabled_because = NULL, failing_since = NULL,
            last_error = NULL
        WHERE id = %s
        """,
        [webhook],
    )
    await connection.execute(
        """
        UPDATE deliveries SET due_at = postroom_now(), attempts = 0, created_at = postroom_now()
        WHERE webhook_id = %s
        """,
        [webhook],
    )


async def disable(connection: Connection, webhook: UUID, because: str) -> None:
    await connection.execute(
        """
        UPDATE webhooks SET disabled_at = postroom_now(), disabled_because = %s
        WHERE id = %s AND disabled_at IS NULL
        """,
        [because, webhook],
    )


async def replay(connection: Connection, webhook: UUID, position: int) -> None:
    """Deliver every event after the position again."""
    await connection.execute(
        "UPDATE webhooks SET position = %s, replays = replays + 1 WHERE id = %s", [position, webhook]
    )
    await connection.execute(
        "DELETE FROM deliveries WHERE webhook_id = %s AND position > %s", [webhook, position]
    )


async def list_behind(connection: Connection) -> list[UUID]:
    """Enabled webhooks that have not received all numbered events."""
    cursor = await connection.execute(
        "SELECT id FROM webhooks WHERE disabled_at IS NULL AND position < (SELECT last_position FROM feeds)"
    )
    return [row[0] for row in await cursor.fetchall()]


# The first pending delivery about an entity decides when the entity is due; the others wait behind it.
_HEADS: Final = """
    WITH heads AS (
        SELECT DISTINCT ON (entity_type, entity_id) entity_type, entity_id, due_at FROM deliveries
        WHERE webhook_id = %s AND due_at IS NOT NULL ORDER BY entity_type, entity_id, position
    )
"""


async def list_blocked_entities(connection: Connection, webhook: UUID) -> frozenset[tuple[str, str]]:
    """Entities whose deliveries are not due yet."""
    cursor = await connection.execute(
        _HEADS  # noqa: S608  # of literals
        + "SELECT entity_type, entity_id FROM heads WHERE due_at > postroom_now()",
        [webhook],
    )
    return frozenset((row[0], row[1]) for row in await cursor.fetchall())


async def list_due(connection: Connection, webhook: UUID, *, limit: int) -> list[PendingDelivery]:
    """Pending deliveries of due entities, in feed order."""
    cursor = connection.cursor(row_factory=class_row(PendingDelivery))
    await cursor.execute(
        _HEADS  # noqa: S608  # of literals
        + """
        SELECT event_id, position, entity_type, entity_id, body, attempts, last_error,
            created_at < postroom_now() - %s * interval '1 day' AS too_old
        FROM deliveries JOIN heads USING (entity_type, entity_id)
        WHERE webhook_id = %s AND deliveries.due_at IS NOT NULL AND heads.due_at <= postroom_now()
        ORDER BY position LIMIT %s
        """,
        [webhook, MAX_RETRY_DAYS, webhook, limit],
    )
    return await cursor.fetchall()


async def list_pending_event_ids(connection: Connection, webhook: UUID, position: int) -> set[int]:
    """Events after the position that are already pending or abandoned."""
    cursor = await connection.execute(
        "SELECT event_id FROM deliveries WHERE webhook_id = %s AND position > %s", [webhook, position]
    )
    return {row[0] for row in await cursor.fetchall()}


async def record_outcomes(
    connection: Connection, webhook: Webhook, outcomes: Sequence[DeliveryOutcome], *, position: int | None
) -> None:
    """Store the results of deliveries and the new feed position.

    `webhook` is the row as read before the deliveries. If a replay was requested since, its position wins.
    """
    accepted = [row.event_id for row in outcomes if row.error is None and row.wait is None]
    await connection.execute(
        "DELETE FROM deliveries WHERE webhook_id = %s AND event_id = ANY(%s)", [webhook.id, accepted]
    )
    await _store_undelivered(
        connection, webhook, [row for row in outcomes if row.error is not None or row.wait is not None]
    )
    await connection.execute(
        """
        UPDATE webhooks SET position = CASE WHEN replays = %s THEN coalesce(%s, position) ELSE position END,
            failing_since = CASE WHEN %s THEN NULL ELSE failing_since END,
            last_delivered_at = CASE WHEN %s THEN postroom_now() ELSE last_delivered_at END
        WHERE id = %s
        """,
        [webhook.replays, position, bool(accepted), bool(accepted), webhook.id],
    )


async def _store_undelivered(
    connection: Connection, webhook: Webhook, outcomes: Sequence[DeliveryOutcome]
) -> None:
    """Upsert pending and abandoned deliveries in one statement; after an outage there are many."""
    await connection.execute(
        """
        INSERT INTO deliveries (organization_id, webhook_id, event_id, position, entity_type, entity_id, body,
            attempts, last_error, due_at)
        SELECT current_organization(), %b, event_id, position, entity_type, entity_id, body, attempts, error,
            postroom_now() + wait * interval '1 second'
        FROM unnest(%b::int8[], %b::int8[], %b::text[], %b::text[], %b::text[], %b::int4[], %b::text[],
            %b::float8[])
            AS outcome (event_id, position, entity_type, entity_id, body, attempts, error, wait)
        ORDER BY event_id
        ON CONFLICT (webhook_id, event_id) DO UPDATE SET attempts = excluded.attempts,
            last_error = excluded.last_error, due_at = excluded.due_at
        """,
        [
            webhook.id,
            [row.event_id for row in outcomes],
            [row.position for row in outcomes],
            [row.entity_type for row in outcomes],
            [row.entity_id for row in outcomes],
            [row.body for row in outcomes],
            [row.attempts for row in outcomes],
            [row.error for row in outcomes],
            [None if row.wait is None else float(row.wait) for row in outcomes],
        ],
    )


async def record_failure(connection: Connection, webhook: UUID, error: str) -> None:
    """Record that no delivery was accepted."""
    await connection.execute(
        """
        UPDATE webhooks SET failing_since = coalesce(failing_since, postroom_now()), last_error = %s
        WHERE id = %s
        """,
        [error, webhook],
    )


async def get_next_due_seconds(connection: Connection, webhook: UUID) -> float | None:
    cursor = await connection.execute(
        _HEADS  # noqa: S608  # of literals
        + "SELECT extract(epoch FROM min(due_at) - postroom_now())::float8 FROM heads",
        [webhook],
    )
    row = await cursor.fetchone()
    return max(row[0], 0.0) if row and row[0] is not None else None


async def count_by_key(connection: Connection) -> dict[str, int]:
    """Count the secrets per vault key."""
    cursor = await connection.execute("SELECT key_id, count(*) FROM webhooks GROUP BY key_id")
    return dict(await cursor.fetchall())


async def list_outdated_secrets(connection: Connection, key_id: str) -> list[tuple[UUID, SealedSecret]]:
    """Secrets that are sealed with another key, locked for update."""
    cursor = await connection.execute(
        "SELECT id, key_id, sealed_secret FROM webhooks WHERE key_id <> %s ORDER BY id FOR UPDATE", [key_id]
    )
    return [(row[0], SealedSecret(row[1], row[2])) for row in await cursor.fetchall()]


async def update_secret(connection: Connection, webhook: UUID, secret: SealedSecret) -> None:
    await connection.execute(
        "UPDATE webhooks SET key_id = %s, sealed_secret = %s WHERE id = %s",
        [secret.key_id, secret.value, webhook],
    )
