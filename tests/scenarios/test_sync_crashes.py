"""Worker processes that are killed in the middle, or work side by side, mirror mailboxes all the same."""

import asyncio
import random
import signal
from contextlib import ExitStack

import pytest

from flow.connecting import TOPIC, settings_given
from postroom.model import ProviderName
from scenarios.mirrored import NO_QUOTA, postroom
from scenarios.owner_of_mail import Person
from scenarios.programs import Program
from scenarios.workers import until
from simulator.driver import running

CURRENT = """
    SELECT NOT EXISTS (SELECT FROM work WHERE kind = 'sync'
            AND (lease_token IS NOT NULL OR due_at <= postroom_now()))
        AND NOT EXISTS (SELECT FROM mailboxes WHERE last_synced_at IS NULL)
"""


@pytest.fixture(scope="module")
def sim():
    with running("--clock", "manual", "--quota", "off") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
async def room(sim, database_url, owner, organization, tmp_path):
    async with postroom(sim, database_url, owner, organization, tmp_path) as made:
        yield made


@pytest.fixture
def worker(sim, database_url, tmp_path):
    """Starts `postroom work` over the simulator."""
    given = {f"POSTROOM_{name.upper()}": str(value) for name, value in settings_given(sim).items()}
    given |= {
        "POSTROOM_DATABASE_URL": database_url,
        "POSTROOM_HOME": str(tmp_path),
        "POSTROOM_LEASE_SECONDS": "2",
        "POSTROOM_POLL_SECONDS": "0.2",
        "POSTROOM_BACKOFF_FIRST_SECONDS": "0.1",
        "POSTROOM_GMAIL_QUOTA": NO_QUOTA,
        "POSTROOM_PUBLIC_URL": "http://127.0.0.1:9",
    }
    return lambda: Program(tmp_path, "work", **given)


@pytest.mark.parametrize("provider", list(ProviderName))
async def test_a_first_sync_that_is_killed_again_and_again_ends_complete(room, owner, worker, provider):
    dice = random.Random(provider)
    box = await room.mailbox(provider, messages=400, days=20)
    for goal in sorted(dice.sample(range(1, 350), 3)):
        with worker() as program:
            await until(owner, "SELECT count(*) >= %s FROM messages", goal)
            await asyncio.sleep(dice.random() / 20)
            program.end(signal.SIGKILL)
    with worker() as program:
        await until(owner, CURRENT)
        program.end()
    assert await box.check() == 400
    # A page is repeated after a crash, and never a page that was committed.
    assert await box.one("SELECT sum(listed) FROM cursors WHERE kind = 'backfill'") == 400


async def test_workers_side_by_side_mirror_several_mailboxes(room, owner, worker):
    boxes = [
        await room.mailbox(provider, messages=60, days=20) for provider in ProviderName for _ in range(2)
    ]
    people = [Person(room.world.sim, box.address, seed) for seed, box in enumerate(boxes)]
    with ExitStack() as stack:
        programs = [stack.enter_context(worker()) for _ in range(2)]
        for _ in range(3):
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
