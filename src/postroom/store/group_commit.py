"""Many small writes, few transactions: while one flush is under way, what arrives forms the next.

No timer: the first item is written at once, so nothing waits when little happens.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from postroom.errors import TransientError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class WaitLimits:
    """Where somebody waits for the answer: how many may, how long for their turn, how long for the write."""

    most: int
    queue_seconds: float
    write_seconds: float | None


NO_LIMITS = WaitLimits(most=2**63, queue_seconds=math.inf, write_seconds=None)


class GroupCommit(Generic[Item, Result]):
    """`flush` writes a group and answers with one result per item, in order; its error is every item's.

    Who would wait too long gets a TransientError instead. When a flush fails, so does everything that came
    meanwhile, unless patience is endless: it would wait for the same. A flush that takes too long is
    cancelled, and until it has ended, which a stuck server can delay for long, nothing more is taken.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        largest: int = 1000,
        patience: WaitLimits = NO_LIMITS,
    ) -> None:
        self._flush = flush
        self._largest = largest
        self._patience = patience
        self._waiting: list[tuple[Item, asyncio.Future[Result], float]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._stuck = False

    async def write(self, item: Item) -> Result:
        """Return once the item's group has been written."""
        if self._stuck or len(self._waiting) >= self._patience.most:
            raise TransientError("more is to be written than can be")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, future, loop.time()))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush_all())
        return await future

    async def _flush_all(self) -> None:
        while self._waiting:
            self._send_away_who_waited_too_long()
            group, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
            flush = asyncio.ensure_future(self._flush([item for item, _, _ in group]))  # noqa: RUF006  waited for
            await asyncio.wait([flush], timeout=self._patience.write_seconds)
            if not flush.done():
                await self._end_stuck(flush, group)
                continue
            try:
                results = flush.result()
            except Exception as error:  # noqa: BLE001  # whoever waits for the item gets the error
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
        self._fail(group, TransientError("the database did not take what was written in time"))
        while not flush.done():
            flush.cancel()
            await asyncio.wait([flush], timeout=1)
        self._stuck = False

    def _fail(self, group: list[tuple[Item, asyncio.Future[Result], float]], error: Exception) -> None:
        """Whoever waits for an item of the group gets the error; with patience, so do those behind it."""
        if self._patience is not NO_LIMITS:
            group, self._waiting = group + self._waiting, []
        for _, future, _ in group:
            if not future.done():
                future.set_exception(error)

    def _send_away_who_waited_too_long(self) -> None:
        earliest = asyncio.get_running_loop().time() - self._patience.queue_seconds
        if self._waiting[0][2] >= earliest:
            return
        for _, future, since in self._waiting:
            if since < earliest and not future.done():
                future.set_exception(TransientError("there was no turn to write in time"))
        self._waiting = [each for each in self._waiting if each[2] >= earliest]
