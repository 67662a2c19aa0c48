"""W1: the feed is read in order of positions and without gaps, however transactions interleave."""

import asyncio

import pytest

from ledger_sealing import run_seal
from postroom.flow.ledger import seal
from postroom.model import WorkKind
from postroom.store import feed, work
from postroom.store.feed import FeedBounds, NewEvent


@pytest.fixture
def append(database, organization):
    async def append(*names, to=organization):
        async with database.transaction(to) as connection:
            await feed.append_events(
                connection, [NewEvent("document.changed", "document", name) for name in names]
            )

    return append


@pytest.fixture
def read(database, organization):
    """Assign positions and read the events after a position."""

    async def read(position=0, *, of=organization, limit=1000, **filters):
        async with database.transaction(of) as connection:
            await feed.assign_positions(connection)
        async with database.transaction(of) as connection:
            return await feed.list_after(connection, position, limit, **filters)

    return read


def names(events):
    return [event.entity_id for event in events]


async def test_events_are_numbered_from_one_without_gaps_in_append_order(append, read):
    await append("a", "b")
    await append("c")
    found = await read()
    assert names(found) == ["a", "b", "c"]
    assert [event.position for event in found] == [1, 2, 3]
    assert names(await read(2)) == ["c"]
    assert names(await read(0, limit=1)) == ["a"]
    assert await read(3) == []


async def test_event_carries_its_data(database, organization, read):
    async with database.transaction(organization) as connection:
        await feed.append_event(
            connection, "document.changed", "document", "d1", {"state": "completed", "fields": 3}
        )
    [event] = await read()
    assert (event.kind, event.entity_type) == ("document.changed", "document")
    assert event.data == {"state": "completed", "fields": 3}


async def test_open_transaction_blocks_no_reader_and_its_event_is_not_missed(
    database, organization, append, read
):
    async with database.transaction(organization) as connection:
        await feed.append_event(connection, "document.changed", "document", "slow")
        await append("quick", "quicker")
        seen = await read()
        assert names(seen) == ["quick", "quicker"]
    later = await read(seen[-1].position)
    assert names(later) == ["slow"]
    assert later[0].id < seen[0].id, "its id is older, its place is not"


async def test_rolled_back_event_leaves_no_gap(database, organization, append, read):
    async with database.transaction(organization) as connection:
        await feed.append_event(connection, "document.changed", "document", "undone")
        await connection.execute("ROLLBACK")
        await connection.execute("BEGIN")
    await append("done")
    assert [(event.entity_id, event.position) for event in await read()] == [("done", 1)]


async def test_concurrently_numbering_readers_see_every_event_once(append, read):
    async def follow(count):
        position, seen = 0, []
        while len(seen) < count:
            found = await read(position)
            position = found[-1].position if found else position
            seen += found
        return names(seen), [event.position for event in seen]

    followers = [asyncio.create_task(follow(60)) for _ in range(4)]
    async with asyncio.TaskGroup() as writers:
        for writer in range(6):
            writers.create_task(_write_ten(append, writer))
    results = await asyncio.gather(*followers)
    assert all(result == results[0] for result in results)
    assert results[0][1] == list(range(1, 61))
    assert len(set(results[0][0])) == 60


async def _write_ten(append, writer):
    for number in range(10):
        await append(f"{writer}-{number}")


async def test_each_organization_has_its_own_feed(append, read, other_organization):
    await append("ours")
    await append("theirs", to=other_organization)
    assert [(event.entity_id, event.position) for event in await read()] == [("ours", 1)]
    assert names(await read(of=other_organization)) == ["theirs"]


async def test_feed_can_be_filtered_by_entity_type(database, organization, append, read):
    await append("d1")
    async with database.transaction(organization) as connection:
        await feed.append_event(connection, "mailbox.paused", "mailbox", "m1")
    assert names(await read(entity_type="mailbox")) == ["m1"]


async def test_new_event_makes_numbering_due(database, organization, append, tmp_path):
    listening = asyncio.create_task(seal.keep_scheduled(database))
    try:
        await append("a")
        lease = await _claimed(database)
        await run_seal(database, tmp_path, lease)
    finally:
        listening.cancel()
    async with database.transaction(organization) as connection:
        assert await feed.get_bounds(connection) == FeedBounds(0, 1)
        assert names(await feed.list_after(connection, 0, 10)) == ["a"]


async def _claimed(database):
    while True:
        async with database.engine() as connection:
            claim = await work.claim(connection, [WorkKind.SEAL], batch=1, lease_seconds=60)
        if claim.leases:
            return claim.leases[0]
        await asyncio.sleep(0.01)


async def test_pruned_events_are_known_by_their_last_position(
    database, organization, append, read, move_clock
):
    await append("old", "older")
    await read()
    await move_clock(3600)
    await append("new")
    await read()
    async with database.transaction(organization) as connection:
        assert await feed.prune(connection, older_than_seconds=1800) == 2
        assert await feed.prune(connection, older_than_seconds=1800) == 0
        assert await feed.get_bounds(connection) == FeedBounds(2, 3)
        assert names(await feed.list_after(connection, 0, 10)) == ["new"]
