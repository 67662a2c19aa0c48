"""Who sends nothing but what is refused, is refused for a while without a look at what they send (N7).

A source that also sends what is right keeps its credit: forgers behind the same address cannot shut it out.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

CREDIT: Final = 100.0
PER_SECOND: Final = 1.0
MAX_SOURCES: Final = 10_000


class Throttle:
    """Each refused request costs one, each right one gives one back, and so does every second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, credit: float = CREDIT) -> None:
        self._clock = clock
        self._most = credit
        self._credit: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def shuts_out(self, source: str) -> bool:
        return source in self._credit and self._now(source) < 1

    def refused(self, source: str) -> None:
        self._put(source, max(self._now(source) - 1, 0))

    def right(self, source: str) -> None:
        if source in self._credit:
            self._put(source, self._now(source) + 1)

    def _now(self, source: str) -> float:
        credit, at = self._credit.get(source, (self._most, 0.0))
        return min(self._most, credit + (self._clock() - at) * PER_SECOND)

    def _put(self, source: str, credit: float) -> None:
        if credit >= self._most:
            self._credit.pop(source, None)
            return
        self._credit[source] = (credit, self._clock())
        self._credit.move_to_end(source)
        if len(self._credit) > MAX_SOURCES:
            self._credit.popitem(last=False)
