"""Group commit: combines many small writes into few calls of a flush function. No SQL.

While one flush runs, new items form the next group. There is no timer: a single item is written at once.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from postroom.errors import TransientError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class WaitLimits:
    """How many items may wait, how long for their flush to start, and how long a flush may take."""

    max_waiting: int
    queue_seconds: float
    write_seconds: float | None


NO_LIMITS = WaitLimits(max_waiting=2**63, queue_seconds=math.inf, write_seconds=None)
_WAITED_TOO_LONG: Final = "Timed out waiting to write"


class GroupCommit(Generic[Item, Result]):
    """Writes items in groups. `flush` returns one result per item, in order; its error fails every item.

    An item that would wait too long gets a TransientError. With limits, a failed flush also fails the items
    queued meanwhile, which would hit the same error. A flush that takes too long is cancelled; until it has
    ended, which a stuck server can delay, new items are rejected.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        largest: int = 1000,
        limits: WaitLimits = NO_LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._flush = flush
        self._largest = largest
        self._limits = limits
        self._clock = clock
        self._waiting: list[tuple[Item, asyncio.Future[Result], float]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._stuck = False

    async def write(self, item: Item, *, waiting_since: float | None = None) -> Result:
        """Return once the item's group has been written. Its wait may have begun before this call."""
        if self._stuck or len(self._waiting) >= self._limits.max_waiting:
            raise TransientError("Write queue is full")
        since = self._clock() if waiting_since is None else waiting_since
        if since < self._compute_earliest():
            raise TransientError(_WAITED_TOO_LONG)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future, since))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush_all())
        return await future

    async def _flush_all(self) -> None:
        while self._waiting:
            self._fail_expired()
            group, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
            if not group:
                break
            flush = asyncio.ensure_future(self._flush([item for item, _, _ in group]))  # noqa: RUF006  waited for
            await asyncio.wait([flush], timeout=self._limits.write_seconds)
            if not flush.done():
                await self._end_stuck(flush, group)
                continue
            try:
                results = flush.result()
            except Exception as error:  # noqa: BLE001  # the callers of `write` get the error
                self._fail(group, error)
                continue
            for (_, future, _), result in zip(group, results, strict=True):
                if not future.done():
                    future.set_result(result)

    async def _end_stuck(
        self,
        flush: asyncio.Future[Sequence[Result]],
        group: list[tuple[Item, asyncio.Future[Result], float]],
    ) -> None:
        self._stuck = True
        self._fail(group, TransientError("Timed out writing to the database"))
        while not flush.done():
            flush.cancel()
            await asyncio.wait([flush], timeout=1)
        self._stuck = False

    def _fail(self, group: list[tuple[Item, asyncio.Future[Result], float]], error: Exception) -> None:
        """Fail the items of the group; with limits, also those queued behind it."""
        if self._limits is not NO_LIMITS:
            group, self._waiting = group + self._waiting, []
        for _, future, _ in group:
            if not future.done():
                future.set_exception(error)

    def _compute_earliest(self) -> float:
        """Items that have waited since before this time are not written."""
        return self._clock() - self._limits.queue_seconds

    def _fail_expired(self) -> None:
        earliest = self._compute_earliest()
        for _, future, since in self._waiting:
            if since < earliest and not future.done():
                future.set_exception(TransientError(_WAITED_TOO_LONG))
        self._waiting = [waiter for waiter in self._waiting if waiter[2] >= earliest]
