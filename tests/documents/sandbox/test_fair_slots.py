"""Slots of the sandbox: organizations take turns, and a long task of one never blocks another."""

import asyncio
from uuid import UUID

import pytest

from postroom.documents.sandbox.fair_slots import FairSlots

FLOODING, QUIET, THIRD = (UUID(int=number) for number in (1, 2, 3))


class SlotHolders:
    """Tasks that take a slot each and hold it until they are ended; `started` lists them in order."""

    def __init__(self, slots):
        self.slots = slots
        self.started = []
        self.tasks = {}
        self.ends = {}

    async def begin(self, owner, name):
        self.ends[name] = asyncio.get_running_loop().create_future()

        async def hold():
            async with self.slots.take(owner) as use:
                self.started.append(name)
                use.cpu_seconds = await self.ends[name]

        self.tasks[name] = asyncio.create_task(hold())
        await asyncio.sleep(0)  # it took a slot, or waits for one

    async def end(self, name, cpu_seconds=1.0):
        self.ends[name].set_result(cpu_seconds)
        await self.tasks[name]
        await asyncio.sleep(0)  # the next one started


@pytest.fixture
async def flooded():
    """Two slots, both taken by one organization, of which ten more tasks wait."""
    holders = SlotHolders(FairSlots(2))
    for number in range(12):
        await holders.begin(FLOODING, f"flood {number}")
    assert holders.started == ["flood 0", "flood 1"]
    yield holders
    for task in holders.tasks.values():
        task.cancel()
    await asyncio.gather(*holders.tasks.values(), return_exceptions=True)
    assert not holders.slots.waiting
    assert not holders.slots.running.total()


async def test_one_flooding_organization_delays_no_other(flooded):
    await flooded.begin(QUIET, "quiet")
    assert flooded.started[-1] == "quiet"


async def test_the_additional_slot_is_for_organizations_that_run_nothing(flooded):
    await flooded.begin(QUIET, "quiet 0")
    await flooded.begin(QUIET, "quiet 1")
    await flooded.begin(THIRD, "third")
    assert flooded.started == ["flood 0", "flood 1", "quiet 0"]
    await flooded.end("quiet 0")
    assert flooded.started[3:] == ["third"]


async def test_a_free_slot_goes_to_the_organization_that_used_the_least_cpu_time(flooded):
    for name, owner in [("quiet 0", QUIET), ("third 0", THIRD), ("quiet 1", QUIET), ("third 1", THIRD)]:
        await flooded.begin(owner, name)
    await flooded.end("quiet 0", cpu_seconds=5.0)
    assert flooded.started[3:] == ["third 0"]
    await flooded.end("third 0", cpu_seconds=0.1)
    assert flooded.started[4:] == ["third 1"]  # although the other waited longer


async def test_an_organization_that_was_idle_has_no_credit():
    holders = SlotHolders(FairSlots(1))
    await holders.begin(FLOODING, "flood 0")
    await holders.begin(FLOODING, "flood 1")
    await holders.end("flood 0", cpu_seconds=100.0)
    await holders.begin(QUIET, "quiet 0")
    for name in ("flood 2", "flood 3"):
        await holders.begin(FLOODING, name)
    await holders.begin(QUIET, "quiet 1")
    await holders.end("flood 1", cpu_seconds=0.0)
    await holders.end("quiet 0", cpu_seconds=1.0)
    # One has used 100 seconds and the other 101.
    assert holders.started == ["flood 0", "flood 1", "quiet 0", "flood 2", "quiet 1"]
    for name in ("flood 2", "quiet 1", "flood 3"):
        await holders.end(name)


async def test_a_cancelled_wait_loses_no_slot(flooded):
    await flooded.begin(QUIET, "quiet")
    flooded.tasks["flood 2"].cancel()  # it waits, and is next
    await flooded.end("quiet")
    await flooded.end("flood 0")
    await flooded.end("flood 1")
    assert flooded.started[3:] == ["flood 3", "flood 4"]


async def test_cpu_time_is_reported_once_by_organization(flooded):
    await flooded.begin(QUIET, "quiet")
    await flooded.end("quiet", cpu_seconds=2.0)
    await flooded.end("flood 0", cpu_seconds=3.0)
    assert flooded.slots.take_unrecorded() == {QUIET: 2.0, FLOODING: 3.0}
    assert flooded.slots.take_unrecorded() == {}
