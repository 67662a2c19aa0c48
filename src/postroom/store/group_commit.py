"""Many small writes, few transactions: while one flush is under way, what arrives forms the next.

No timer: the first item is written at once, so nothing waits when little happens.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from postroom.errors import TransientError

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """`flush` writes a group and answers with one result per item, in order; its error is every item's."""

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        largest: int = 1000,
        most_waiting: int | None = None,
    ) -> None:
        self._flush = flush
        self._largest = largest
        self._most_waiting = most_waiting
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._flushing: asyncio.Task[None] | None = None

    async def write(self, item: Item) -> Result:
        """Return once the item's group has been written. Too many waiting is an error at once."""
        if self._most_waiting is not None and len(self._waiting) >= self._most_waiting:
            raise TransientError("more is to be written than can be")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush_all())
        return await future

    async def _flush_all(self) -> None:
        while waiting := [each for each in self._waiting if not each[1].done()]:
            group, self._waiting = waiting[: self._largest], waiting[self._largest :]
            try:
                results = await self._flush([item for item, _ in group])
            except Exception as error:  # noqa: BLE001  # whoever waits for the item gets the error
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
            else:
                for (_, future), result in zip(group, results, strict=True):
                    if not future.done():
                        future.set_result(result)
        self._waiting = []
