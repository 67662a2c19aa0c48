"""The table `organizations`: the tenants. Every transaction of the application role belongs to one."""

from collections.abc import Sequence

from postroom.model import OrganizationId
from postroom.store.database import Connection


async def ensure(connection: Connection, organization: OrganizationId) -> None:
    """Insert the organization of this transaction if it is missing.

    Another process may insert it at the same time. Then either unique constraint, on the ID or on the name,
    may be violated first.
    """
    await connection.execute(
        "INSERT INTO organizations (id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        [organization, f"Organization {organization}"],
    )


async def list_names(connection: Connection) -> list[str]:
    """The names by which suppliers address the organization of this transaction."""
    cursor = await connection.execute(
        "SELECT addressee_names FROM organizations WHERE id = current_organization()"
    )
    row = await cursor.fetchone()
    return row[0] if row else []


async def set_names(connection: Connection, names: Sequence[str]) -> bool:
    """Replace the names. Returns whether that changed them."""
    cursor = await connection.execute(
        """
        UPDATE organizations SET addressee_names = %(names)s
        WHERE id = current_organization() AND addressee_names <> %(names)s::text[] RETURNING 1
        """,
        {"names": list(names)},
    )
    return await cursor.fetchone() is not None


async def list_ids(connection: Connection) -> list[OrganizationId]:
    """Ids of all organizations. Requires the engine role."""
    cursor = await connection.execute("SELECT id FROM organizations ORDER BY id")
    return [OrganizationId(row[0]) for row in await cursor.fetchall()]
