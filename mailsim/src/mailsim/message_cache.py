"""Caches of recently generated messages and of their parsed trees, both bounded by size.

It generates and parses nothing. Bytes stay long, because generating them is the most expensive step. Trees
stay only while a message is being read, because many small objects burden the garbage collector.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from mailsim.mime import MimePart

Value = TypeVar("Value")
Key = tuple[int, int]  # mailbox, message
MESSAGE_CACHE_BYTES = 64 << 20  # larger than any generated message
TREE_CACHE_BYTES = 4 << 20


class SizeBoundedCache(Generic[Value]):
    """LRU cache bounded by the total size of its values, which are immutable and can be recreated."""

    def __init__(self, limit: int, size: Callable[[Value], int]) -> None:
        self._limit = limit
        self._size = size
        self._used = 0
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> Value:
        """Store a value unless it alone exceeds the limit; return it."""
        size = self._size(value)
        if size < self._limit:
            self._values[key] = value
            self._used += size
            while self._used > self._limit:
                self._used -= self._size(self._values.popitem(last=False)[1])
        return value

    def clear(self) -> None:
        self._values.clear()
        self._used = 0


class MessageCache:
    def __init__(self) -> None:
        self.messages = SizeBoundedCache[bytes](MESSAGE_CACHE_BYTES, len)
        self.trees = SizeBoundedCache[MimePart](TREE_CACHE_BYTES, lambda tree: 2 * len(tree.whole))

    def clear(self) -> None:
        self.messages.clear()
        self.trees.clear()
