"""How fast a mailbox is asked, on a clock that only moves when somebody waits."""

import asyncio
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.errors import RateLimited, TransientError
from postroom.providers.quotas import GMAIL, GRAPH, Quota, gmail_quota
from postroom.providers.rate_limit import (
    CallSlots,
    Clock,
    MailboxRateLimit,
    ProjectRateLimit,
    ProjectRateLimits,
    QuotaWindow,
)


class Waits:
    def __init__(self):
        self.now = 0.0

    async def sleep(self, seconds):
        self.now += seconds
        await asyncio.sleep(0)

    def clock(self):
        return Clock(lambda: self.now, self.sleep)


@pytest.fixture
def waits():
    return Waits()


def make(waits, quota=GMAIL["new"]):
    return MailboxRateLimit(quota, ProjectRateLimit(waits.clock()), waits.clock())


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 5, 20, 100, 1000]), st.floats(0, 20)), min_size=1, max_size=300)
)
@settings(max_examples=50, deadline=None)
def test_no_window_ever_holds_more_than_the_limit(asked):
    allowance, now = QuotaWindow(6000, 60, 0.0), 0.0
    window: deque[tuple[float, float]] = deque()
    for units, pause in asked:
        now += pause
        while wait := allowance.wait(units, now):
            now += wait
        allowance.take(units, now)
        window.append((now, units))
        assert sum(units for at, units in window if at > now - 60) <= 6000


def test_half_of_a_window_is_there_at_once_and_the_other_half_comes_evenly():
    allowance, now, taken = QuotaWindow(6000, 60, 0.0), 0.0, 0
    while not allowance.wait(20, now):
        allowance.take(20, now)
        taken += 20
    assert 2900 < taken < 3100
    assert 0 < allowance.wait(20, now) < 1  # new mail does not wait for a minute
    while now < 600:
        if wait := allowance.wait(20, now):
            now += wait
        else:
            allowance.take(20, now)
            taken += 20
    assert taken / 20 / (now / 60) >= 285  # messages a minute, of 300


async def test_the_pace_grants_as_many_calls_as_there_are_units_for_and_waits_for_the_rest(waits):
    pace = make(waits)
    granted = [(await pace.grant(20, 45))[0] for _ in range(8)]
    assert granted[:3] == [45, 45, 45]
    assert all(1 <= each <= 45 for each in granted)
    assert 0 < waits.now < 30
    assert (await pace.grant(20, 1))[0] == 1


async def test_units_come_back_a_window_after_the_answer_and_not_after_the_question(waits):
    pace = make(waits)
    _, spent = await pace.grant(2900, 1)
    await waits.sleep(30)  # until the provider has answered
    pace.answered(spent)
    await waits.sleep(55)
    before = waits.now
    await pace.grant(2900, 1)
    assert waits.now > before


async def test_what_was_used_of_a_window_is_told_and_forgotten_with_it(waits):
    pace = make(waits)
    assert pace.used == 0
    await pace.grant(20, 45)
    await waits.sleep(3)
    await pace.grant(100, 1)
    assert pace.used == 1000 / 6000
    await waits.sleep(59)
    assert pace.used < 1000 / 6000
    await waits.sleep(10)
    assert pace.used == 0


async def test_what_would_wait_too_long_becomes_a_matter_for_later(waits):
    pace = make(waits, Quota(1000, 600, 3, {}))
    await pace.grant(400, 1)
    with pytest.raises(TransientError) as caught:
        await pace.grant(400, 1)
    assert caught.value.retry_after > 60


async def test_what_the_provider_asks_for_is_waited_for_by_everybody_who_calls(waits):
    pace = make(waits)
    pace.refused(RateLimited("slower", retry_after=7))
    async with pace.turn():
        assert waits.now >= 7
    pace.refused(RateLimited("slower", retry_after=120))
    with pytest.raises(TransientError) as caught:
        async with pace.turn():
            pass
    assert caught.value.retry_after == pytest.approx(120)


async def test_refusals_that_tell_no_time_are_waited_out_longer_and_longer(waits):
    pace = make(waits)
    lengths = []
    for _ in range(3):
        before = waits.now
        pace.refused(RateLimited("slower"))
        await pace.grant(1, 1)
        lengths.append(waits.now - before)
    assert lengths == sorted(lengths)
    assert lengths[0] >= 1
    pace.accepted()
    before = waits.now
    pace.refused(RateLimited("slower"))
    await pace.grant(1, 1)
    assert waits.now - before < 2


async def test_a_refusal_for_all_mailboxes_slows_all_of_them_and_is_forgotten_in_time(waits):
    paces = ProjectRateLimits(Quota(1e9, 60, 4, {}), waits.clock())
    first, second = paces.of("first"), paces.of("second")

    async def rate(pace, seconds=10.0):
        start, spent = waits.now, 0
        while waits.now < start + seconds:
            await pace.grant(100, 1)
            await waits.sleep(0.01)
            spent += 100
        return spent / (waits.now - start)

    free = await rate(first)
    first.refused(RateLimited("all of you", retry_after=0, all_mailboxes=True))
    slowed = await rate(second)
    assert slowed < 0.8 * free
    await waits.sleep(20)
    assert slowed < await rate(second) < free
    await waits.sleep(700)
    assert await rate(second) == pytest.approx(free, rel=0.1)


async def test_a_batch_takes_all_places_and_is_not_overtaken_for_ever():
    turns = CallSlots(3)
    running, peak, order = 0, 0, []

    async def call(name, width):
        nonlocal running, peak
        async with turns.take(width):
            running += min(width, 3)
            peak = max(peak, running)
            order.append(name)
            await asyncio.sleep(0)
            running -= min(width, 3)

    await asyncio.gather(call("a", 1), call("b", 1), call("batch", 20), call("c", 1), call("d", 1))
    assert peak == 3
    assert order == ["a", "b", "batch", "c", "d"]


async def test_a_caller_that_gives_up_leaves_its_places_to_others():
    turns = CallSlots(3)
    async with turns.take(1):
        wide = asyncio.create_task(turns.take(3).__aenter__())
        await asyncio.sleep(0)
        wide.cancel()
        await asyncio.gather(wide, return_exceptions=True)
    async with asyncio.timeout(5), turns.take(3):
        pass


async def test_batches_shrink_to_what_an_account_answers_and_grow_slowly(waits):
    pace = make(waits)
    pace.crowded(12)
    assert pace.batch == 12
    pace.crowded(0)
    assert pace.batch == 5
    for _ in range(19):
        pace.roomy()
    assert pace.batch == 5
    pace.roomy()
    assert pace.batch == 6


@pytest.mark.parametrize("setting, messages", [("new", 300), ("old", 3000), ("12000", 600)])
def test_the_setting_names_how_many_messages_a_minute_gmail_gives(setting, messages):
    quota = gmail_quota(setting)
    assert quota.units / quota.cost("messages.get") == messages
    assert quota.cost("something new") == 1
