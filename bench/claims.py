"""Claim and finish batches of 50: our functions compared with the same statements in a bare psycopg loop.

Then the cost of a busy worker whose steps end one by one while thousands of rows of many organizations are
due, and the cost of an idle one: queries per poll with 100,000 rows that are not due.
"""

import asyncio
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from ledger_key import ENTRY_MACS
from postroom import worker
from postroom.engine import WorkHandler
from postroom.model import OrganizationId, StepResult
from postroom.store import claim_statement, roles, schema_migrations, work
from postroom.store.database import open_database
from postroom.store.embedded import ServerHandle, start_or_join
from postroom.store.embedded.stale_processes import find_server_processes
from postroom.store.work import ClaimResult, FinishedWork, Lease
from sync_environment import cpu_seconds

ROWS, BATCH, ROUNDS = 20_000, 50, 5
WANTED = 0.8
BUSY_ROWS, BUSY_SECONDS, BUSY_ORGANIZATIONS, BUSY_SLOTS = 6_000, 8, 400, 16


async def fill(owner: psycopg.AsyncConnection, organization: UUID, count: int, *, due: str) -> None:
    await owner.execute("TRUNCATE work")
    await owner.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at)
        SELECT %s, 'bench', number::text, postroom_now() + %s::interval FROM generate_series(1, %s) AS number
        """,
        [organization, due, count],
    )
    await owner.execute("VACUUM ANALYZE work")


async def ours(url: str) -> int:
    done = 0
    async with open_database(url, pool_size=4, name="bench", entry_macs=ENTRY_MACS) as database:
        while True:
            async with database.engine() as connection:
                claim = await work.claim(connection, ["bench"], batch=BATCH, lease_seconds=60)
            if not claim.leases:
                return done
            async with database.engine() as connection:
                done += len(await work.finish(connection, [FinishedWork(each) for each in claim.leases]))


async def bare(url: str) -> int:
    """The same two statements, parameters made by hand, rows as plain tuples."""
    done = 0
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await roles.assume(connection, roles.ENGINE)
        while True:
            claimed = await connection.execute(
                claim_statement.CLAIM,
                claim_statement.claim_parameters(["bench"], batch=BATCH, lease_seconds=60),
            )
            rows = await claimed.fetchall()
            if not rows or rows[0][0] is None:
                return done
            ids, tokens, generations = ([row[place] for row in rows] for place in (0, 6, 5))
            ended = await connection.execute(
                work._FINISH,  # noqa: SLF001  # the very statement
                [ids, tokens, generations, [None] * len(rows)],
            )
            done += len(await ended.fetchall())


async def measure(
    owner: psycopg.AsyncConnection, organization: UUID, url: str, run: Callable[[str], Awaitable[int]]
) -> float:
    await fill(owner, organization, ROWS, due="-1 second")
    begin = time.perf_counter()
    done = await run(url)
    seconds = time.perf_counter() - begin
    assert done == ROWS
    return done / seconds


async def through_a_worker(owner: psycopg.AsyncConnection, organization: UUID, url: str) -> float:
    """The whole machinery: claim, task per row, group commit of the finishes."""
    await fill(owner, organization, ROWS, due="-1 second")
    stop, done = asyncio.Event(), 0

    async def step(_lease: Lease) -> StepResult:
        nonlocal done
        done += 1
        if done == ROWS:
            stop.set()
        return StepResult()

    begin = time.perf_counter()
    async with open_database(url, pool_size=8, name="bench", entry_macs=ENTRY_MACS) as database:
        await worker.run(
            database, {"bench": WorkHandler(step, max_attempts=None)}, limits(poll_seconds=5), stop
        )
    return ROWS / (time.perf_counter() - begin)


async def fill_for_many(owner: psycopg.AsyncConnection) -> None:
    """Make thousands of rows of many organizations due."""
    await owner.execute("TRUNCATE work")
    await owner.execute(
        """
        INSERT INTO organizations (id, name)
        SELECT gen_random_uuid(), 'Busy ' || number FROM generate_series(1, %s) AS number
        ON CONFLICT DO NOTHING
        """,
        [BUSY_ORGANIZATIONS],
    )
    await owner.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at)
        SELECT id, 'bench', id || ' ' || number, postroom_now() - interval '1 second'
        FROM organizations CROSS JOIN generate_series(1, %s) AS number
        """,
        [BUSY_ROWS // BUSY_ORGANIZATIONS],
    )
    await owner.execute("VACUUM ANALYZE work, organizations")


async def busy(owner: psycopg.AsyncConnection, server: ServerHandle) -> tuple[float, float, float]:
    """Rows a second, rows per claim, CPU milliseconds of the server per row. Steps take up to 0.1 seconds."""
    await fill_for_many(owner)
    stop, done, claims = asyncio.Event(), 0, 0

    async def step(_lease: Lease) -> StepResult:
        nonlocal done
        await asyncio.sleep(random.uniform(0, 0.1))
        done += 1
        return StepResult()

    async def counting_claim(*given: Any, **options: Any) -> ClaimResult:
        nonlocal claims
        claims += 1
        return await claim(*given, **options)

    claim, work.claim = work.claim, counting_claim
    try:
        async with open_database(server.url, pool_size=8, name="bench", entry_macs=ENTRY_MACS) as database:
            handlers = {"bench": WorkHandler(step, max_attempts=None)}
            busy_limits = limits(poll_seconds=5, concurrency=BUSY_SLOTS)
            running = asyncio.create_task(worker.run(database, handlers, busy_limits, stop))
            await asyncio.sleep(1)  # its connections are open
            done, claims, cpu, begin = 0, 0, server_cpu_seconds(server), time.perf_counter()
            await asyncio.sleep(BUSY_SECONDS)
            figures = (
                done / (time.perf_counter() - begin),
                done / claims,
                (server_cpu_seconds(server) - cpu) / done * 1000,
            )
            stop.set()
            await running
    finally:
        work.claim = claim
    assert done < BUSY_ROWS / 2, "thousands of rows must be due to the end"
    return figures


def server_cpu_seconds(server: ServerHandle) -> float:
    """CPU time that the processes of the server have used so far, without those that have ended."""
    return sum(map(cpu_seconds, find_server_processes(server._home.data)))  # noqa: SLF001


def limits(*, poll_seconds: float, concurrency: int = BATCH) -> worker.WorkerLimits:
    return worker.WorkerLimits(
        concurrency=concurrency,
        lease_seconds=60,
        poll_seconds=poll_seconds,
        stop_seconds=10,
        backoff_first_seconds=1,
        backoff_max_seconds=60,
        wake_by_notify=True,
    )


async def idle_queries(owner: psycopg.AsyncConnection, organization: UUID, url: str) -> float:
    """Transactions that the server counted for one idle worker, per poll; its own housekeeping taken off."""
    await fill(owner, organization, 100_000, due="1 hour")
    poll_seconds, stop = 0.25, asyncio.Event()
    housekeeping, _ = await transactions(owner)
    async with open_database(url, pool_size=4, name="bench", entry_macs=ENTRY_MACS) as database:
        kinds = {"bench": WorkHandler(_never, max_attempts=None)}
        running = asyncio.create_task(worker.run(database, kinds, limits(poll_seconds=poll_seconds), stop))
        await asyncio.sleep(2)  # settled
        counted, seconds = await transactions(owner)
        stop.set()
        await running
    return (counted - housekeeping) / (seconds / poll_seconds)


async def transactions(owner: psycopg.AsyncConnection) -> tuple[int, float]:
    """How many the server counted in some seconds, and in how many exactly."""
    counts: list[int] = []
    begin = time.perf_counter()
    for pause in (0, 5):
        await asyncio.sleep(pause)
        begin = begin if pause else time.perf_counter()
        await asyncio.sleep(1.5)  # sessions report their counts with a delay of up to a second
        cursor = await owner.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        )
        row = await cursor.fetchone()
        counts.append(int(row[0]) if row else 0)
    return counts[1] - counts[0], time.perf_counter() - begin - 1.5


async def _never(_lease: Lease) -> StepResult:
    raise AssertionError("nothing is due")


@contextmanager
def private_server() -> Generator[ServerHandle]:
    """An embedded server of the benchmark's own, gone afterwards."""
    home = tempfile.mkdtemp(prefix="postroom-bench-")
    with start_or_join(Path(home)) as server:
        yield server
    while Path(home).exists():  # it stops by itself, a moment after its last user
        shutil.rmtree(home, ignore_errors=True)
        time.sleep(0.1)


async def main() -> int:
    with private_server() as server:
        await schema_migrations.migrate(server.url)
        organization = OrganizationId(uuid4())
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as owner:
            await roles.assume(owner)
            await owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'Bench')", [organization])
            rates: dict[str, list[float]] = {"bare": [], "ours": []}
            for _ in range(ROUNDS):
                rates["bare"].append(await measure(owner, organization, server.url, bare))
                rates["ours"].append(await measure(owner, organization, server.url, ours))
            whole = await through_a_worker(owner, organization, server.url)
            rate, batch, cost = await busy(owner, server)
            idle = await idle_queries(owner, organization, server.url)
    ratio = statistics.median(rates["ours"]) / statistics.median(rates["bare"])
    print(f"bare psycopg loop     {statistics.median(rates['bare']):>9,.0f} rows/s claimed and finished")
    print(f"postroom.store.work   {statistics.median(rates['ours']):>9,.0f} rows/s")
    print(f"through a worker      {whole:>9,.0f} rows/s (a step per row)")
    print(
        f"busy, thousands due   {rate:>9,.0f} rows/s, {batch:.1f} rows per claim,"
        f" {cost:.1f} ms of the server's CPU per row"
    )
    print(f"ratio to the bare loop {ratio:.2f} (wanted: {WANTED} or better)")
    print(f"idle, 100,000 rows waiting: {idle:.2f} queries per poll and worker (wanted: 1)")
    return 0 if ratio >= WANTED and idle <= 1.1 else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
