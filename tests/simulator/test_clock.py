"""The clock and the tasks that sleep on it."""

import asyncio
from datetime import UTC, datetime

import pytest

from mailsim.background import BackgroundTasks
from mailsim.clock import Clock

START = datetime(2026, 1, 5, 9, tzinfo=UTC)


async def test_a_manual_clock_does_not_advance_until_it_is_moved():
    clock = Clock(manual=True, start=START)
    await asyncio.sleep(0.01)
    assert clock.now() == START
    assert await clock.move(90) == clock.now() == clock.after(0)
    assert (clock.now() - START).total_seconds() == 90


async def test_a_real_clock_advances_and_can_be_moved():
    clock = Clock(start=START)
    assert clock.now() >= START
    await clock.move(3600)
    assert (clock.now() - START).total_seconds() >= 3600


@pytest.mark.parametrize("manual", [True, False])
async def test_moving_the_clock_wakes_sleepers_in_order_at_their_due_times(manual):
    clock = Clock(manual=manual, start=START)
    background = BackgroundTasks(clock)
    seen = []

    async def sleeper(seconds):
        await clock.sleep(seconds)
        seen.append((seconds, (clock.now() - START).total_seconds()))

    for seconds in (300, 100, 200, 5000):
        background.start(sleeper(seconds))
    await background.settle()
    await clock.move(1000)
    assert [seconds for seconds, _ in seen] == [100, 200, 300]
    assert all(seconds <= at < seconds + 50 for seconds, at in seen)
    await background.stop()


async def test_a_task_that_sleeps_repeatedly_wakes_every_time_during_a_long_move():
    clock = Clock(manual=True, start=START)
    background = BackgroundTasks(clock)
    attempts = []

    async def retrying():
        delay = 10.0
        while delay < 4 * 3600:
            attempts.append((clock.now() - START).total_seconds())
            await asyncio.sleep(0.002)  # a call over the network
            await clock.sleep(delay)
            delay *= 2

    background.start(retrying())
    await clock.move(4 * 3600)
    assert attempts == [10.0 * (2**n - 1) for n in range(11)]
    await background.stop()


async def test_a_task_that_waits_for_something_else_does_not_block_a_move():
    clock = Clock(manual=True, start=START)
    background = BackgroundTasks(clock)
    event = asyncio.Event()
    background.start(background.wait_idle(event.wait()))
    woken = background.start(clock.sleep(5))
    await background.settle()
    await clock.move(10)
    assert woken.done()
    await background.stop()


async def test_real_time_wakes_sleepers_too():
    clock = Clock()
    moment = clock.time() + 0.01
    await clock.sleep_until(moment)
    assert clock.time() >= moment


async def test_a_cancelled_sleeper_is_forgotten():
    clock = Clock(manual=True, start=START)
    sleeper = asyncio.create_task(clock.sleep(10))
    await asyncio.sleep(0)
    sleeper.cancel()
    await clock.move(20)
    assert sleeper.cancelled()
    assert not clock.sleeping


@pytest.mark.parametrize("seconds", [-1, 1e12, float("nan")])
async def test_the_clock_only_moves_forward(seconds):
    clock = Clock(manual=True, start=START)
    with pytest.raises(ValueError, match="forward"):
        await clock.move(seconds)
    assert clock.now() == START


async def test_a_failing_task_is_reported(caplog):
    background = BackgroundTasks(Clock(manual=True))

    async def failing():
        await asyncio.sleep(0)
        raise RuntimeError("the push module is wrong")

    background.start(failing(), "push")
    await background.settle()
    assert "push failed in the background" in caplog.text
