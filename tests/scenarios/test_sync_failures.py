"""Providers that fail, throttle, forget or have another clock: in the end the store equals the truth."""

import asyncio
from dataclasses import replace
from datetime import datetime
from functools import partial

import pytest

from flow.mailboxes.subscribe.subscribed_mailbox import RENEWAL_SECONDS
from flow.simulated_world import TOPIC
from postroom.errors import RateLimited, TransientError
from postroom.flow.mailboxes import subscribe
from postroom.flow.mailboxes.subscribe_context import SubscribeContext
from postroom.model import ProviderName, WorkKind
from postroom.store import work
from postroom.store.work import WorkRequest
from postroom.web import app, push
from scenarios.mailbox_user import MailboxUser
from scenarios.mirrored_mailbox import MORE_THAN_A_PAGE, postroom, usually
from scenarios.worker_pool import until
from web.push_server import SUBSCRIPTION, TOKEN, serve
from web.sign_in_support import build_site

FAULTS = (
    {"kind": "error", "status": 500},
    {"kind": "error", "status": 503},
    {"kind": "stall", "seconds": 1.5},
    {"kind": "cut"},
    {"kind": "truncated"},
)
OPEN = "SELECT count(*) FROM failures WHERE resolved_at IS NULL"


def taken(sim) -> int:
    """How often the faults on order happened."""
    return sum(each["taken"] for each in sim.get("faults"))


@pytest.mark.parametrize("provider", usually(ProviderName.GMAIL))
async def test_of_a_hundred_answers_five_fail_in_each_way_and_nothing_is_lost(
    room, sim, database_url, owner, organization, tmp_path, provider
):
    """A stall is longer than the client waits, once the mailbox is connected."""
    box = await room.mailbox(provider, messages=80, days=20)
    async with postroom(sim, database_url, owner, organization, tmp_path, read_seconds=1) as hasty:
        box.context = replace(box.context, remote=hasty.world.remote)
        for fault in FAULTS:
            sim.fault(mailbox=box.address, probability=0.05, **fault)
        await box.sync(patiently=True)
        person = MailboxUser(sim, box.address, seed=14)
        for _ in range(4):
            person.act(4)
            await box.sync(patiently=True)
        assert taken(sim) > 0
        sim.delete("faults")
        await room.move_clock(90_000)
        await box.sync(patiently=True)
        await box.check()


@pytest.mark.parametrize("provider", usually(ProviderName.OUTLOOK))
async def test_a_provider_that_throttles_hard_is_asked_again_and_nothing_is_lost(room, provider):
    box = await room.mailbox(provider, messages=40, days=20)
    listed, fetched = {
        "gmail": ("messages.list", "messages.get"),
        "outlook": ("messages.delta", "attachments.list"),
    }[provider]
    box.sim.fault("throttle", mailbox=box.address, endpoint=listed, times=3, retry_after=1)
    box.sim.fault("throttle", mailbox=box.address, endpoint=fetched, times=20, retry_after=1)
    await box.sync(patiently=True)
    assert taken(box.sim) > 3
    await box.check()
    assert await box.one(OPEN) == 0


async def test_a_provider_that_asks_for_long_patience_is_left_alone_so_long(room, provider):
    box = await room.mailbox(provider, messages=20, days=20)
    await box.sync()
    MailboxUser(box.sim, box.address, seed=16).act(5)
    box.sim.fault("throttle", mailbox=box.address, times=1, retry_after=120)
    with pytest.raises(RateLimited) as refused:
        await box.sync()
    assert refused.value.retry_after > 100
    await box.one(
        """
        UPDATE work SET state = 'waiting', lease_token = NULL, leased_until = NULL
        WHERE kind = 'sync' RETURNING 1
        """
    )
    # Requests for other folders may still be in flight, and are logged when they end; none begins later.
    failed_at = datetime.fromisoformat(box.sim.get("clock")["now"])
    with pytest.raises(TransientError):
        await box.sync()
    assert [each for each in box.requests() if datetime.fromisoformat(each["time"]) > failed_at] == []


@pytest.mark.parametrize("provider", usually(ProviderName.OUTLOOK))
async def test_a_message_that_always_fails_is_an_open_failure_until_it_is_mended(room, provider):
    box = await room.mailbox(provider, messages=30, days=20)
    await box.sync()
    poison, _ = [box.sim.deliver(box.address)["id"] for _ in range(2)]
    box.sim.fault("error", mailbox=box.address, status=500, path=f"*{poison.rstrip('=')}*")
    await box.sync()
    await box.check(failed=[poison])
    box.sim.deliver(box.address)
    await room.move_clock(1000)
    await box.sync()
    await box.check(failed=[poison])
    assert await box.one("SELECT attempts FROM failures") == 2
    box.sim.delete("faults")
    await room.move_clock(1000)
    await box.sync()
    assert await box.check() == 33


@pytest.mark.parametrize(
    "provider, seconds",
    [
        (ProviderName.GMAIL, -300),
        (ProviderName.OUTLOOK, 300),
        pytest.param(ProviderName.GMAIL, 300, marks=pytest.mark.soak),
        pytest.param(ProviderName.OUTLOOK, -300, marks=pytest.mark.soak),
    ],
)
async def test_clocks_may_disagree_by_five_minutes(room, provider, seconds):
    """Ours against the provider's. While a folder is listed for the first time, new mail is found by date."""
    await room.owner.execute("UPDATE clock_offset SET ahead = ahead + %s * interval '1 second'", [seconds])
    box = await room.mailbox(provider, messages=30, days=20)
    box.context = replace(box.context, slice_seconds=0)
    await box.sync_once()
    late = box.sim.deliver(box.address)["id"]
    await box.sync_once()
    assert await box.one("SELECT count(*) FROM messages WHERE provider_message_id = %s", late) == 1
    person = MailboxUser(box.sim, box.address, seed=17)
    person.act(10)
    await box.sync()
    await box.check()
    recorded = box.sim.deliver(box.address)["id"]
    await box.hint(*([recorded] if provider == "outlook" else []))
    await box.sync()
    await box.check()
    person.act(5)
    box.sim.post(f"mailboxes/{box.address}/expire-tokens")
    box.sim.post(f"mailboxes/{box.address}/expire-cursors")
    await room.move_clock(1000)
    await box.sync()
    await box.check()
    assert await box.one("SELECT health FROM mailboxes") == "active"


async def test_a_consent_withdrawn_in_the_middle_stops_the_sync_and_a_reconnect_continues_it(room, provider):
    box = await room.mailbox(provider, messages=MORE_THAN_A_PAGE[provider], days=20)
    box.context = replace(box.context, slice_seconds=0)
    await box.sync_once()
    places = "SELECT scope, value, started_at FROM cursors WHERE kind = 'backfill' ORDER BY 1"
    before, stored = await box.rows(places), await box.one("SELECT count(*) FROM messages")
    assert 0 < stored < MORE_THAN_A_PAGE[provider]
    box.sim.post(f"mailboxes/{box.address}/revoke")
    box.sim.post(f"mailboxes/{box.address}/expire-tokens")
    await box.sync()
    assert await box.one("SELECT health FROM mailboxes") == "token_refresh_failed"
    assert await box.one("SELECT count(*) FROM work WHERE kind = 'sync'") == 0
    assert await box.rows(places) == before
    MailboxUser(room.world.sim, box.address, seed=13).act(10)
    await room.connect(provider, box.address)
    await box.sync()
    await box.check()
    assert await box.one("SELECT health FROM mailboxes") == "active"
    assert [row[2] for row in await box.rows(places)] == [row[2] for row in before]


@pytest.fixture
async def hearing(sim, database_url, owner, organization, tmp_path):
    """A Postroom whose web process answers on a socket of this process, and its address."""
    given = {"pubsub_subscription": SUBSCRIPTION, "pubsub_token": TOKEN}
    async with (
        postroom(sim, database_url, owner, organization, tmp_path, **given) as room,
        push.open_endpoints(
            room.world.database, room.world.connect_context.providers, organization
        ) as routes,
        serve(app.create(build_site(room.world.database, organization), push_routes=routes)) as url,
    ):
        endpoint = f"{url}/webhooks/gmail?token={TOKEN}"
        order = {"name": SUBSCRIPTION, "topic": TOPIC, "push_endpoint": endpoint, "retry_min_seconds": 1}
        await asyncio.to_thread(sim.post, "google/subscriptions", **order)
        yield room, url
        gone = partial(sim.control.delete, "google/subscriptions", params={"name": SUBSCRIPTION})
        await asyncio.to_thread(gone)


async def open_subscription(room, box, url) -> None:
    world = room.world
    async with world.database.engine() as connection:
        await work.enqueue(connection, [WorkRequest(box.organization, WorkKind.SUBSCRIBE, str(box.mailbox))])
        claim = await work.claim(connection, [WorkKind.SUBSCRIBE], batch=1, lease_seconds=60)
    parts = SubscribeContext(world.database, world.tokens.open_mailbox, url, RENEWAL_SECONDS)
    await subscribe.run(parts, claim.leases[0])


async def test_pushes_that_are_lost_doubled_and_out_of_order_lose_nothing(hearing, provider):
    """Nothing but pushes and the sweep makes a sync due here."""
    room, url = hearing
    box = await room.mailbox(provider, messages=20, days=20)
    await box.sync()
    await open_subscription(room, box, url)
    for kind, chance in (("push_lost", 0.3), ("push_doubled", 0.3), ("push_reordered", 1)):
        box.sim.fault(kind, mailbox=box.address, probability=chance)
    person = MailboxUser(box.sim, box.address, seed=18)
    for _ in range(6):
        await asyncio.to_thread(person.act, 5)
        await room.move_clock(10)  # what waits to be overtaken does not wait longer
        await box.work_off()
    await until(box.owner, "SELECT last_notified_at IS NOT NULL FROM mailboxes")
    dropped = await asyncio.to_thread(box.sim.meter, box.address)
    assert dropped["pushes_dropped"] > 0
    await room.move_clock(1000)
    await box.work_off()
    await box.check()
