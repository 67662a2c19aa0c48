"""S2: a worker killed at whatever moment leaves no channel without a row and no mailbox without a channel."""

import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import databases
from flow.subscribe.conftest import only_graph
from flow.subscribe.subscribing import HOUR
from scenarios.workers import until

HERE = Path(__file__)
PROGRAM = HERE.with_name("subscribe_process.py")
CONFIRMED = """
    SELECT EXISTS (
        SELECT FROM subscriptions JOIN work ON subject = mailbox_id::text AND kind = 'subscribe'
        WHERE confirmed_at IS NOT NULL AND replaced_at IS NULL AND lease_token IS NULL
          AND due_at > postroom_now() + interval '5 minutes'
    )
"""


@asynccontextmanager
async def a_worker(kept, database_url):
    tokens = kept.tokens[kept.mailbox]
    options = {
        "database_url": database_url,
        "sim": {"http": kept.sim.http, "ready": kept.sim.ready},
        "access": tokens.access.reveal(),
        "refresh": tokens.refresh.reveal(),
        "public_url": kept.base,
    }
    path = os.pathsep.join([str(HERE.parents[3] / "src"), str(HERE.parents[2])])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        json.dumps(options),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
    )
    try:
        assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def kill_at_handshake(kept, database_url, number):
    """Kill the worker while the provider asks us for the so-manieth time, its own answer not yet given."""
    killed = asyncio.Event()
    count = 0

    async def kill(_path):
        nonlocal count
        count += 1
        if count == number:
            process.send_signal(signal.SIGKILL)
            killed.set()

    async with a_worker(kept, database_url) as process:
        kept.receiver.before_handshake = kill
        await kept.wake()
        await asyncio.wait_for(killed.wait(), 60)
    kept.receiver.before_handshake = None


async def kill_before_commit(kept, database_url, endpoint):
    """Hold the work's row, so that nothing can be committed; kill the worker once the provider answered."""
    before = len(answered(kept, endpoint))
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(databases.session(database_url))
        held = asyncio.Event()

        async def hold(_path):
            if not held.is_set():
                await session.execute("BEGIN")
                await session.execute("SELECT FROM work WHERE kind = 'subscribe' FOR UPDATE")
                held.set()

        async with a_worker(kept, database_url) as process:
            kept.receiver.before_handshake = hold
            await kept.wake()
            await asyncio.wait_for(held.wait(), 60)
            async with asyncio.timeout(60):
                while len(await asyncio.to_thread(answered, kept, endpoint)) == before:  # noqa: ASYNC110  not our event
                    await asyncio.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            await process.wait()
        await session.execute("ROLLBACK")
    kept.receiver.before_handshake = None


def answered(kept, endpoint):
    return [call for call in kept.calls(endpoint) if call["status"] in {200, 201}]


async def finish(kept, database_url):
    """Another worker takes over; afterwards everything fits."""
    async with a_worker(kept, database_url):
        await until(kept.owner, CONFIRMED)
    await kept.check_stands()
    assert [row for row in await kept.rows() if not row["confirmed_at"]] == []
    assert await kept.health() == ("active", None)


@only_graph
@pytest.mark.parametrize("handshake", [1, 2])
async def test_killed_while_the_provider_is_asked(kept, database_url, handshake):
    await kill_at_handshake(kept, database_url, handshake)
    await finish(kept, database_url)


@only_graph
async def test_killed_between_the_provider_s_answer_and_the_commit(kept, database_url):
    await kill_before_commit(kept, database_url, "subscriptions.create")
    [made] = kept.standing()
    assert await kept.events() == []
    await finish(kept, database_url)
    assert (await kept.is_live())["provider_subscription_id"] == made["id"], "the same channel, not another"
    assert await kept.events() == ["SUBSCRIPTION_ADOPTED"]


@only_graph
async def test_killed_between_a_renewal_and_its_commit(kept, database_url):
    await kept.run()
    await kept.move(HOUR)
    await kept.tokens[kept.mailbox].replace_rejected(await kept.tokens[kept.mailbox].get_token())
    kept.sim.control.patch("microsoft/options", json={"revalidate": True})
    try:
        await kill_before_commit(kept, database_url, "subscriptions.update")
        await finish(kept, database_url)
    finally:
        kept.sim.control.patch("microsoft/options", json={"revalidate": False})
    assert set(await kept.events()) == {"SUBSCRIPTION_CREATED", "SUBSCRIPTION_RENEWED"}


@only_graph
async def test_killed_after_an_unknown_channel_was_deleted_and_before_the_new_one_was_answered(
    kept, database_url
):
    await kept.run()
    [stranger] = kept.standing()
    await kept.owner.execute("DELETE FROM subscriptions")
    await kill_at_handshake(kept, database_url, 2)
    assert stranger["id"] not in [each["id"] for each in kept.standing()]
    await finish(kept, database_url)
