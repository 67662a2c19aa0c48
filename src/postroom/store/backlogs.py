"""The table `backlogs`: how much due work no worker had claimed, by minute and kind, for a day.

`figures.record_forever` fills it, in the web process.
"""

from typing import Final

from postroom.store.database import Database

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
