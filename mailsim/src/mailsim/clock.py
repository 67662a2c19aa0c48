"""The simulator's clock: real time with an offset, or a hand-driven one. Both can be moved forward, never
back.

Everything that happens later (expiry, retry, delay) waits with `sleep_until` or `sleep`, so that moving the
clock makes it happen. Timeouts of network calls and the configured latency are real time and do not belong
here.
"""

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

Settle = Callable[[], Awaitable[None]]


async def _nothing_to_settle() -> None:
    await asyncio.sleep(0)


class Clock:
    def __init__(self, *, manual: bool = False, start: datetime | None = None) -> None:
        """`start` is the first instant; without it the clock starts at the machine's time, to the
        millisecond.
        """
        now = time.time()
        first = start.timestamp() if start else int(now * 1000) / 1000
        self.manual = manual
        self._fixed = first
        self._offset = first - now if start else 0.0
        self._order = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self.sleeping: set[asyncio.Task[object]] = set()
        self.settle: Settle = _nothing_to_settle

    def time(self) -> float:
        """Seconds since 1970."""
        return self._fixed if self.manual else time.time() + self._offset

    def milliseconds(self) -> int:
        return round(self.time() * 1000)

    def now(self) -> datetime:
        """The present instant, aware, UTC."""
        return datetime.fromtimestamp(self.time(), UTC)

    def after(self, seconds: float) -> datetime:
        return self.now() + timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        await self.sleep_until(self.time() + seconds)

    async def sleep_until(self, moment: datetime | float) -> None:
        """Return once the clock shows `moment`, because time passed or because somebody moved the clock."""
        due = moment.timestamp() if isinstance(moment, datetime) else moment
        if due <= self.time():
            await asyncio.sleep(0)
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order += 1
        heapq.heappush(self._sleepers, (due, self._order, waiting))
        self._arm()
        task = asyncio.current_task()
        assert task is not None
        self.sleeping.add(task)
        try:
            await waiting
        finally:
            self.sleeping.discard(task)

    async def move(self, seconds: float) -> datetime:
        """Go forward step by step: at each moment somebody waits for, wake them and let their work settle
        first.
        """
        if not 0 <= seconds < 100 * 366 * 86400:
            raise ValueError("the clock moves forward, by at most 100 years at once")
        await self.settle()  # what has just begun may be about to wait
        target = self.time() + seconds
        while (due := self._next_due()) is not None and due <= target:
            self._jump(max(due, self.time()))
            self._wake()
            await self.settle()
        self._jump(max(target, self.time()))
        self._arm()
        return self.now()

    def _next_due(self) -> float | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def _jump(self, moment: float) -> None:
        if self.manual:
            self._fixed = moment
        else:
            self._offset += moment - self.time()

    def _wake(self) -> None:
        now = self.time()
        while self._sleepers and self._sleepers[0][0] <= now:
            waiting = heapq.heappop(self._sleepers)[2]
            if not waiting.done():
                waiting.set_result(None)
        self._arm()

    def _arm(self) -> None:
        """In real time the event loop wakes the earliest sleeper."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        due = self._next_due()
        if due is not None and not self.manual:
            delay = max(0.0, due - self.time()) + 0.0005
            self._alarm = asyncio.get_running_loop().call_later(delay, self._wake)
