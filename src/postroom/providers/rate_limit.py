"""Rate limits of mailboxes: quota units per window, concurrent requests, requested waits.

A mailbox's limit is shared by all of its requests in this process. Short waits happen here; a long one is
raised as a TransientError with `retry_after`. Knows no provider and sends nothing.
"""

import asyncio
import random
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from postroom.errors import RateLimited, RateLimitWait
from postroom.providers.quotas import Quota

MAX_RETRY_AFTER_SECONDS: Final = 10.0  # that the provider requests
MAX_QUOTA_WAIT_SECONDS: Final = 60.0  # that our own accounting requires
_MAX_REMEMBERED_MAILBOXES: Final = 10_000
_MAX_BATCH_PARTS: Final = 50
_MIN_BATCH_PARTS: Final = 5
_BATCH_BYTES: Final = 8 * 2**20
_BATCHES_BEFORE_GROWTH: Final = 20


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic time and sleeping. Tests use their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(slots=True)
class QuotaSpend:
    """Units spent from the burst half, and the latest time at which the provider counted them."""

    at: float
    units: float


class QuotaWindow:
    """Units of a sliding window.

    One half may be spent in a burst and returns a window later. The other half returns steadily, so that new
    mail never waits for a whole window while old mail is being listed.
    """

    def __init__(self, units: float, seconds: float, now: float) -> None:
        # The provider counts a request at another moment than we do: margins cover the difference. For the
        # burst half, the latest possible moment is known.
        usable = units * 0.985
        self._window = seconds + 0.25
        self._burst = usable / 2
        self._rate = usable / 2 / (seconds + 1)
        self._max_saved = units * 0.015
        self._saved = self._max_saved
        self._updated_at = now
        self._spent: deque[QuotaSpend] = deque()
        self._burst_spent = 0.0

    def available(self, now: float) -> float:
        self._saved = min(self._max_saved, self._saved + (now - self._updated_at) * self._rate)
        self._updated_at = now
        while self._spent and self._spent[0].at <= now - self._window:
            self._burst_spent -= self._spent.popleft().units
        return self._saved + self._burst - self._burst_spent

    def wait_seconds(self, units: float, now: float) -> float:
        """Seconds until this many units may be available; 0 if they are."""
        missing = min(units, self._burst) - self.available(now)
        if missing <= 0:
            return 0.0
        saved = missing / self._rate if self._saved + missing <= self._max_saved else self._window
        returned = self._spent[0].at + self._window - now if self._spent else self._window
        return max(min(saved, returned), 0.01)

    def spend(self, units: float, now: float) -> QuotaSpend:
        """Spend available units, from the steady half first. The caller updates `at` after the response."""
        units = min(units, self.available(now))
        from_saved = min(units, self._saved)
        self._saved -= from_saved
        spent = QuotaSpend(now, units - from_saved)
        if spent.units > 0:
            self._spent.append(spent)
            self._burst_spent += spent.units
        return spent


class UsageMeter:
    """Units spent within the last window, in steps of a tenth of it."""

    def __init__(self, seconds: float) -> None:
        self._tenth = seconds / 10
        self._spent: deque[tuple[int, float]] = deque()

    def add(self, units: float, now: float) -> None:
        tenth = int(now / self._tenth)
        before = self._spent.pop()[1] if self._spent and self._spent[-1][0] == tenth else 0.0
        self._spent.append((tenth, before + units))

    def spent(self, now: float) -> float:
        while self._spent and self._spent[0][0] <= int(now / self._tenth) - 10:
            self._spent.popleft()
        return sum(units for _, units in self._spent)


class ProjectRateLimit:
    """The limit that all mailboxes of a project share.

    Providers do not publish what is left of it, so it is learned: throttling lowers the rate below the
    current one, after which it rises slowly again.
    """

    _MEASURED_SECONDS: Final = 10.0
    _FORGOTTEN_SECONDS: Final = 600.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: deque[tuple[float, float]] = deque()
        self._rate: float | None = None  # units per second; None if no limit is known
        self._throttled_at = 0.0
        self._raised_at = 0.0
        self._free_at = 0.0

    async def spend(self, units: float) -> None:
        now = self._clock.now()
        self._spent.append((now, units))
        while self._spent[0][0] < now - self._MEASURED_SECONDS:
            self._spent.popleft()
        rate = self._current(now)
        if rate is None:
            return
        start = max(now, self._free_at)
        self._free_at = start + units / rate
        if start > now:
            await self._clock.sleep(start - now)

    def record_throttling(self) -> None:
        now = self._clock.now()
        if self._rate is not None and now - self._throttled_at < 1:
            return  # concurrent requests are throttled together
        measured = sum(units for _, units in self._spent) / self._MEASURED_SECONDS
        self._rate = max(1.0, 0.7 * min(measured, self._rate or measured))
        self._throttled_at = self._raised_at = now

    def _current(self, now: float) -> float | None:
        if self._rate is not None:
            if now - self._throttled_at > self._FORGOTTEN_SECONDS:
                self._rate = None
            else:
                self._rate *= 1.01 ** (now - self._raised_at)
                self._raised_at = now
        return self._rate


class CallSlots:
    """Limits concurrent requests. A batch, whose parts run concurrently there, takes several slots."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._slots = asyncio.Semaphore(most)
        self._queue = asyncio.Lock()

    @asynccontextmanager
    async def acquire(self, width: int) -> AsyncGenerator[None]:
        taken = 0
        try:
            async with self._queue:  # first come, first served, so that a wide request does not starve
                while taken < min(width, self._most):
                    await self._slots.acquire()
                    taken += 1
            yield
        finally:
            for _ in range(taken):
                self._slots.release()


class MailboxRateLimit:
    """The rate limit of one mailbox, shared by all requests of this process."""

    def __init__(self, quota: Quota, project: ProjectRateLimit, clock: Clock) -> None:
        self.quota = quota
        self.clock = clock
        self._batch = _MAX_BATCH_PARTS  # fewer if the account allows fewer at a time
        self._bytes_each = 1.0
        self._project = project
        self._window_units = QuotaWindow(quota.units, quota.seconds, clock.now())
        self._meter = UsageMeter(quota.seconds)
        self._call_slots = CallSlots(quota.concurrent)
        self._order = asyncio.Lock()
        self._blocked_until = 0.0
        self._throttled_count = 0
        self._complete_batches = 0

    @asynccontextmanager
    async def acquire(self, units: float = 1, width: int = 1) -> AsyncGenerator[None]:
        """Wait for quota and for `width` free slots, and hold the slots until the block ends."""
        _, spent = await self.reserve(units, 1)
        try:
            async with self._call_slots.acquire(width):
                yield
        finally:
            self.record_response(spent)

    async def reserve(self, cost: float, most: int) -> tuple[int, QuotaSpend]:
        """Spend units for at least one and at most `most` requests of this cost; returns how many."""
        async with self._order:
            await self._wait_for_provider()
            least = cost * min(most, 4)  # fewer are not worth a round trip
            while wait := self._window_units.wait_seconds(least, self.clock.now()):
                await self._sleep(
                    wait, MAX_QUOTA_WAIT_SECONDS, "the mailbox's quota is used up for the moment"
                )
            now = self.clock.now()
            count = min(most, max(1, int(self._window_units.available(now) / cost))) if cost else most
            spent = self._window_units.spend(cost * count, now)
            self._meter.add(cost * count, now)
        await self._project.spend(cost * count)
        return count, spent

    @property
    def used(self) -> float:
        """The share of the quota that was spent within the last window: 1 is all."""
        return self._meter.spent(self.clock.now()) / self.quota.units

    def record_response(self, spent: QuotaSpend) -> None:
        """Note that the provider has counted these units by now."""
        spent.at = max(spent.at, self.clock.now())

    def record_throttling(self, error: RateLimited) -> None:
        """Block the mailbox as long as the provider requests, or else with exponential backoff."""
        if error.all_mailboxes:
            self._project.record_throttling()
        self._throttled_count += 1
        requested = error.retry_after
        wait = (
            requested
            if requested is not None
            else min(2 ** (self._throttled_count - 1), 32) * random.uniform(1, 1.5)
        )
        self._blocked_until = max(self._blocked_until, self.clock.now() + wait)

    def record_success(self) -> None:
        self._throttled_count = 0

    def record_sizes(self, size: int, parts: int) -> None:
        """Learn the size of parts, so that the next batch fits into memory."""
        weight = min(parts / 20, 1)
        self._bytes_each += weight * (size / parts - self._bytes_each)

    @property
    def max_batch_parts(self) -> int:
        """The number of parts that a batch may have now."""
        return max(1, min(self._batch, int(_BATCH_BYTES / self._bytes_each)))

    def shrink_batch(self, succeeded: int) -> None:
        """Reduce the batch size: too many parts ran concurrently, and only this many succeeded."""
        self._batch = max(_MIN_BATCH_PARTS, min(self._batch * 2 // 3, succeeded))
        self._complete_batches = 0

    def record_complete_batch(self) -> None:
        """Increase the batch size by one after several complete batches."""
        self._complete_batches += 1
        if self._complete_batches % _BATCHES_BEFORE_GROWTH == 0:
            self._batch = min(_MAX_BATCH_PARTS, self._batch + 1)

    async def _wait_for_provider(self) -> None:
        while (wait := self._blocked_until - self.clock.now()) > 0:
            await self._sleep(wait, MAX_RETRY_AFTER_SECONDS, "The provider limits the request rate.")

    async def _sleep(self, wait: float, longest: float, why: str) -> None:
        if wait > longest:
            raise RateLimitWait(why, retry_after=wait)
        await self.clock.sleep(wait)


class ProjectRateLimits:
    """The rate limits of all mailboxes of one project, and their common limit."""

    def __init__(self, quota: Quota, clock: Clock) -> None:
        self._quota = quota
        self._clock = clock
        self._project = ProjectRateLimit(clock)
        self._by_mailbox: OrderedDict[str, MailboxRateLimit] = OrderedDict()

    def for_mailbox(self, user_id: str) -> MailboxRateLimit:
        rate_limit = self._by_mailbox.get(user_id)
        if rate_limit is None:
            rate_limit = self._by_mailbox[user_id] = MailboxRateLimit(self._quota, self._project, self._clock)
            if len(self._by_mailbox) > _MAX_REMEMBERED_MAILBOXES:
                self._by_mailbox.popitem(last=False)
        self._by_mailbox.move_to_end(user_id)
        return rate_limit
