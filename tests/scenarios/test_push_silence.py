"""S2, Y5: a subscription through which no push arrives is noticed by itself and replaced."""

import asyncio
from dataclasses import dataclass, replace

import pytest

from flow.simulated_world import TOPIC, settings
from postroom.flow.mail import sync
from postroom.flow.mailboxes import subscribe
from postroom.model import ProviderName, WorkKind
from postroom.store import work
from postroom.store.work import WorkRequest
from postroom.wiring.engine import build_engine
from scenarios.mirrored_mailbox import NO_QUOTA, MirroredMailbox, usually
from scenarios.worker_pool import until
from web.push_server import SUBSCRIPTION, TOKEN, open_push_server

STORED = "SELECT count(*) FROM messages WHERE deleted_at IS NULL"
LIVE = """
    SELECT notification_url FROM subscriptions
    WHERE confirmed_at IS NOT NULL AND status = 'active' AND replaced_at IS NULL
"""


@dataclass
class PushedMailbox:
    """A mailbox whose pushes come to a real web process; a test runs its work by hand."""

    room: object
    box: MirroredMailbox
    contexts: dict

    async def work_off(self, *kinds: WorkKind) -> None:
        """Run what is due, as a worker does."""
        while True:
            async with self.box.database.engine() as connection:
                claim = await work.claim(connection, list(kinds), batch=1, lease_seconds=300)
            if not claim.leases:
                return
            [lease] = claim.leases
            run, context = self.contexts[WorkKind(lease.kind)]
            await run(context, lease)

    async def sweep(self) -> None:
        """A sync that no push asked for."""
        await self.box.wake()
        await self.work_off(WorkKind.SYNC)

    async def move(self, seconds: float) -> None:
        await self.room.move_clock(seconds)

    def deliver(self) -> None:
        self.box.sim.deliver(self.box.address, kind="plain")

    async def announced(self) -> None:
        """Deliver a message, and wait until its push makes a sync due."""
        self.deliver()
        await asyncio.to_thread(self.box.sim.post, "settle")
        await until(
            self.box.owner, "SELECT count(*) > 0 FROM work WHERE kind = 'sync' AND due_at <= postroom_now()"
        )
        await self.work_off(WorkKind.SYNC)

    async def unannounced(self) -> None:
        """Two messages, fifteen seconds apart, that only sweeps find. Then it is too late for a push."""
        for _ in range(2):
            self.deliver()
            await self.move(15)
            await self.sweep()
        await self.move(31)
        await self.work_off(WorkKind.SYNC)

    async def cause(self) -> str | None:
        return await self.box.one("SELECT health_cause FROM mailboxes")


@pytest.fixture
async def pushed(room, provider, request):
    async with open_push_server(room.world.database) as server:
        sim = room.world.sim
        if provider == "gmail":
            await asyncio.to_thread(
                sim.post,
                "google/subscriptions",
                name=SUBSCRIPTION,
                topic=TOPIC,
                push_endpoint=f"{server.url}/webhooks/gmail?token={TOKEN}",
            )
        box = await room.mailbox(provider, messages=1)
        given = settings(sim, room.home, public_url=server.url, gmail_quota=NO_QUOTA)
        engine = build_engine(given, room.world.database, room.world.engine.client)
        syncing = replace(box.context, sweep_stretch=engine.sync.sweep_stretch)
        made = PushedMailbox(
            room,
            box,
            {WorkKind.SYNC: (sync.run, syncing), WorkKind.SUBSCRIBE: (subscribe.run, engine.subscribe)},
        )
        await made.work_off(WorkKind.SUBSCRIBE, WorkKind.SYNC)
        await made.move(200)
        await made.sweep()
        yield made
        if provider == "gmail":
            sim.control.delete("google/subscriptions", params={"name": SUBSCRIPTION})


only_outlook = pytest.mark.parametrize("provider", [ProviderName.OUTLOOK])


async def delay_or_drop(pushed, state: str) -> None:
    """Let the provider find our endpoint slow, as after an outage of it.

    It tries that push again. Afterwards none is on its way that could arrive during a test.
    """
    sim = pushed.box.sim
    limits = {"first_timeout": 0.001} | ({"retry_timeout": 0.001} if state == "drop" else {})
    sim.control.patch("microsoft/options", json=limits)
    pushed.deliver()
    await asyncio.to_thread(sim.post, "settle")
    sim.control.patch("microsoft/options", json={"first_timeout": 3.0, "retry_timeout": 10.0})
    await pushed.move(60)
    await asyncio.to_thread(sim.post, "settle")
    await pushed.sweep()
    await pushed.move(31)


@only_outlook
@pytest.mark.parametrize("state", ["slow", "drop"])
async def test_a_subscription_that_the_provider_delays_or_drops_is_moved_and_works_again(pushed, state):
    await pushed.announced()
    [before] = await pushed.box.rows(LIVE)
    await delay_or_drop(pushed, state)
    await pushed.unannounced()
    assert await pushed.cause() == "push_silent"
    await pushed.work_off(WorkKind.SUBSCRIBE)
    [after] = await pushed.box.rows(LIVE)
    assert after != before
    assert await pushed.cause() is None
    [remote] = pushed.box.sim.get(f"mailboxes/{pushed.box.address}")["subscriptions"]
    assert (remote["url"],) == after
    await pushed.work_off(WorkKind.SYNC)
    stored = await pushed.box.one(STORED)
    await pushed.announced()
    assert await pushed.box.one(STORED) == stored + 1
    assert await pushed.box.one("SELECT count(*) FROM unannounced_messages") == 0
    events = await pushed.box.rows(
        "SELECT event_type, payload -> 'silent' FROM ledger WHERE entity_type = 'subscription' ORDER BY id"
    )
    assert events[-2:] == [("SUBSCRIPTION_EXPIRED", True), ("SUBSCRIPTION_RECREATED", None)]


PROVEN = "SELECT proven_since IS NOT NULL FROM subscriptions WHERE replaced_at IS NULL"


@pytest.mark.parametrize("provider", usually(ProviderName.OUTLOOK))
async def test_pushes_are_proven_by_a_push_and_a_sweep_until_one_is_lost(pushed):
    await pushed.announced()
    for _ in range(2):  # a second push for the same message may have come after its sync
        await pushed.move(100)
        await pushed.sweep()
    assert await pushed.box.one(PROVEN)
    await pushed.move(100)
    pushed.box.sim.fault("push_lost", mailbox=pushed.box.address, times=1)
    pushed.deliver()
    await pushed.sweep()
    assert not await pushed.box.one(PROVEN)


@pytest.mark.parametrize("provider", usually(ProviderName.GMAIL))
async def test_a_single_lost_push_changes_nothing(pushed):
    await pushed.announced()
    await pushed.move(100)
    [before] = await pushed.box.rows(LIVE)
    pushed.box.sim.fault("push_lost", mailbox=pushed.box.address, times=1)
    pushed.deliver()
    await pushed.sweep()
    assert await pushed.box.one("SELECT count(*) FROM unannounced_messages") == 1
    await pushed.move(40)
    await pushed.work_off(WorkKind.SYNC)
    assert await pushed.cause() is None
    await pushed.announced()
    assert await pushed.box.one("SELECT count(*) FROM unannounced_messages") == 0
    assert await pushed.box.rows(LIVE) == [before]


@pytest.mark.parametrize("provider", usually(ProviderName.GMAIL))
async def test_a_push_that_is_a_little_slower_than_a_sweep_is_no_reason(pushed):
    for _ in range(2):
        pushed.box.sim.fault("push_late", mailbox=pushed.box.address, seconds=2, times=1)
        pushed.deliver()
        await pushed.sweep()
        assert await pushed.box.one("SELECT count(*) FROM unannounced_messages") == 1
        await pushed.move(3)
        await until(
            pushed.box.owner,
            "SELECT last_notified_at > (SELECT max(found_at) FROM unannounced_messages) FROM mailboxes",
        )
        await pushed.work_off(WorkKind.SYNC)
        assert await pushed.box.one("SELECT count(*) FROM unannounced_messages") == 0
        await pushed.move(100)
    assert await pushed.cause() is None


@pytest.mark.parametrize("provider", usually(ProviderName.OUTLOOK))
async def test_silent_subscriptions_are_replaced_only_every_few_minutes(pushed, owner):
    pushed.box.sim.fault("push_lost", mailbox=pushed.box.address)
    await pushed.unannounced()
    assert await pushed.cause() == "push_silent"
    await pushed.work_off(WorkKind.SUBSCRIBE)
    await pushed.work_off(WorkKind.SYNC)
    await pushed.unannounced()
    await pushed.work_off(WorkKind.SUBSCRIBE)
    assert await pushed.box.one("SELECT count(*) FROM subscriptions WHERE is_silent") == 1
    await pushed.move(360)
    await pushed.unannounced()
    await pushed.work_off(WorkKind.SUBSCRIBE)
    assert await pushed.box.one("SELECT count(*) FROM subscriptions WHERE is_silent") == 2
    assert len(await pushed.box.rows(LIVE)) == 1
    assert len(pushed.box.sim.get(f"mailboxes/{pushed.box.address}")["subscriptions"]) == 1


NOTIFIED = "SELECT last_notified_at > (SELECT max(created_at) FROM subscriptions) FROM mailboxes"


@pytest.mark.parametrize("provider", [ProviderName.GMAIL])
async def test_a_gmail_watch_that_ended_unnoticed_is_set_again(pushed):
    await pushed.announced()
    async with pushed.box.database.transaction(pushed.box.organization) as connection:
        mailbox = await subscribe.mailboxes.get(connection, pushed.box.mailbox)
    await pushed.box.context.remote(mailbox).unsubscribe(None)
    await pushed.move(100)
    await pushed.unannounced()
    assert await pushed.cause() == "push_silent"
    await pushed.work_off(WorkKind.SUBSCRIBE)
    while not await pushed.box.one(NOTIFIED):
        await pushed.move(1)  # a push that our endpoint could not take in time is sent again later
    await pushed.sweep()
    assert await pushed.cause() is None, "the push that every new watch causes has arrived"
    stored = await pushed.box.one(STORED)
    await pushed.announced()
    assert await pushed.box.one(STORED) == stored + 1


@only_outlook
async def test_while_our_endpoint_is_down_the_subscription_stays_as_it_is(pushed, room):
    """The provider validates the new URL first; until then nothing is removed."""
    [before] = await pushed.box.rows(LIVE)
    pushed.box.sim.fault("push_lost", mailbox=pushed.box.address)
    await pushed.unannounced()
    pushed.box.sim.delete("faults")
    run, _ = pushed.contexts[WorkKind.SUBSCRIBE]
    async with pushed.box.database.engine() as connection:
        [lease] = (await work.claim(connection, [WorkKind.SUBSCRIBE], batch=1, lease_seconds=300)).leases
    unreachable = build_engine(
        settings(room.world.sim, room.home, public_url="http://127.0.0.1:9"),
        room.world.database,
        room.world.engine.client,
    ).subscribe
    with pytest.raises(subscribe.TransientError):
        await run(unreachable, lease)
    assert await pushed.box.rows(LIVE) == [before]
    assert len(pushed.box.sim.get(f"mailboxes/{pushed.box.address}")["subscriptions"]) == 1
    async with pushed.box.database.engine() as connection:
        await work.retry(connection, lease, delay=0, error="again")
        await work.enqueue(
            connection, [WorkRequest(pushed.box.organization, WorkKind.SUBSCRIBE, str(pushed.box.mailbox))]
        )
    await pushed.work_off(WorkKind.SUBSCRIBE)
    [after] = await pushed.box.rows(LIVE)
    assert after != before
    assert await pushed.cause() is None
