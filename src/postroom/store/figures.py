"""The figures of the overview's charts, by interval: table `figures`, and the loop that fills it.

Intervals that have ended are recorded once, by the functions of migration 0053. The rest is measured when it
is read.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.store import backlogs, resource_uses
from postroom.store.database import Connection, Database

INTERVAL_SECONDS: Final = 15


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one interval of one organization."""

    start: datetime
    messages: int
    latency_median: float | None  # seconds from the provider to the store; None without new mail
    latency_p99: float | None
    quota: float  # of the mailbox nearest to its provider's limit; 1 is all
    reviews: int  # open at the end of the interval
    unprocessed: int  # documents at the end of the interval
    due: int  # highest number of work items that were due and not claimed


async def read(connection: Connection, step: timedelta, count: int) -> list[Figures]:
    """The figures of the last intervals, oldest first. The last interval is not over."""
    cursor = await connection.execute(
        """
        WITH span AS (
            SELECT newest - (%(count)s - 1) * step AS first, newest + step AS stop,
                greatest(recorded_until, newest - (%(count)s - 1) * step) AS unrecorded
            FROM figure_steps
            CROSS JOIN LATERAL (SELECT date_bin(step, postroom_now(), '2001-01-01Z') AS newest)
            WHERE step = %(step)s
        )
        SELECT bin, coalesce(messages, 0), latency_median, latency_p99, coalesce(quota, 0),
            coalesce(reviews, 0), coalesce(unprocessed, 0), coalesce(due, 0)
        FROM span CROSS JOIN LATERAL generate_series(first, unrecorded - %(step)s, %(step)s) AS bin
        LEFT JOIN figures
            ON organization_id = current_organization() AND step = %(step)s AND start = bin
        UNION ALL
        SELECT measured.* FROM span
        CROSS JOIN LATERAL measure_figures(current_organization(), unrecorded, stop, %(step)s) AS measured
        ORDER BY 1
        """,
        {"step": step, "count": count},
    )
    return [Figures(*row) for row in await cursor.fetchall()]


async def record(database: Database) -> None:
    """Record the intervals that ended, of all organizations, in several transactions if there are many."""
    has_more = True
    while has_more:
        async with database.engine() as connection:
            cursor = await connection.execute("SELECT record_figures()")
            row = await cursor.fetchone()
            assert row is not None
            [has_more] = row


async def record_forever(database: Database) -> None:
    """Record backlogs and figures forever, in a process that runs even when no worker does.

    It also deletes old resource uses.
    """
    while True:
        with suppress(DatabaseUnavailable, TransientError):
            await backlogs.record(database)
            await resource_uses.delete_old(database)
            await record(database)
        await asyncio.sleep(INTERVAL_SECONDS)
