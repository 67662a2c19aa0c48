"""The table `resource_uses`: what each organization's work used, in periods of five minutes.

`ResourceMeter` counts in a worker and writes every few seconds. A killed worker loses what it has not written
yet. A claim reads the newest periods (`work`).
"""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from psycopg.rows import class_row

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.model import OrganizationId
from postroom.store.database import Connection, Database

RECORD_SECONDS: Final = 2.0
KEPT_DAYS: Final = 30


@dataclass(slots=True)
class ResourceUse:
    """Sums over the steps of one organization."""

    steps: int = 0
    queue_seconds: float = 0.0
    run_seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class OrganizationUse:
    """What an organization used, by its name."""

    organization_id: OrganizationId
    name: str
    steps: int
    queue_seconds: float
    run_seconds: float
    cpu_seconds: float


class ResourceMeter:
    """Counts what the steps of this process use. `take_cpu_seconds` returns that of child processes."""

    def __init__(self, take_cpu_seconds: Callable[[], Mapping[OrganizationId, float]] = dict) -> None:
        self.take_cpu_seconds = take_cpu_seconds
        self.uses: dict[OrganizationId, ResourceUse] = {}

    @contextmanager
    def measure(self, organization: OrganizationId, queue_seconds: float) -> Generator[None]:
        """Count one step."""
        began = time.monotonic()
        try:
            yield
        finally:
            use = self.uses.setdefault(organization, ResourceUse())
            use.steps += 1
            use.queue_seconds += queue_seconds
            use.run_seconds += time.monotonic() - began

    async def record(self, database: Database) -> None:
        """Write what was counted since the last call. What cannot be written is lost."""
        for organization, seconds in self.take_cpu_seconds().items():
            self.uses.setdefault(organization, ResourceUse()).cpu_seconds += seconds
        uses, self.uses = self.uses, {}
        if uses:
            async with database.engine() as connection:
                await add(connection, uses)

    async def record_forever(self, database: Database) -> None:
        while True:
            await asyncio.sleep(RECORD_SECONDS)
            with suppress(DatabaseUnavailable, TransientError):
                await self.record(database)


async def add(connection: Connection, uses: Mapping[OrganizationId, ResourceUse]) -> None:
    """Add to the current period. Organizations that are gone are skipped."""
    ids = sorted(uses)  # in one order, so that concurrent calls do not deadlock
    await connection.execute(
        """
        INSERT INTO resource_uses AS stored
            (organization_id, period, steps, queue_seconds, run_seconds, cpu_seconds)
        SELECT id, date_bin('5 minutes', postroom_now(), '2001-01-01Z'), steps, queued, ran, cpu
        FROM unnest(%b::uuid[], %b::int8[], %b::float8[], %b::float8[], %b::float8[])
            AS added (id, steps, queued, ran, cpu)
        JOIN organizations USING (id) ORDER BY id
        ON CONFLICT (organization_id, period) DO UPDATE SET
            steps = stored.steps + excluded.steps,
            queue_seconds = stored.queue_seconds + excluded.queue_seconds,
            run_seconds = stored.run_seconds + excluded.run_seconds,
            cpu_seconds = stored.cpu_seconds + excluded.cpu_seconds
        """,
        [
            ids,
            [uses[id_].steps for id_ in ids],
            [uses[id_].queue_seconds for id_ in ids],
            [uses[id_].run_seconds for id_ in ids],
            [uses[id_].cpu_seconds for id_ in ids],
        ],
    )


async def list_recent(connection: Connection, hours: float) -> Sequence[OrganizationUse]:
    """What each organization used in the last hours, the one with the most first."""
    cursor = connection.cursor(row_factory=class_row(OrganizationUse))
    await cursor.execute(
        """
        SELECT organization_id, name, sum(steps)::int8 AS steps, sum(queue_seconds) AS queue_seconds,
            sum(run_seconds) AS run_seconds, sum(cpu_seconds) AS cpu_seconds
        FROM resource_uses JOIN organizations ON organizations.id = organization_id
        WHERE period > postroom_now() - %s * interval '1 hour'
        GROUP BY organization_id, name ORDER BY sum(cpu_seconds) + sum(run_seconds) DESC
        """,
        [hours],
    )
    return await cursor.fetchall()


async def delete_old(database: Database) -> None:
    async with database.engine() as connection:
        await connection.execute(
            "DELETE FROM resource_uses WHERE period < postroom_now() - %s * interval '1 day'", [KEPT_DAYS]
        )
