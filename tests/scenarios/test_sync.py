"""Mailboxes of both simulated providers are mirrored; after each scenario the store equals the truth."""

import asyncio
from dataclasses import replace

import pytest

from flow.connecting import TOPIC
from postroom.model import ProviderName
from scenarios.mirrored import postroom
from scenarios.owner_of_mail import Person
from simulator.driver import running


@pytest.fixture(scope="module")
def shared_sim():
    with running("--clock", "manual", "--quota", "off") as simulation:
        simulation.post("google/topics", name=TOPIC)
        yield simulation


@pytest.fixture
def sim(shared_sim):
    yield shared_sim
    shared_sim.delete("faults")


@pytest.fixture
async def room(sim, database_url, owner, organization, tmp_path):
    async with postroom(sim, database_url, owner, organization, tmp_path) as made:
        yield made


@pytest.fixture(params=list(ProviderName))
def provider(request):
    return request.param


async def test_a_first_sync_mirrors_the_whole_mailbox(room, provider):
    box = await room.mailbox(provider, messages=100, days=20)
    await box.sync()
    assert await box.check() == 100


async def test_whatever_its_owner_does_is_mirrored(room, provider):
    box = await room.mailbox(provider, messages=60, days=20)
    await box.sync()
    person = Person(room.world.sim, box.address, seed=7)
    for _ in range(4):
        person.act(15)
        await box.sync()
        await box.check()


async def test_folders_that_are_made_renamed_and_deleted_are_followed(room, provider):
    box = await room.mailbox(provider, messages=40, days=20)
    await box.sync()
    person = Person(room.world.sim, box.address, seed=8)
    key = person.make_folder("Projects")
    for number in range(1, 6):
        person.sim.act(box.address, number, "move", folder=key)
    await room.move_clock(1000)
    await box.sync()
    await box.check()
    person.rename_folder(key, "Old projects")
    await room.move_clock(1000)
    await box.sync()
    assert await box.one("SELECT count(*) FROM folders WHERE name = 'Old projects'") == 1
    person.delete_folder(key)
    await room.move_clock(1000)
    await box.sync()
    await box.check()


async def test_an_expired_cursor_loses_and_doubles_nothing(room, provider):
    box = await room.mailbox(provider, messages=60, days=20)
    await box.sync()
    person = Person(room.world.sim, box.address, seed=9)
    person.act(25)
    box.sim.post(f"mailboxes/{box.address}/expire-cursors")
    await box.sync()
    await box.check()


async def test_a_cursor_that_expires_during_the_first_listing_loses_and_doubles_nothing(room, provider):
    box = await room.mailbox(provider, messages=220, days=20)
    box.parts = replace(box.parts, slice_seconds=0)
    await box.sync_once()
    box.parts = replace(box.parts, slice_seconds=0.05)
    for _ in range(2):
        await box.sync_once()
    person = Person(room.world.sim, box.address, seed=10)
    person.act(20)
    box.sim.post(f"mailboxes/{box.address}/expire-cursors")
    await box.sync()
    await box.check()


async def test_an_emptied_mailbox_is_empty(room, provider):
    box = await room.mailbox(provider, messages=30, days=20)
    await box.sync()
    for each in box.sim.truth(box.address, digests=False):
        box.sim.delete(f"mailboxes/{box.address}/messages/{each['number']}")
    await box.sync()
    assert await box.check() == 0


async def test_only_the_window_is_mirrored_to_its_very_edge(room, provider):
    """Graph tells whole seconds, Gmail thousandths: messages lie close together where the window begins."""
    box = await room.mailbox(provider, messages=20, days=20)
    for _ in range(24):
        await room.move_clock(0.3)
        box.sim.deliver(box.address)
    Person(room.world.sim, box.address, seed=15).draft()
    await room.move_clock(30 * 86_400 - 3.6)
    await box.sync()
    since = await box.one("SELECT min(since) FROM cursors")
    assert 2 < await box.check(since=since) < 23


async def test_one_account_of_two_organizations_is_mirrored_by_each(
    room, provider, database_url, owner, other_organization, tmp_path
):
    box = await room.mailbox(provider, messages=30, days=20)
    async with postroom(room.world.sim, database_url, owner, other_organization, tmp_path) as other:
        twin = await other.connect(provider, box.address)
        await box.wake()
        await asyncio.gather(box.sync(), twin.sync())
        Person(room.world.sim, box.address, seed=11).act(15)
        await box.wake()
        await asyncio.gather(box.sync(), twin.sync())
        await box.check()
        await twin.check()


async def test_one_new_message_costs_three_requests(room, provider):
    box = await room.mailbox(provider, messages=30, days=20)
    person = Person(room.world.sim, box.address, seed=12)
    for number in range(6):
        person.make_folder(f"Folder {number}")
    await box.sync()
    before = box.sim.get("requests", limit=1)[0]["number"]
    told = box.sim.deliver(box.address)
    await box.hint(told["id"])
    await box.sync()
    await box.check()
    assert len(box.requests(after=before)) <= 3, [each["path"] for each in box.requests(after=before)]


async def test_a_withdrawn_consent_stops_the_sync_and_a_reconnect_goes_on(room, provider):
    box = await room.mailbox(provider, messages=30, days=20)
    await box.sync()
    box.sim.post(f"mailboxes/{box.address}/revoke")
    box.sim.post(f"mailboxes/{box.address}/expire-tokens")
    Person(room.world.sim, box.address, seed=13).act(10)
    await box.sync()
    assert await box.one("SELECT health FROM mailboxes") == "token_refresh_failed"
    await room.connect(provider, box.address)
    await box.sync()
    await box.check()
    assert await box.one("SELECT health FROM mailboxes") == "active"


@pytest.mark.parametrize("fault", [{"kind": "error", "status": 503}, {"kind": "cut"}, {"kind": "truncated"}])
async def test_answers_that_fail_now_and_then_lose_nothing(room, provider, fault):
    box = await room.mailbox(provider, messages=50, days=20)
    box.sim.fault(mailbox=box.address, probability=0.1, **fault)
    await box.sync(patiently=True)
    Person(room.world.sim, box.address, seed=14).act(10)
    await box.sync(patiently=True)
    box.sim.delete("faults")
    await room.move_clock(90_000)
    await box.sync()
    await box.check()
