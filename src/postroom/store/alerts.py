"""Alarms about Postroom's own access at a provider: one for each organization and application, in the ledger.

The last entry of an application says whether its alarm stands.
"""

from postroom.model import OrganizationId
from postroom.store import ledger
from postroom.store.database import Connection
from postroom.store.ledger import NewLedgerEntry

ENTITY = "application"
RAISED = "APPLICATION_REFUSED"
CLEARED = "APPLICATION_ACCEPTED"


async def raise_or_clear(
    connection: Connection, organization: OrganizationId, application: str, words: str | None
) -> bool:
    """Raise the alarm with these words, or clear it with none; true when that is news."""
    if await _is_active(connection, application) == (words is not None):
        return False
    # Many find out at the same time; one of them tells.
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{organization} {application}"]
    )
    if await _is_active(connection, application) == (words is not None):
        return False
    entry = (
        NewLedgerEntry(RAISED, ENTITY, application, payload={"error": words})
        if words is not None
        else NewLedgerEntry(CLEARED, ENTITY, application)
    )
    await ledger.append_entries(connection, organization, [entry])
    return True


async def list_active(connection: Connection) -> list[str]:
    """The words of every alarm that stands."""
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
