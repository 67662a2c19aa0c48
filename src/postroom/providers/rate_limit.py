"""How fast a mailbox is asked: units in a window, calls at a time, patience where the provider asks for it.

A mailbox's pace is shared by all who call for it in this process. Short waits happen here; a long one becomes
a TransientError that carries it. Knows no provider.
"""

import asyncio
import random
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from postroom.errors import RateLimited, TransientError
from postroom.providers.quotas import Quota

LONGEST_PATIENCE_SECONDS: Final = 10.0  # that a provider asks for
LONGEST_PACING_SECONDS: Final = 60.0  # that our own pace asks for
_MAILBOXES_REMEMBERED: Final = 10_000
_LARGEST_BATCH: Final = 50
_SMALLEST_BATCH: Final = 5
_BATCH_BYTES: Final = 8 * 2**20
_BATCHES_BEFORE_A_LARGER: Final = 20


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds that only rise, and waiting. Tests bring their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(slots=True)
class QuotaSpend:
    """Units of the half that comes back at once, and when the provider counted them at the latest."""

    at: float
    units: float


class QuotaWindow:
    """Units of a moving window. One half may be spent at once and comes back a window later; the other half
    comes evenly, so that new mail never waits for the whole window however much old mail is being read.
    """

    def __init__(self, units: float, seconds: float, now: float) -> None:
        # What is spent here at one moment is counted there at another: margins for the difference. Of the
        # half that comes back at once it is known when it was counted at the latest.
        usable = units * 0.985
        self._window = seconds + 0.25
        self._burst = usable / 2
        self._rate = usable / 2 / (seconds + 1)
        self._most_saved = units * 0.015
        self._saved = self._most_saved
        self._seen = now
        self._spent: deque[QuotaSpend] = deque()
        self._out = 0.0

    def free(self, now: float) -> float:
        self._saved = min(self._most_saved, self._saved + (now - self._seen) * self._rate)
        self._seen = now
        while self._spent and self._spent[0].at <= now - self._window:
            self._out -= self._spent.popleft().units
        return self._saved + self._burst - self._out

    def wait(self, units: float, now: float) -> float:
        """Seconds until it is worth asking whether so many are free; 0 where they are."""
        missing = min(units, self._burst) - self.free(now)
        if missing <= 0:
            return 0.0
        saved = missing / self._rate if self._saved + missing <= self._most_saved else self._window
        returned = self._spent[0].at + self._window - now if self._spent else self._window
        return max(min(saved, returned), 0.01)

    def take(self, units: float, now: float) -> QuotaSpend:
        """Take what is free: of the even half first. Whoever was answered later than now says so."""
        units = min(units, self.free(now))
        from_saved = min(units, self._saved)
        self._saved -= from_saved
        spent = QuotaSpend(now, units - from_saved)
        if spent.units > 0:
            self._spent.append(spent)
            self._out += spent.units
        return spent


class UsageMeter:
    """Units spent in the window until now, by its tenths."""

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
    """What all mailboxes of a project spend together. Nobody publishes what is left of that, so it is
    learned: a refusal lowers the rate below the one at which it came, and then it rises slowly again.
    """

    _MEASURED_SECONDS: Final = 10.0
    _FORGOTTEN_SECONDS: Final = 600.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._spent: deque[tuple[float, float]] = deque()
        self._rate: float | None = None  # units a second; None: no limit is known
        self._refused = 0.0
        self._raised = 0.0
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

    def refused(self) -> None:
        now = self._clock.now()
        if self._rate is not None and now - self._refused < 1:
            return  # calls that were under way together tell the same thing
        measured = sum(units for _, units in self._spent) / self._MEASURED_SECONDS
        self._rate = max(1.0, 0.7 * min(measured, self._rate or measured))
        self._refused = self._raised = now

    def _current(self, now: float) -> float | None:
        if self._rate is not None:
            if now - self._refused > self._FORGOTTEN_SECONDS:
                self._rate = None
            else:
                self._rate *= 1.01 ** (now - self._raised)
                self._raised = now
        return self._rate


class CallSlots:
    """So many calls at a time. A batch, whose parts run side by side there, takes several places."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places = asyncio.Semaphore(most)
        self._door = asyncio.Lock()

    @asynccontextmanager
    async def take(self, width: int) -> AsyncGenerator[None]:
        taken = 0
        try:
            async with self._door:  # in order, so that a wide one is not overtaken for ever
                while taken < min(width, self._most):
                    await self._places.acquire()
                    taken += 1
            yield
        finally:
            for _ in range(taken):
                self._places.release()


class MailboxRateLimit:
    """Of one mailbox."""

    def __init__(self, quota: Quota, everybody: ProjectRateLimit, clock: Clock) -> None:
        self.quota = quota
        self.clock = clock
        self._batch = _LARGEST_BATCH  # fewer where the account answers fewer at a time
        self._bytes_each = 1.0
        self._everybody = everybody
        self._allowance = QuotaWindow(quota.units, quota.seconds, clock.now())
        self._meter = UsageMeter(quota.seconds)
        self._turns = CallSlots(quota.concurrent)
        self._order = asyncio.Lock()
        self._blocked_until = 0.0
        self._refusals = 0
        self._roomy = 0

    @asynccontextmanager
    async def turn(self, units: float = 1, width: int = 1) -> AsyncGenerator[None]:
        """A call that costs so many units; `width`: how many of it run at the same time."""
        _, spent = await self.grant(units, 1)
        try:
            async with self._turns.take(width):
                yield
        finally:
            self.answered(spent)

    async def grant(self, cost: float, most: int) -> tuple[int, QuotaSpend]:
        """How many calls of this cost may be made now, at least one and at most so many. They are spent."""
        async with self._order:
            await self._patience()
            least = cost * min(most, 4)  # fewer are not worth a round trip
            while wait := self._allowance.wait(least, self.clock.now()):
                await self._sleep(wait, LONGEST_PACING_SECONDS, "the mailbox's quota is used up for now")
            now = self.clock.now()
            count = min(most, max(1, int(self._allowance.free(now) / cost))) if cost else most
            spent = self._allowance.take(cost * count, now)
            self._meter.add(cost * count, now)
        await self._everybody.spend(cost * count)
        return count, spent

    @property
    def used(self) -> float:
        """How much of what the window allows was spent in it: 1 is all."""
        return self._meter.spent(self.clock.now()) / self.quota.units

    def answered(self, spent: QuotaSpend) -> None:
        """The provider counted these at some time until now."""
        spent.at = max(spent.at, self.clock.now())

    def refused(self, error: RateLimited) -> None:
        """The provider asks for patience; nobody calls for this mailbox before it ends."""
        if error.all_mailboxes:
            self._everybody.refused()
        self._refusals += 1
        told = error.retry_after
        wait = told if told is not None else min(2 ** (self._refusals - 1), 32) * random.uniform(1, 1.5)
        self._blocked_until = max(self._blocked_until, self.clock.now() + wait)

    def accepted(self) -> None:
        self._refusals = 0

    def weighed(self, size: int, parts: int) -> None:
        """So many bytes came for so many parts: the next batch shall not be larger than can be held."""
        weight = min(parts / 20, 1)
        self._bytes_each += weight * (size / parts - self._bytes_each)

    @property
    def batch(self) -> int:
        """How many parts a batch may have."""
        return max(1, min(self._batch, int(_BATCH_BYTES / self._bytes_each)))

    def crowded(self, answered: int) -> None:
        """Too many parts ran at the same time, and only so many were answered."""
        self._batch = max(_SMALLEST_BATCH, min(self._batch * 2 // 3, answered))
        self._roomy = 0

    def roomy(self) -> None:
        """A batch was answered whole; after some of them a larger one is tried."""
        self._roomy += 1
        if self._roomy % _BATCHES_BEFORE_A_LARGER == 0:
            self._batch = min(_LARGEST_BATCH, self._batch + 1)

    async def _patience(self) -> None:
        while (wait := self._blocked_until - self.clock.now()) > 0:
            await self._sleep(wait, LONGEST_PATIENCE_SECONDS, "the provider asks for patience")

    async def _sleep(self, wait: float, longest: float, why: str) -> None:
        if wait > longest:
            raise TransientError(why, retry_after=wait)
        await self.clock.sleep(wait)


class ProjectRateLimits:
    """The paces of one project's mailboxes, and what they spend together."""

    def __init__(self, quota: Quota, clock: Clock) -> None:
        self._quota = quota
        self._clock = clock
        self._everybody = ProjectRateLimit(clock)
        self._known: OrderedDict[str, MailboxRateLimit] = OrderedDict()

    def of(self, user_id: str) -> MailboxRateLimit:
        pace = self._known.get(user_id)
        if pace is None:
            pace = self._known[user_id] = MailboxRateLimit(self._quota, self._everybody, self._clock)
            if len(self._known) > _MAILBOXES_REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(user_id)
        return pace
