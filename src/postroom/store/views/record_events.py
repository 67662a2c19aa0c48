"""Query of a record's events in the feed, and whether each webhook has received them."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """An event and one webhook that receives it; None if there is no such webhook."""

    kind: str
    created_at: datetime
    webhook_url: str | None
    delivery: str | None  # sent, waiting or failed
    error: str | None


async def list_events(connection: Connection, record: UUID) -> list[RecordEvent]:
    """Newest first. Retention removes old events. A webhook receives those after it was added."""
    async with connection.cursor(row_factory=class_row(RecordEvent)) as cursor:
        await cursor.execute(
            """
            SELECT events.kind, events.created_at, url AS webhook_url, deliveries.last_error AS error,
                CASE WHEN url IS NULL THEN NULL
                    WHEN deliveries.id IS NOT NULL AND due_at IS NULL THEN 'failed'
                    WHEN deliveries.id IS NOT NULL OR events.position IS NULL
                        OR events.position > webhooks.position THEN 'waiting'
                    ELSE 'sent' END AS delivery
            FROM events
            LEFT JOIN webhooks ON webhooks.created_at <= events.created_at AND (kinds = '{}' OR EXISTS (
                SELECT FROM unnest(kinds) AS pattern
                WHERE events.kind = pattern
                    OR (pattern LIKE '%%.*' AND starts_with(events.kind, left(pattern, -1)))))
            LEFT JOIN deliveries ON webhook_id = webhooks.id AND event_id = events.id
            WHERE events.organization_id = current_organization() AND events.entity_type = 'record'
                AND events.entity_id = %s
            ORDER BY events.id DESC, url LIMIT 50
            """,
            [str(record)],
        )
        return await cursor.fetchall()
