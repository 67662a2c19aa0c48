"""S2: a worker killed at any moment leaves no subscription without a row and no mailbox without one."""

import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import databases
from flow.mailboxes.subscribe.conftest import only_graph
from flow.mailboxes.subscribe.subscribed_mailbox import HOUR
from scenarios.worker_pool import until

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
async def a_worker(subscribed, database_url):
    tokens = subscribed.tokens[subscribed.mailbox]
    options = {
        "database_url": database_url,
        "sim": {"http": subscribed.sim.http, "ready": subscribed.sim.ready},
        "access": tokens.access.reveal(),
        "refresh": tokens.refresh.reveal(),
        "public_url": subscribed.base,
    }
    path = os.pathsep.join([str(HERE.parents[4] / "src"), str(HERE.parents[3])])
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


async def kill_at_handshake(subscribed, database_url, number):
    """Kill the worker while the provider asks us for the so-manieth time, its own answer not yet given."""
    killed = asyncio.Event()
    count = 0

    async def kill(_path):
        nonlocal count
        count += 1
        if count == number:
            process.send_signal(signal.SIGKILL)
            killed.set()

    async with a_worker(subscribed, database_url) as process:
        subscribed.receiver.before_handshake = kill
        await subscribed.wake()
        await asyncio.wait_for(killed.wait(), 60)
    subscribed.receiver.before_handshake = None


async def kill_before_commit(subscribed, database_url, endpoint):
    """Hold the work's row, so that nothing can be committed; kill the worker once the provider answered."""
    before = len(answered(subscribed, endpoint))
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(databases.session(database_url))
        held = asyncio.Event()

        async def hold(_path):
            if not held.is_set():
                await session.execute("BEGIN")
                await session.execute("SELECT FROM work WHERE kind = 'subscribe' FOR UPDATE")
                held.set()

        async with a_worker(subscribed, database_url) as process:
            subscribed.receiver.before_handshake = hold
            await subscribed.wake()
            await asyncio.wait_for(held.wait(), 60)
            async with asyncio.timeout(60):
                while len(await asyncio.to_thread(answered, subscribed, endpoint)) == before:  # noqa: ASYNC110  not our event
                    await asyncio.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            await process.wait()
        await session.execute("ROLLBACK")
    subscribed.receiver.before_handshake = None


def answered(subscribed, endpoint):
    return [call for call in subscribed.calls(endpoint) if call["status"] in {200, 201}]


async def finish(subscribed, database_url):
    """Another worker takes over; afterwards everything fits."""
    async with a_worker(subscribed, database_url):
        await until(subscribed.owner, CONFIRMED)
    await subscribed.assert_one_live()
    assert [row for row in await subscribed.rows() if not row["confirmed_at"]] == []
    assert await subscribed.health() == ("active", None)


@only_graph
@pytest.mark.parametrize("handshake", [1, 2])
async def test_killed_while_the_provider_is_asked(subscribed, database_url, handshake):
    await kill_at_handshake(subscribed, database_url, handshake)
    await finish(subscribed, database_url)


@only_graph
@pytest.mark.parametrize("app_only", [False, True], ids=["delegated", "app-only"])
async def test_killed_between_the_provider_s_answer_and_the_commit(subscribed, database_url, app_only):
    if app_only:
        await subscribed.set_app_only()
    await kill_before_commit(subscribed, database_url, "subscriptions.create")
    [made] = subscribed.remote_subscriptions()
    assert await subscribed.events() == []
    await finish(subscribed, database_url)
    assert (await subscribed.live_row())["provider_subscription_id"] == made["id"], (
        "the same subscription, not another"
    )
    assert await subscribed.events() == ["SUBSCRIPTION_ADOPTED"]
    listed = subscribed.calls("subscriptions.list")
    assert bool(listed) is not app_only, "an application would list the subscriptions of all mailboxes"


@only_graph
async def test_killed_between_a_renewal_and_its_commit(subscribed, database_url):
    await subscribed.run()
    await subscribed.move(HOUR)
    await subscribed.tokens[subscribed.mailbox].replace_rejected(
        await subscribed.tokens[subscribed.mailbox].get_token()
    )
    subscribed.sim.control.patch("microsoft/options", json={"revalidate": True})
    try:
        await kill_before_commit(subscribed, database_url, "subscriptions.update")
        await finish(subscribed, database_url)
    finally:
        subscribed.sim.control.patch("microsoft/options", json={"revalidate": False})
    assert set(await subscribed.events()) == {"SUBSCRIPTION_CREATED", "SUBSCRIPTION_RENEWED"}


@only_graph
async def test_killed_after_an_unknown_subscription_was_deleted_and_before_the_new_one_was_answered(
    subscribed, database_url
):
    await subscribed.run()
    [stranger] = subscribed.remote_subscriptions()
    await subscribed.owner.execute("DELETE FROM subscriptions")
    await kill_at_handshake(subscribed, database_url, 2)
    assert stranger["id"] not in [each["id"] for each in subscribed.remote_subscriptions()]
    await finish(subscribed, database_url)
