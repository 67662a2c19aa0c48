"""The simulator's clock: real time plus an offset, or a manual clock. Both only move forward.

Everything that happens later (expiry, retry, delay) waits with `sleep_until` or `sleep`, so that moving the
clock triggers it. Network timeouts and the configured latency are real time and do not belong here.
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
        """Start at `start`, or at the machine's time in whole milliseconds."""
        now = time.time()
        first = start.timestamp() if start else int(now * 1000) / 1000
        self.manual = manual
        self._fixed = first
        self._offset = first - now if start else 0.0
        self._order = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.sleeping: set[asyncio.Task[object]] = set()
        self.settle: Settle = _nothing_to_settle

    @classmethod
    def resume(cls, moment: float, *, manual: bool) -> "Clock":
        """Continue a saved clock: no time has passed since it was saved."""
        return cls(manual=manual, start=datetime.fromtimestamp(moment, UTC))

    def time(self) -> float:
        """Return seconds since 1970."""
        return self._fixed if self.manual else time.time() + self._offset

    def milliseconds(self) -> int:
        return round(self.time() * 1000)

    def now(self) -> datetime:
        """Return the current time as an aware datetime in UTC."""
        return datetime.fromtimestamp(self.time(), UTC)

    def after(self, seconds: float) -> datetime:
        return self.now() + timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        await self.sleep_until(self.time() + seconds)

    async def sleep_until(self, moment: datetime | float) -> None:
        """Return once the clock shows `moment`, because time passed or because the clock was moved."""
        due = moment.timestamp() if isinstance(moment, datetime) else moment
        if due <= self.time():
            await asyncio.sleep(0)
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._order += 1
        heapq.heappush(self._sleepers, (due, self._order, waiting))
        self._arm_timer()
        task = asyncio.current_task()
        assert task is not None
        self.sleeping.add(task)
        try:
            await waiting
        finally:
            self.sleeping.discard(task)

    async def move(self, seconds: float) -> datetime:
        """Move forward step by step: at each due time, wake the sleepers and let their work settle."""
        if not 0 <= seconds < 100 * 366 * 86400:
            raise ValueError("the clock only moves forward, by at most 100 years per call")
        await self.settle()  # tasks that have just started may be about to sleep
        target = self.time() + seconds
        while (due := self._next_due()) is not None and due <= target:
            self._jump(max(due, self.time()))
            self._wake()
            await self.settle()
        self._jump(max(target, self.time()))
        self._arm_timer()
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
        self._arm_timer()

    def _arm_timer(self) -> None:
        """Let the event loop wake the earliest sleeper; a manual clock needs no timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._next_due()
        if due is not None and not self.manual:
            delay = max(0.0, due - self.time()) + 0.0005
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake)
