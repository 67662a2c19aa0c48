"""Alerts that a provider rejects Postroom's own application: raise, clear, list the active ones.

They are ledger entries: the last entry about an application says whether its alert is active.
"""

from postroom.model import OrganizationId
from postroom.store import ledger
from postroom.store.database import Connection
from postroom.store.ledger import NewLedgerEntry

ENTITY = "application"
RAISED = "APPLICATION_REFUSED"
CLEARED = "APPLICATION_ACCEPTED"


async def raise_or_clear(
    connection: Connection, organization: OrganizationId, application: str, error: str | None
) -> bool:
    """Raise the alert with this error, or clear it with None. Returns whether it changed."""
    if await _is_active(connection, application) == (error is not None):
        return False
    # Many workers notice at the same time; only one writes the entry.
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{organization} {application}"]
    )
    if await _is_active(connection, application) == (error is not None):
        return False
    entry = (
        NewLedgerEntry(RAISED, ENTITY, application, payload={"error": error})
        if error is not None
        else NewLedgerEntry(CLEARED, ENTITY, application)
    )
    await ledger.append_entries(connection, organization, [entry])
    return True


async def list_active(connection: Connection) -> list[str]:
    """The error texts of all active alerts."""
    cursor = await connection.execute(
        """
        SELECT payload ->> 'error' FROM (
            SELECT DISTINCT ON (entity_id) entity_id, event_type, payload FROM ledger
            WHERE entity_type = %s ORDER BY entity_id, id DESC
        ) AS last
        WHERE event_type = %s ORDER BY entity_id
        """,
        [ENTITY, RAISED],
    )
    return [row[0] for row in await cursor.fetchall()]


async def _is_active(connection: Connection, application: str) -> bool:
    cursor = await connection.execute(
        """
        SELECT event_type FROM ledger WHERE entity_type = %s AND entity_id = %s ORDER BY id DESC LIMIT 1
        """,
        [ENTITY, application],
    )
    row = await cursor.fetchone()
    return row is not None and row[0] == RAISED
