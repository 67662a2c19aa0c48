"""Query of display names for the ledger's actor ids: of members, API keys and directories."""

from collections.abc import Iterable, Mapping

from postroom.store.database import Connection


async def find_names(connection: Connection, actors: Iterable[str | None]) -> Mapping[str, str]:
    """Names by actor id. Removed members and keys are missing."""
    cursor = await connection.execute(
        """
        SELECT 'member:' || id, address FROM members WHERE 'member:' || id = ANY (%(actors)s)
        UNION ALL SELECT 'directory:' || id, 'directory ' || name FROM directories
            WHERE 'directory:' || id = ANY (%(actors)s)
        UNION ALL SELECT 'key:' || id, 'key ' || name FROM api_keys WHERE 'key:' || id = ANY (%(actors)s)
        """,
        {"actors": sorted({actor for actor in actors if actor is not None})},
    )
    return dict(await cursor.fetchall())
