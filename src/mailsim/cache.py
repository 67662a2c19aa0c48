"""Recently written letters and what was read from them, bounded by bytes."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

Value = TypeVar("Value")
Key = tuple[int, int, str]  # mailbox, message, what it is
LIMIT = 48 << 20


class Cache:
    """The least recently used goes first. Values can be made again and are never changed."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._used = 0
        self._kept: OrderedDict[Key, tuple[Any, int]] = OrderedDict()

    def get(self, key: Key, make: Callable[[], Value], cost: Callable[[Value], int]) -> Value:
        """The kept value, or a new one, which is kept unless it alone would fill the cache."""
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept[0]
        made = make()
        size = cost(made)
        if size < self._limit // 2:
            self._kept[key] = (made, size)
            self._used += size
            while self._used > self._limit:
                self._used -= self._kept.popitem(last=False)[1][1]
        return made
