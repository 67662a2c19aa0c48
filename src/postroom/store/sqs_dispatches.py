"""Rows of work that a queue outside tells of (D4): which to tell, which were told, the claim of one row."""

from collections.abc import Sequence
from uuid import uuid4

from postroom.store.database import Connection
from postroom.store.work import Lease


async def reserve_due_documents(connection: Connection, *, most: int, hold_seconds: float) -> list[str]:
    """Documents that are due and that no message tells of. Nobody else gets them for so long."""
    cursor = await connection.execute(
        """
        UPDATE work SET carried_until = postroom_now() + %s * interval '1 second'
        WHERE id IN (
            SELECT id FROM work
            WHERE kind = 'process_document' AND due_at IS NOT NULL
                AND coalesce(carried_until, '-infinity') <= postroom_now()
                AND coalesce(leased_until, due_at) <= postroom_now()
            ORDER BY coalesce(carried_until, '-infinity'), coalesce(leased_until, due_at)
            LIMIT %s FOR UPDATE SKIP LOCKED
        )
        RETURNING subject
        """,
        [hold_seconds, most],
    )
    return [row[0] for row in await cursor.fetchall()]


async def mark_sent(connection: Connection, subjects: Sequence[str], *, again_after: float) -> None:
    """A message tells of them now. One that was claimed meanwhile is not carried any more."""
    await connection.execute(
        """
        UPDATE work SET carried_until = postroom_now() + %s * interval '1 second'
        WHERE kind = 'process_document' AND subject = ANY(%s) AND carried_until IS NOT NULL
        """,
        [again_after, sorted(subjects)],
    )


async def claim_work(
    connection: Connection, kind: str, subject: str, *, lease_seconds: float
) -> Lease | None:
    """Lease the row of which a message tells. None: it is done, held by another, or not due."""
    cursor = await connection.execute(
        """
        UPDATE work SET lease_token = %s, leased_until = postroom_now() + %s * interval '1 second',
            attempts = CASE WHEN lease_token IS NULL THEN attempts + 1 ELSE attempts END,
            lost = CASE WHEN lease_token IS NULL THEN lost ELSE lost + 1 END, carried_until = NULL
        WHERE kind = %s AND subject = %s AND coalesce(leased_until, due_at) <= postroom_now()
        RETURNING id, organization_id, kind, subject, attempts, generation, lease_token, trace, lost
        """,
        [uuid4(), lease_seconds, kind, subject],
    )
    row = await cursor.fetchone()
    return Lease(*row) if row else None
