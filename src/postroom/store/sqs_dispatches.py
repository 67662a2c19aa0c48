"""Rows of `work` that an SQS queue announces: reserve them, and mark them as sent. No AWS client.

The client is `postroom.sqs`; `work.claim_one` claims a row that a message names.
"""

from collections.abc import Sequence

from postroom.store.database import Connection


async def reserve_due_documents(connection: Connection, *, limit: int, hold_seconds: float) -> list[str]:
    """Reserve due documents that no message announces, for `hold_seconds`."""
    cursor = await connection.execute(
        """
        UPDATE work SET dispatched_until = postroom_now() + %s * interval '1 second'
        WHERE id IN (
            SELECT id FROM work
            WHERE kind = 'process_document' AND due_at IS NOT NULL
                AND coalesce(dispatched_until, '-infinity') <= postroom_now()
                AND coalesce(leased_until, due_at) <= postroom_now()
            ORDER BY coalesce(dispatched_until, '-infinity'), coalesce(leased_until, due_at)
            LIMIT %s FOR UPDATE SKIP LOCKED
        )
        RETURNING subject
        """,
        [hold_seconds, limit],
    )
    return [row[0] for row in await cursor.fetchall()]


async def mark_sent(connection: Connection, subjects: Sequence[str], *, again_after: float) -> None:
    """Record that messages announce these documents. Those claimed meanwhile are skipped."""
    await connection.execute(
        """
        UPDATE work SET dispatched_until = postroom_now() + %s * interval '1 second'
        WHERE kind = 'process_document' AND subject = ANY(%s) AND dispatched_until IS NOT NULL
        """,
        [again_after, sorted(subjects)],
    )
