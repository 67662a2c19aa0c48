"""The feed that pages, outgoing webhooks and API clients follow: `events`, read by position.

Writers only add, in the transaction of what they tell of, and wait for nobody. Positions are given to
committed events, so whoever reads on from a position misses none, however late a writer commits. Ids and
states only: an event says what to look at, never what is in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from psycopg.rows import class_row

from postroom.store.database import Connection
from postroom.store.ledger import JsonValue, to_canonical_json

# All that is told, but for `webhook.disabled`, which is for people.
EVENT_KINDS: Final = (
    "document.changed",
    "document.created",
    "mailbox.connected",
    "mailbox.disconnected",
    "mailbox.health_changed",
    "mailbox.paused",
    "mailbox.policy_changed",
    "mailbox.reconnected",
    "mailbox.resumed",
    "mailbox.revoked",
    "message.changed",
    "message.created",
    "message.deleted",
)


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Something to tell. `kind` is `entity.what`, one of `KINDS`.

    `data` holds ids, states and counts for whoever decides whether to look: nothing personal.
    """

    kind: str
    entity_type: str
    entity_id: str
    data: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """News in its place. The id never changes and is never given again: it is the idempotency id."""

    id: int
    position: int
    kind: str
    entity_type: str
    entity_id: str
    data: dict[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FeedBounds:
    """What can be read: positions above `pruned`, up to `last`. A reader from before must start anew."""

    pruned: int
    last: int


async def append_event(
    connection: Connection,
    kind: str,
    entity_type: str,
    entity_id: str,
    data: Mapping[str, JsonValue] | None = None,
) -> None:
    """Add one event in the caller's transaction: it is seen when, and only if, that commits.

    Say `await feed.tell(connection, "document.changed", "document", str(id), {"state": "completed"})` where
    the state changes. For many at once there is `tell_all`.
    """
    await append_events(connection, [NewEvent(kind, entity_type, entity_id, data or {})])


async def append_events(connection: Connection, news: Sequence[NewEvent]) -> None:
    """Add events in the caller's transaction, in this order, with one statement."""
    if not news:
        return
    await connection.execute(
        """
        WITH told AS (
            INSERT INTO events (organization_id, kind, entity_type, entity_id, data)
            SELECT current_organization(), kind, entity_type, entity_id, data::jsonb
            FROM unnest(%b::text[], %b::text[], %b::text[], %b::text[])
                WITH ORDINALITY AS given (kind, entity_type, entity_id, data, place)
            ORDER BY place
        )
        SELECT pg_notify('postroom_feed', current_organization()::text)
        """,
        [
            [each.kind for each in news],
            [each.entity_type for each in news],
            [each.entity_id for each in news],
            [to_canonical_json(each.data) for each in news],
        ],
    )


async def assign_positions(connection: Connection, *, batch: int = 1000) -> int:
    """Give committed events their positions; how many got one. Safe to ask for by any number at once."""
    cursor = await connection.execute("SELECT number_events(%s)", [batch])
    row = await cursor.fetchone()
    assert row is not None, "a function returns a row"
    return row[0]


async def list_after(
    connection: Connection, position: int, limit: int, *, entity_type: str | None = None
) -> list[FeedEvent]:
    """The next events from a position on, in order; all kinds, or those about one type of thing."""
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
    cursor = await connection.execute("SELECT pruned_position, last_position FROM feeds")
    row = await cursor.fetchone()
    return FeedBounds(*row) if row else FeedBounds(0, 0)


async def prune(connection: Connection, *, older_than_seconds: float, limit: int = 10_000) -> int:
    """Remove what is older, from the beginning and without a gap; how many went. Who was behind is reset."""
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
        ), gone AS (
            DELETE FROM events USING old WHERE events.id = old.id RETURNING old.position
        ), told AS (
            UPDATE feeds SET pruned_position = greatest(pruned_position, (SELECT max(position) FROM gone))
            WHERE EXISTS (SELECT FROM gone)
        )
        SELECT count(*) FROM gone
        """,
        {"age": older_than_seconds, "limit": limit},
    )
    row = await cursor.fetchone()
    assert row is not None, "a count has a row"
    return row[0]
