"""Group commit: every caller learns what happened to its own write, and none waits longer than it may."""

import asyncio

import pytest

from postroom.errors import TransientError
from postroom.store.group_commit import GroupCommit, WaitLimits


class Writes:
    """A flush that a test lets through, fails or holds, group by group."""

    def __init__(self):
        self.groups = asyncio.Queue()

    async def flush(self, items):
        outcome = asyncio.get_running_loop().create_future()
        self.groups.put_nowait((list(items), outcome))
        await outcome
        return [f"written {item}" for item in items]

    async def next_group(self):
        return await asyncio.wait_for(self.groups.get(), 60)


@pytest.fixture
def writes():
    return Writes()


async def start_writing(group, *items, **since):
    """Begin to write the items, and return once they wait."""
    tasks = [asyncio.create_task(group.write(item, **since)) for item in items]
    await asyncio.sleep(0)
    return tasks


async def test_items_that_arrive_during_a_flush_form_the_next_group(writes):
    group = GroupCommit(writes.flush)
    [first] = await start_writing(group, "a")
    items, done = await writes.next_group()
    rest = await start_writing(group, "b", "c")
    assert (items, first.done()) == (["a"], False)
    done.set_result(None)
    items, done = await writes.next_group()
    assert (items, await first, [each.done() for each in rest]) == (["b", "c"], "written a", [False, False])
    done.set_result(None)
    assert await asyncio.gather(*rest) == ["written b", "written c"]


@pytest.mark.parametrize("limits", [None, WaitLimits(max_waiting=9, queue_seconds=60, write_seconds=60)])
async def test_no_item_is_answered_if_its_write_failed(writes, limits):
    """An answer to a push promises that it is stored: the provider never sends it again."""
    group = GroupCommit(writes.flush, **({"limits": limits} if limits else {}))
    failing = await start_writing(group, "a", "b")
    items, done = await writes.next_group()
    assert items == ["a", "b"]
    done.set_exception(ZeroDivisionError())
    results = await asyncio.gather(*failing, return_exceptions=True)
    assert [type(result) for result in results] == [ZeroDivisionError] * 2
    [later] = await start_writing(group, "c")
    items, done = await writes.next_group()
    done.set_result(None)
    assert (items, await later) == (["c"], "written c"), "the next group is written as usual"


async def test_items_behind_a_failed_write_fail_with_it_if_waiting_is_limited(writes):
    group = GroupCommit(writes.flush, limits=WaitLimits(max_waiting=9, queue_seconds=60, write_seconds=60))
    await start_writing(group, "a")
    _, done = await writes.next_group()
    [behind] = await start_writing(group, "b")
    done.set_exception(TransientError("the database is gone"))
    with pytest.raises(TransientError, match="the database is gone"):
        await behind


async def test_a_write_that_takes_too_long_is_not_answered(writes):
    group = GroupCommit(writes.flush, limits=WaitLimits(max_waiting=9, queue_seconds=60, write_seconds=0.01))
    with pytest.raises(TransientError, match="Timed out writing"):
        await group.write("a")
    _, done = await writes.next_group()
    assert done.cancelled()


LIMITED = WaitLimits(max_waiting=2, queue_seconds=1.5, write_seconds=60)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


async def test_items_that_waited_too_long_behind_a_write_are_never_written(writes, clock):
    group = GroupCommit(writes.flush, limits=LIMITED, clock=clock)
    await start_writing(group, "a")
    _, done = await writes.next_group()
    late = await start_writing(group, "b", "c")
    clock.now += 1.6
    done.set_result(None)
    results = await asyncio.gather(*late, return_exceptions=True)
    assert [str(result) for result in results] == ["Timed out waiting to write"] * 2
    [later] = await start_writing(group, "d")
    items, done = await writes.next_group()
    done.set_result(None)
    assert (items, await later) == (["d"], "written d"), "no empty group was written in between"


async def test_the_time_before_an_item_is_handed_over_is_part_of_its_wait(writes, clock):
    group = GroupCommit(writes.flush, limits=LIMITED, clock=clock)
    with pytest.raises(TransientError, match="Timed out waiting to write"):
        await group.write("a", waiting_since=clock.now - 1.6)
    await start_writing(group, "b")
    _, done = await writes.next_group()
    [early] = await start_writing(group, "c", waiting_since=clock.now - 1)
    [late] = await start_writing(group, "d", waiting_since=clock.now)
    clock.now += 1
    done.set_result(None)
    items, done = await writes.next_group()
    done.set_result(None)
    assert (items, await late) == (["d"], "written d")
    with pytest.raises(TransientError, match="Timed out waiting to write"):
        await early


async def test_items_beyond_a_full_queue_are_rejected_at_once(writes, clock):
    group = GroupCommit(writes.flush, limits=LIMITED, clock=clock)
    await start_writing(group, "a")
    await writes.next_group()
    await start_writing(group, "b", "c")
    with pytest.raises(TransientError, match="Write queue is full"):
        await group.write("d")
