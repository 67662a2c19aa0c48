"""Rows of `work` that an SQS queue announces: reserve, mark as sent, claim. No AWS client.

The client is `postroom.sqs`; every other claim is in `work`.
"""

from collections.abc import Sequence
from uuid import uuid4

from postroom.store.database import Connection
from postroom.store.work import Lease


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


async def claim_work(
    connection: Connection, kind: str, subject: str, *, lease_seconds: float
) -> Lease | None:
    """Lease one row, announced by a message or reserved earlier. None if it is done, leased or not due."""
    cursor = await connection.execute(
        """
        UPDATE work SET state = 'leased', lease_token = %s,
            leased_until = postroom_now() + %s * interval '1 second',
            attempts = CASE WHEN lease_token IS NULL THEN attempts + 1 ELSE attempts END,
            lost_leases = CASE WHEN lease_token IS NULL THEN lost_leases ELSE lost_leases + 1 END,
            dispatched_until = NULL
        WHERE kind = %s AND subject = %s AND coalesce(leased_until, due_at) <= postroom_now()
        RETURNING id, organization_id, kind, subject, attempts, generation, lease_token, trace, lost_leases,
            extract(epoch FROM postroom_now() - due_at)::float8
        """,
        [uuid4(), lease_seconds, kind, subject],
    )
    row = await cursor.fetchone()
    return Lease(*row) if row else None
