"""The table `backlogs`: how much due work no worker had claimed, by minute and kind, for a day.

`record_forever` is the loop that fills it, in the web process.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.store.database import Connection, Database

INTERVAL_SECONDS: Final = 15
KEPT_HOURS: Final = 24


async def record(database: Database) -> None:
    """Record the current backlog of every organization. A minute keeps its highest count."""
    async with database.engine() as connection:
        await connection.execute(
            """
            WITH old AS (
                DELETE FROM backlogs WHERE minute < postroom_now() - %s * interval '1 hour'
            )
            INSERT INTO backlogs AS stored (organization_id, minute, kind, due)
            SELECT organization_id, date_trunc('minute', postroom_now()), kind, count(*)
            FROM work WHERE coalesce(leased_until, due_at) < postroom_now() - interval '1 second'
            GROUP BY organization_id, kind
            ON CONFLICT (organization_id, minute, kind)
                DO UPDATE SET due = greatest(stored.due, excluded.due)
            """,
            [KEPT_HOURS],
        )


async def record_forever(database: Database) -> None:
    """Record the backlog forever, in a process that runs even when no worker does."""
    while True:
        with suppress(DatabaseUnavailable, TransientError):
            await record(database)
        await asyncio.sleep(INTERVAL_SECONDS)


async def read_last_hour(connection: Connection, minutes: int) -> list[Mapping[str, int]]:
    """Backlog by kind for each of the last minutes, oldest first. The last entry is the current backlog."""
    cursor = await connection.execute(
        """
        SELECT floor(extract(epoch FROM date_trunc('minute', postroom_now()) - minute) / 60)::int, kind, due
        FROM backlogs WHERE organization_id = current_organization()
            AND minute > postroom_now() - %(minutes)s * interval '1 minute'
            AND minute < date_trunc('minute', postroom_now())
        UNION ALL
        SELECT 0, kind, count(*)::int FROM work
        WHERE organization_id = current_organization()
            AND coalesce(leased_until, due_at) < postroom_now() - interval '1 second'
        GROUP BY kind
        """,
        {"minutes": minutes},
    )
    by_minute: list[dict[str, int]] = [{} for _ in range(minutes)]
    for ago, kind, due in await cursor.fetchall():
        if ago < minutes:
            by_minute[minutes - 1 - ago][kind] = due
    return [*by_minute]
