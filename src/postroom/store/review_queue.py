"""The review queue of a member: documents that need review, oldest first, and what they decided recently.

A document that is assigned to another member is not in the queue.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from postroom.model import MemberId
from postroom.store.database import Connection
from postroom.store.reviews import Decision

# Decisions of the last hours count as progress, and can be undone.
RECENT_HOURS: Final = 12


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Where a document is in the queue, which has `waiting` ones. `rank` counts from 1; None: not in it."""

    waiting: int
    rank: int | None
    previous: UUID | None
    following: UUID | None


@dataclass(frozen=True, slots=True)
class RecentDecision:
    """A decision that its author can undo."""

    document: UUID
    decision: Decision
    file_name: str | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "decision", Decision(self.decision))


async def find_next(connection: Connection, member: MemberId, *, after: UUID | None) -> UUID | None:
    """The document that the member reviews next after this one, starting over after the last.

    A document that was decided keeps the position of its review.
    """
    cursor = await connection.execute(
        """
        WITH here AS (
            SELECT CASE WHEN state = 'needs_review' THEN state_since
                ELSE (SELECT max(created_at) FROM reviews WHERE document_id = documents.id) END AS since, id
            FROM documents WHERE id = %(after)s
        )
        SELECT documents.id FROM documents LEFT JOIN here ON true
        WHERE state = 'needs_review' AND coalesce(assignee_id, %(member)s) = %(member)s
        ORDER BY coalesce((state_since, documents.id) <= (here.since, here.id), false),
            state_since, documents.id
        LIMIT 1
        """,
        {"after": after, "member": member},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def get_position(connection: Connection, member: MemberId, document: UUID) -> QueuePosition:
    """The position of a document in the member's queue, with its neighbours."""
    cursor = await connection.execute(
        """
        WITH here AS (SELECT state_since, id FROM documents WHERE id = %(document)s),
        queue AS (
            SELECT documents.state_since, documents.id,
                (documents.state_since, documents.id) < (here.state_since, here.id) AS is_before,
                documents.id = here.id AS is_here
            FROM documents, here
            WHERE state = 'needs_review' AND coalesce(assignee_id, %(member)s) = %(member)s
        )
        SELECT count(*), CASE WHEN bool_or(is_here) THEN count(*) FILTER (WHERE is_before) + 1 END,
            (SELECT id FROM queue WHERE is_before ORDER BY state_since DESC, id DESC LIMIT 1),
            (SELECT id FROM queue WHERE NOT is_before AND NOT is_here ORDER BY state_since, id LIMIT 1)
        FROM queue
        """,
        {"document": document, "member": member},
    )
    row = await cursor.fetchone()
    assert row is not None, "an aggregate returns a row"
    return QueuePosition(*row)


async def count_recent(connection: Connection, actor: str) -> int:
    """How many documents the person decided recently."""
    cursor = await connection.execute(
        """
        SELECT count(DISTINCT document_id) FROM reviews JOIN documents ON documents.id = document_id
        WHERE actor_id = %s AND decision IS NOT NULL
            AND decided_at > postroom_now() - %s * interval '1 hour'
            AND documents.state IN ('completed', 'skipped')
        """,
        [actor, RECENT_HOURS],
    )
    row = await cursor.fetchone()
    assert row is not None, "an aggregate returns a row"
    return row[0]


async def find_recent(
    connection: Connection, actor: str, *, document: UUID | None = None
) -> RecentDecision | None:
    """The newest decision of the person that was not undone; with `document`, only about that one."""
    cursor = await connection.execute(
        """
        SELECT document_id, decision, (SELECT file_name FROM arrivals
            WHERE arrivals.document_id = reviews.document_id ORDER BY id LIMIT 1)
        FROM reviews JOIN documents ON documents.id = document_id
        WHERE actor_id = %(actor)s AND decision IS NOT NULL
            AND decided_at > postroom_now() - %(hours)s * interval '1 hour'
            AND documents.state IN ('completed', 'skipped')
            AND NOT EXISTS (SELECT FROM reviews AS later
                WHERE later.document_id = reviews.document_id AND later.id > reviews.id)
            AND (%(document)s::uuid IS NULL OR document_id = %(document)s)
        ORDER BY decided_at DESC, reviews.id DESC LIMIT 1
        """,
        {"actor": actor, "hours": RECENT_HOURS, "document": document},
    )
    row = await cursor.fetchone()
    return RecentDecision(*row) if row else None
