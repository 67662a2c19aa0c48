"""Worker processes that are killed at any moment, or run side by side, still mirror mailboxes completely."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import psycopg
import pytest
import structlog

import databases
from flow.simulated_world import TOPIC
from postroom import worker as worker_loop
from postroom.engine import WorkHandler
from postroom.errors import DatabaseUnavailable
from postroom.flow.mail import sync
from postroom.flow.mail.sync import SyncContext
from postroom.model import OrganizationId, ProviderName, WorkKind
from postroom.worker import WorkerLimits
from scenarios.mailbox_user import MailboxUser
from scenarios.mirrored_mailbox import environment, postroom
from scenarios.postroom_process import PostroomProcess
from scenarios.worker_pool import PATIENCE, until
from simulator.driver import running

CURRENT = """
    SELECT NOT EXISTS (SELECT FROM work WHERE kind = 'sync'
            AND (lease_token IS NOT NULL OR due_at <= postroom_now()))
        AND NOT EXISTS (SELECT FROM mailboxes WHERE last_synced_at IS NULL)
"""


@pytest.fixture(scope="module")
def shared_sim():
    """Its answers are checked elsewhere: here they are many, and cut off where a worker ends."""
    with running("--clock", "manual", "--quota", "off", checked=False) as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
def worker(sim, database_url, tmp_path):
    """Starts `postroom work` over the simulator."""
    given = environment(sim, database_url, tmp_path)
    return lambda: PostroomProcess(tmp_path, "work", **given)


async def killed_again_and_again(
    box, owner, worker, *, messages: int, kills: int, most_seconds: float
) -> None:
    """Workers are killed when they have come so far and a moment more, then one may run to the end."""
    dice = random.Random(f"{box.address} {kills}")
    for goal in sorted(dice.sample(range(1, messages * 9 // 10), kills)):
        with worker() as program:
            await until(owner, "SELECT count(*) >= %s FROM messages", goal)
            await asyncio.sleep(dice.uniform(0, most_seconds))
            program.end(signal.SIGKILL)
    with worker() as program:
        await until(owner, CURRENT)
        program.end()
    assert await box.check() == messages
    # A page is repeated after a crash, and never a page that was committed.
    assert await box.one("SELECT sum(listed) FROM cursors WHERE kind = 'backfill'") == messages


async def test_a_first_sync_that_is_killed_again_and_again_ends_complete(room, owner, worker, provider):
    box = await room.mailbox(provider, messages=300, days=20)
    await killed_again_and_again(box, owner, worker, messages=300, kills=2, most_seconds=0.05)


@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_a_first_sync_of_twenty_thousand_messages_killed_fifty_times_ends_complete(
    room, owner, worker, provider
):
    box = await room.mailbox(provider, messages=20_000, days=29)
    await killed_again_and_again(box, owner, worker, messages=20_000, kills=50, most_seconds=2)


async def test_workers_side_by_side_mirror_several_mailboxes(room, owner, worker):
    boxes = [
        await room.mailbox(provider, messages=30, days=20) for provider in ProviderName for _ in range(2)
    ]
    people = [MailboxUser(room.world.sim, box.address, seed) for seed, box in enumerate(boxes)]
    with ExitStack() as stack:
        programs = [stack.enter_context(worker()) for _ in range(2)]
        for _ in range(2):
            for person, box in zip(people, boxes, strict=True):
                await asyncio.to_thread(person.act, 5)
                await box.wake()
        await until(owner, CURRENT)
        for box in boxes:
            await box.wake()
        await until(owner, CURRENT)
        for program in programs:
            program.end()
    for box in boxes:
        await box.check()


@asynccontextmanager
async def working(url: str, parts: SyncContext, *, count: int) -> AsyncGenerator[None]:
    """So many workers in this process, each with connections of its own."""
    stop = asyncio.Event()
    limits = WorkerLimits(
        concurrency=2,
        lease_seconds=3,
        poll_seconds=0.2,
        stop_seconds=10,
        backoff_first_seconds=0.1,
        backoff_max_seconds=0.5,
        wake_by_notify=True,
    )
    async with AsyncExitStack() as stack:
        running: list[asyncio.Task[None]] = []
        for _ in range(count):
            database = await stack.enter_async_context(
                databases.open_pools(url, entry_macs=parts.database.entry_macs)
            )
            kinds = {WorkKind.SYNC: WorkHandler(partial(sync.run, replace(parts, database=database)), None)}
            running.append(asyncio.create_task(worker_loop.run(database, kinds, limits, stop)))
        yield
        stop.set()
        await asyncio.gather(*running)


async def test_eight_workers_mirror_the_same_mailboxes(room, owner, database_url):
    boxes = [await room.mailbox(provider, messages=40, days=20) for provider in ProviderName]
    people = [MailboxUser(room.world.sim, box.address, seed) for seed, box in enumerate(boxes)]
    async with working(database_url, boxes[0].context, count=8):
        for _ in range(4):
            for person, box in zip(people, boxes, strict=True):
                await asyncio.to_thread(person.act, 4)
                for _ in range(3):
                    await box.wake()
        await until(owner, CURRENT)
        await room.move_clock(1000)
        await until(owner, CURRENT)
    for box in boxes:
        await box.check()


@pytest.fixture
def short_log():
    """Without pictures of every stack: a fallen database makes many."""
    structlog.configure(processors=[structlog.processors.KeyValueRenderer()])


@pytest.mark.skipif(bool(databases.GIVEN), reason="a server that others use is not killed")
async def test_a_database_that_falls_and_starts_again_in_the_middle_loses_nothing(sim, tmp_path, short_log):
    """A server of this test's own, whose supervisor restarts it at the same address."""
    home = Path(os.environ["TEST_SERVERS"], "falling")
    with databases.server(home, databases.MAJORS[0]) as server:
        url = server.create()
        async with databases.session(url) as owner:
            organization = await new_organization(owner)
            async with postroom(sim, url, owner, organization, tmp_path) as room:
                boxes = [await room.mailbox(each, messages=250, days=20) for each in ProviderName]
                async with working(url, boxes[0].context, count=1):
                    await patiently_until(url, "SELECT count(*) > 0 FROM messages")
                    kill_server(home)
                    await patiently_until(url, CURRENT)
        async with databases.session(url) as owner:
            for box in boxes:
                box.owner = owner
                assert await box.check() == 250


async def new_organization(owner) -> OrganizationId:
    cursor = await owner.execute("INSERT INTO organizations (name) VALUES ('Falling') RETURNING id")
    [row] = await cursor.fetchall()
    return OrganizationId(row[0])


def kill_server(home: Path) -> None:
    [data] = home.glob("*/postgres/data")
    os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)


async def patiently_until(url: str, condition: str, *parameters: object) -> None:
    """Over connections that may end at any time."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(psycopg.OperationalError, DatabaseUnavailable):
                async with databases.session(url) as owner:
                    return await until(owner, condition, *parameters)
            await asyncio.sleep(0.1)
