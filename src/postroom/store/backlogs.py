"""The table `backlogs`: how much work was due and not begun, by the minute and the kind, for a day."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.store.database import Connection, Database

INTERVAL_SECONDS: Final = 15
KEPT_HOURS: Final = 24


async def record(database: Database) -> None:
    """What is due now, of every organization; of a minute the most is kept."""
    async with database.engine() as connection:
        await connection.execute(
            """
            WITH old AS (
                DELETE FROM backlogs WHERE minute < postroom_now() - %s * interval '1 hour'
            )
            INSERT INTO backlogs AS noted (organization_id, minute, kind, due)
            SELECT organization_id, date_trunc('minute', postroom_now()), kind, count(*)
            FROM work WHERE coalesce(leased_until, due_at) < postroom_now() - interval '1 second'
            GROUP BY organization_id, kind
            ON CONFLICT (organization_id, minute, kind)
                DO UPDATE SET due = greatest(noted.due, excluded.due)
            """,
            [KEPT_HOURS],
        )


async def record_forever(database: Database) -> None:
    """For ever, in a process that lives when no worker does."""
    while True:
        with suppress(DatabaseUnavailable, TransientError):
            await record(database)
        await asyncio.sleep(INTERVAL_SECONDS)


async def read_last_hour(connection: Connection, minutes: int) -> list[Mapping[str, int]]:
    """By the minute, the oldest first: how much was due of each kind. Of this minute, what is due now."""
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
    found: list[dict[str, int]] = [{} for _ in range(minutes)]
    for ago, kind, due in await cursor.fetchall():
        if ago < minutes:
            found[minutes - 1 - ago][kind] = due
    return [*found]
