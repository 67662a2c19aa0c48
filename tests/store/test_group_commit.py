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


async def start_writing(group, *items):
    """Begin to write the items, and return once they wait."""
    tasks = [asyncio.create_task(group.write(item)) for item in items]
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
