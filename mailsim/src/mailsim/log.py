"""Logs of requests and their answers, the newest few thousand. With bodies when asked, up to a budget."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

KEPT = 10_000
LONGEST_BODY = 256 * 1024
MOST_BYTES = 128 << 20  # of all bodies together
_CHECK_EVERY = 64


@dataclass(slots=True)
class Exchange:
    """One request and its answer, or one part of a batch. Filled while it happens.

    `via`: the number of the batch request that carried this one.
    """

    number: int
    milliseconds: int
    method: str
    path: str
    query: str
    provider: str = ""
    endpoint: str = ""
    mailbox: str = ""
    subscription: str = ""  # of a push
    status: int = 0  # 0: none yet, or the connection was cut
    units: int = 0
    fault: str = ""
    duration_ms: float = 0.0
    via: int = 0
    request_headers: tuple[tuple[str, str], ...] = ()
    request_body: bytes = b""
    response_headers: tuple[tuple[str, str], ...] = ()
    response_body: bytes = b""


class RequestLog:
    def __init__(self, kept: int = KEPT) -> None:
        self._exchanges: deque[Exchange] = deque(maxlen=kept)
        self._count = 0
        self.bodies = False  # keep headers and bodies too

    def open(self, milliseconds: int, method: str, path: str, query: str = "", *, via: int = 0) -> Exchange:
        self._count += 1
        exchange = Exchange(self._count, milliseconds, method, path, query, via=via)
        self._exchanges.append(exchange)
        if self.bodies and self._count % _CHECK_EVERY == 0:
            self._trim()
        return exchange

    def newest(self) -> Iterator[Exchange]:
        return reversed(self._exchanges)

    def clear(self) -> None:
        self._exchanges.clear()

    def _trim(self) -> None:
        """The oldest bodies go when all together are too large."""
        left = MOST_BYTES
        for exchange in self.newest():
            left -= len(exchange.request_body) + len(exchange.response_body)
            if left < 0:
                exchange.request_body = exchange.response_body = b""
