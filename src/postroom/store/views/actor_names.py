"""Who the ledger's `actor_id`s are, in words for a person: members by their address, keys by their name."""

from collections.abc import Iterable, Mapping

from postroom.store.database import Connection


async def find_names(connection: Connection, actors: Iterable[str | None]) -> Mapping[str, str]:
    """Those that are known by now; who left, or was never anybody, is not among them."""
    cursor = await connection.execute(
        """
        SELECT 'member:' || id, address FROM members WHERE 'member:' || id = ANY (%(actors)s)
        UNION ALL SELECT 'key:' || id, 'key ' || name FROM api_keys WHERE 'key:' || id = ANY (%(actors)s)
        """,
        {"actors": sorted({each for each in actors if each is not None})},
    )
    return dict(await cursor.fetchall())
