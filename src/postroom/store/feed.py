"""The tables `events` and `feeds`: the feed that pages, webhooks and API clients follow by position.

Writers append events in the transaction of the change and never block each other. Positions are assigned to
committed events only, so a reader that continues from a position misses none, however late a writer commits.
Events hold ids and states: they say what changed, never its content. Sending them is up to the readers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from psycopg.rows import class_row

from postroom.store.database import Connection
from postroom.store.ledger import JsonValue, to_canonical_json
from postroom.store.notifier import FEED_CHANNEL

# How many events are numbered at once.
BATCH: Final = 1000
# All event kinds except `webhook.disabled`, which is for people only.
EVENT_KINDS: Final = (
    "document.changed",
    "document.created",
    "ledger.sealed",
    "mailbox.connected",
    "mailbox.disconnected",
    "mailbox.health_changed",
    "mailbox.message_parked",
    "mailbox.paused",
    "mailbox.policy_changed",
    "mailbox.reconnected",
    "mailbox.repair_started",
    "mailbox.resumed",
    "mailbox.revoked",
    "message.changed",
    "message.created",
    "message.deleted",
    "message.left",
    "record.changed",
)


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append. `kind` is one of `EVENT_KINDS`, or `webhook.disabled`, which no webhook receives.

    `data` holds ids, states and counts, so that readers can decide whether to look; nothing personal.
    """

    kind: str
    entity_type: str
    entity_id: str
    data: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """A stored event with its position. The id is never reused and serves as idempotency id."""

    id: int
    position: int
    kind: str
    entity_type: str
    entity_id: str
    data: dict[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FeedBounds:
    """The readable positions: above `pruned`, up to `last`. A reader below `pruned` must start over.

    So must one from before the database may have lost commits: it may have seen events that no longer exist.
    """

    pruned: int
    last: int


async def append_event(
    connection: Connection,
    kind: str,
    entity_type: str,
    entity_id: str,
    data: Mapping[str, JsonValue] | None = None,
) -> None:
    """Append one event in the caller's transaction; readers see it only if that commits."""
    await append_events(connection, [NewEvent(kind, entity_type, entity_id, data or {})])


async def append_events(connection: Connection, events: Sequence[NewEvent]) -> None:
    """Append events in the caller's transaction, in this order, with one statement."""
    if not events:
        return
    cursor = await connection.execute(
        """
        WITH appended AS (
            INSERT INTO events (organization_id, kind, entity_type, entity_id, data)
            SELECT current_organization(), kind, entity_type, entity_id, data::jsonb
            FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[])
                WITH ORDINALITY AS new (kind, entity_type, entity_id, data, place)
            ORDER BY place
        )
        SELECT current_organization()::text
        """,
        [
            [event.kind for event in events],
            [event.entity_type for event in events],
            [event.entity_id for event in events],
            [to_canonical_json(event.data) for event in events],
        ],
    )
    [(organization,)] = await cursor.fetchall()
    await connection.notify(FEED_CHANNEL, organization)


async def assign_positions(connection: Connection, *, batch: int = BATCH) -> int:
    """Assign positions to committed events and return how many. Safe to call concurrently."""
    cursor = await connection.execute("SELECT number_events(%s)", [batch])
    row = await cursor.fetchone()
    assert row is not None, "a function returns a row"
    return row[0]


async def list_after(
    connection: Connection, position: int, limit: int, *, entity_type: str | None = None
) -> list[FeedEvent]:
    """The next events after a position, in order; optionally of one entity type."""
    cursor = connection.cursor(row_factory=class_row(FeedEvent))
    await cursor.execute(
        """
        SELECT id, position, kind, entity_type, entity_id, data, created_at FROM events
        WHERE position > %(position)s AND (%(type)s::text IS NULL OR entity_type = %(type)s)
        ORDER BY position LIMIT %(limit)s
        """,
        {"position": position, "limit": limit, "type": entity_type},
    )
    return await cursor.fetchall()


async def get_bounds(connection: Connection) -> FeedBounds:
    cursor = await connection.execute(
        "SELECT greatest(pruned_position, reset_position), last_position FROM feeds"
    )
    row = await cursor.fetchone()
    return FeedBounds(*row) if row else FeedBounds(0, 0)


async def prune(connection: Connection, *, older_than_seconds: float, limit: int = 10_000) -> int:
    """Delete old events from the beginning without gaps and return how many. Lagging readers are reset."""
    cursor = await connection.execute(
        """
        WITH old AS (
            SELECT id, position FROM events
            WHERE position IS NOT NULL AND created_at < postroom_now() - %(age)s * interval '1 second'
              AND position < coalesce((
                  SELECT min(position) FROM events
                  WHERE position IS NOT NULL AND created_at >= postroom_now() - %(age)s * interval '1 second'
              ), (SELECT last_position + 1 FROM feeds))
            ORDER BY position LIMIT %(limit)s
        ), deleted AS (
            DELETE FROM events USING old WHERE events.id = old.id RETURNING old.position
        ), moved AS (
            UPDATE feeds SET pruned_position = greatest(pruned_position, (SELECT max(position) FROM deleted))
            WHERE EXISTS (SELECT FROM deleted)
        )
        SELECT count(*) FROM deleted
        """,
        {"age": older_than_seconds, "limit": limit},
    )
    row = await cursor.fetchone()
    assert row is not None, "a count has a row"
    return row[0]
