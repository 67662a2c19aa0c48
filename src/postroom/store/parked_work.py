"""Rows of `work` that are parked: list them, and make them due again. `work.park` parks them."""

from dataclasses import dataclass

from postroom.model import OrganizationId
from postroom.store import work
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class ParkedWork:
    """A work item that is no longer retried, and its last error."""

    organization: OrganizationId
    kind: str
    subject: str
    attempts: int
    error: str | None


async def list_parked(connection: Connection) -> list[ParkedWork]:
    """Parked work of all organizations that the connection can see."""
    cursor = await connection.execute(
        """
        SELECT organization_id, kind, subject, attempts + lost_leases, last_error FROM work
        WHERE state = 'parked' ORDER BY kind, subject
        """
    )
    return [ParkedWork(*row) for row in await cursor.fetchall()]


async def unpark(connection: Connection, kind: str, subject: str | None = None) -> int:
    """Make parked work due, with its attempts reset: one subject, or the whole kind. Returns how many."""
    cursor = await connection.execute(
        """
        UPDATE work SET state = 'waiting', due_at = postroom_now(), attempts = 0, lost_leases = 0,
            last_error = NULL, generation = generation + 1
        WHERE kind = %(kind)s AND (%(subject)s::text IS NULL OR subject = %(subject)s)
            AND state = 'parked'
        """,
        {"kind": kind, "subject": subject},
    )
    await work.notify_workers(connection, cursor)
    return cursor.rowcount
