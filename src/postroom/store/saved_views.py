"""The table `saved_views`: filters and sorting of a list that a member keeps under a name."""

from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class SavedView:
    id: UUID
    name: str
    query: str  # of the URL


async def list_by_member(connection: Connection, member: UUID, list_name: str) -> list[SavedView]:
    async with connection.cursor(row_factory=class_row(SavedView)) as cursor:
        await cursor.execute(
            """
            SELECT id, name, query FROM saved_views WHERE member_id = %s AND list = %s
            ORDER BY lower(name), id LIMIT 100
            """,
            [member, list_name],
        )
        return await cursor.fetchall()


async def save(connection: Connection, member: UUID, list_name: str, name: str, query: str) -> None:
    """Save a view, or replace the member's view of this name."""
    await connection.execute(
        """
        INSERT INTO saved_views (organization_id, member_id, list, name, query)
        VALUES (current_organization(), %s, %s, %s, %s)
        ON CONFLICT (organization_id, member_id, list, name) DO UPDATE SET query = excluded.query
        """,
        [member, list_name, name, query],
    )


async def remove(connection: Connection, member: UUID, view: UUID) -> str | None:
    """Remove a view of the member and return the name of its list. None if there is no such view."""
    cursor = await connection.execute(
        "DELETE FROM saved_views WHERE id = %s AND member_id = %s RETURNING list", [view, member]
    )
    row = await cursor.fetchone()
    return row[0] if row else None
