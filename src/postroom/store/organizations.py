"""The table `organizations`: the tenants. Every transaction of the application role belongs to one."""

from postroom.model import OrganizationId
from postroom.store.database import Connection


async def ensure(connection: Connection, organization: OrganizationId, name: str) -> None:
    """Insert the organization of this transaction if it is missing."""
    await connection.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING",
        [organization, name],
    )


async def list_ids(connection: Connection) -> list[OrganizationId]:
    """Ids of all organizations. Requires the engine role."""
    cursor = await connection.execute("SELECT id FROM organizations ORDER BY id")
    return [OrganizationId(row[0]) for row in await cursor.fetchall()]
