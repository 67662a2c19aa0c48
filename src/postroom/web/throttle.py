"""Limits in memory: a throttle per source of rejected items, and the number of sign-ins by password.

A source is an IPv4 address or a /64 network of IPv6. One that also sends valid items keeps its credit: a
forger behind the same IP address cannot block it.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from postroom.web.client_address import group_address

CREDIT: Final = 400.0
PER_SECOND: Final = 1.0
# Short, because a provider may share its IP address with a forger, for example behind a proxy.
MAX_DEBT: Final = 5.0
MAX_SOURCES: Final = 10_000
# More are turned away: a queue without end would keep every member waiting.
MAX_SIGN_INS: Final = 20


class Throttle:
    """Each rejected item costs one credit; each valid item and each second restores one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, credit: float = CREDIT) -> None:
        self._clock = clock
        self._max_credit = credit
        self._credit: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def is_blocked(self, source: str) -> bool:
        source = group_address(source)
        return source in self._credit and self._get_credit(source) < 1

    def record_rejection(self, source: str, items: int = 1) -> None:
        source = group_address(source)
        self._set_credit(source, max(self._get_credit(source) - items, -MAX_DEBT))

    def record_success(self, source: str, items: int = 1) -> None:
        source = group_address(source)
        if source in self._credit:
            self._set_credit(source, self._get_credit(source) + items)

    def _get_credit(self, source: str) -> float:
        credit, at = self._credit.get(source, (self._max_credit, 0.0))
        return min(self._max_credit, credit + (self._clock() - at) * PER_SECOND)

    def _set_credit(self, source: str, credit: float) -> None:
        if credit >= self._max_credit:
            self._credit.pop(source, None)
            return
        self._credit[source] = (credit, self._clock())
        self._credit.move_to_end(source)
        if len(self._credit) > MAX_SOURCES:
            self._credit.popitem(last=False)


@dataclass
class SignInQueue:
    """Counts the sign-ins by password that wait or are checked: only two are checked at a time."""

    count: int = 0

    def is_full(self) -> bool:
        return self.count >= MAX_SIGN_INS

    @contextmanager
    def enter(self) -> Generator[None]:
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
