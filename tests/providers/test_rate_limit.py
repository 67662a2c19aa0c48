"""Rate limits of mailboxes, on a clock that moves only while something sleeps."""

import asyncio
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import examples
from postroom.errors import RateLimited, TransientError
from postroom.providers.quotas import GMAIL, Quota, gmail_quota
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
@settings(max_examples=examples(50), deadline=None)
def test_no_window_ever_contains_more_than_the_limit(asked):
    window, now = QuotaWindow(6000, 60, 0.0), 0.0
    recorded: deque[tuple[float, float]] = deque()
    for units, pause in asked:
        now += pause
        while wait := window.wait_seconds(units, now):
            now += wait
        window.spend(units, now)
        recorded.append((now, units))
        assert sum(units for at, units in recorded if at > now - 60) <= 6000


def test_half_of_the_quota_is_available_at_once_and_the_other_half_returns_steadily():
    window, now, taken = QuotaWindow(6000, 60, 0.0), 0.0, 0
    while not window.wait_seconds(20, now):
        window.spend(20, now)
        taken += 20
    assert 2900 < taken < 3100
    assert 0 < window.wait_seconds(20, now) < 1  # new mail does not wait for a minute
    while now < 600:
        if wait := window.wait_seconds(20, now):
            now += wait
        else:
            window.spend(20, now)
            taken += 20
    assert taken / 20 / (now / 60) >= 285  # messages a minute, of 300


async def test_as_many_calls_are_reserved_as_units_are_available(waits):
    rate_limit = make(waits)
    granted = [(await rate_limit.reserve(20, 45))[0] for _ in range(8)]
    assert granted[:3] == [45, 45, 45]
    assert all(1 <= each <= 45 for each in granted)
    assert 0 < waits.now < 30
    assert (await rate_limit.reserve(20, 1))[0] == 1


async def test_units_return_a_window_after_the_response_and_not_after_the_request(waits):
    rate_limit = make(waits)
    _, spent = await rate_limit.reserve(2900, 1)
    await waits.sleep(30)  # until the provider has answered
    rate_limit.record_response(spent)
    await waits.sleep(55)
    before = waits.now
    await rate_limit.reserve(2900, 1)
    assert waits.now > before


async def test_the_used_share_of_the_quota_is_reported_and_expires_with_the_window(waits):
    rate_limit = make(waits)
    assert rate_limit.used == 0
    await rate_limit.reserve(20, 45)
    await waits.sleep(3)
    await rate_limit.reserve(100, 1)
    assert rate_limit.used == 1000 / 6000
    await waits.sleep(59)
    assert rate_limit.used < 1000 / 6000
    await waits.sleep(10)
    assert rate_limit.used == 0


async def test_a_wait_that_is_too_long_is_raised_as_a_transient_error(waits):
    rate_limit = make(waits, Quota(1000, 600, 3, {}))
    await rate_limit.reserve(400, 1)
    with pytest.raises(TransientError) as caught:
        await rate_limit.reserve(400, 1)
    assert caught.value.retry_after > 60


async def test_all_callers_respect_the_wait_that_the_provider_requests(waits):
    rate_limit = make(waits)
    rate_limit.record_throttling(RateLimited("slower", retry_after=7))
    async with rate_limit.acquire():
        assert waits.now >= 7
    rate_limit.record_throttling(RateLimited("slower", retry_after=120))
    with pytest.raises(TransientError) as caught:
        async with rate_limit.acquire():
            pass
    assert caught.value.retry_after == pytest.approx(120)


async def test_throttling_without_a_time_backs_off_exponentially(waits):
    rate_limit = make(waits)
    lengths = []
    for _ in range(3):
        before = waits.now
        rate_limit.record_throttling(RateLimited("slower"))
        await rate_limit.reserve(1, 1)
        lengths.append(waits.now - before)
    assert lengths == sorted(lengths)
    assert lengths[0] >= 1
    rate_limit.record_success()
    before = waits.now
    rate_limit.record_throttling(RateLimited("slower"))
    await rate_limit.reserve(1, 1)
    assert waits.now - before < 2


async def test_throttling_of_the_project_slows_all_mailboxes_for_a_while(waits):
    rate_limits = ProjectRateLimits(Quota(1e9, 60, 4, {}), waits.clock())
    first, second = rate_limits.for_mailbox("first"), rate_limits.for_mailbox("second")

    async def rate(rate_limit, seconds=10.0):
        start, spent = waits.now, 0
        while waits.now < start + seconds:
            await rate_limit.reserve(100, 1)
            await waits.sleep(0.01)
            spent += 100
        return spent / (waits.now - start)

    free = await rate(first)
    first.record_throttling(RateLimited("all of you", retry_after=0, all_mailboxes=True))
    slowed = await rate(second)
    assert slowed < 0.8 * free
    await waits.sleep(20)
    assert slowed < await rate(second) < free
    await waits.sleep(700)
    assert await rate(second) == pytest.approx(free, rel=0.1)


async def test_a_batch_takes_all_slots_and_does_not_starve():
    slots = CallSlots(3)
    running, peak, order = 0, 0, []

    async def call(name, width):
        nonlocal running, peak
        async with slots.acquire(width):
            running += min(width, 3)
            peak = max(peak, running)
            order.append(name)
            await asyncio.sleep(0)
            running -= min(width, 3)

    await asyncio.gather(call("a", 1), call("b", 1), call("batch", 20), call("c", 1), call("d", 1))
    assert peak == 3
    assert order == ["a", "b", "batch", "c", "d"]


async def test_a_cancelled_caller_releases_its_slots():
    slots = CallSlots(3)
    async with slots.acquire(1):
        wide = asyncio.create_task(slots.acquire(3).__aenter__())
        await asyncio.sleep(0)
        wide.cancel()
        await asyncio.gather(wide, return_exceptions=True)
    async with asyncio.timeout(5), slots.acquire(3):
        pass


async def test_batches_shrink_to_what_an_account_allows_and_grow_slowly(waits):
    rate_limit = make(waits)
    rate_limit.shrink_batch(12)
    assert rate_limit.max_batch_parts == 12
    rate_limit.shrink_batch(0)
    assert rate_limit.max_batch_parts == 5
    for _ in range(19):
        rate_limit.record_complete_batch()
    assert rate_limit.max_batch_parts == 5
    rate_limit.record_complete_batch()
    assert rate_limit.max_batch_parts == 6


@pytest.mark.parametrize("setting, messages", [("new", 300), ("old", 3000), ("12000", 600)])
def test_the_quota_setting_decides_how_many_messages_a_minute_gmail_allows(setting, messages):
    quota = gmail_quota(setting)
    assert quota.units / quota.cost("messages.get") == messages
    assert quota.cost("something new") == 1
