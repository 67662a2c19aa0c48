"""RequestLog: the newest HTTP exchanges in a bounded list, on request with their bodies.

It only stores; the middleware, the providers and the push client fill the entries in. `meters` has the
counters.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

MAX_EXCHANGES = 10_000
MAX_BODY_SIZE = 256 * 1024
MAX_BODY_BYTES = 128 << 20  # of all bodies together
_CHECK_EVERY = 64


@dataclass(slots=True)
class HttpExchange:
    """One request and its response, or one part of a batch. Filled in while it is handled.

    `via` is the number of the batch request that carried this part.
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
    def __init__(self, limit: int = MAX_EXCHANGES) -> None:
        self._exchanges: deque[HttpExchange] = deque(maxlen=limit)
        self._count = 0
        self.keep_bodies = False  # also keep headers

    def open(
        self, milliseconds: int, method: str, path: str, query: str = "", *, via: int = 0
    ) -> HttpExchange:
        self._count += 1
        exchange = HttpExchange(self._count, milliseconds, method, path, query, via=via)
        self._exchanges.append(exchange)
        if self.keep_bodies and self._count % _CHECK_EVERY == 0:
            self._trim()
        return exchange

    def newest(self) -> Iterator[HttpExchange]:
        return reversed(self._exchanges)

    def clear(self) -> None:
        self._exchanges.clear()

    def _trim(self) -> None:
        """Drop the oldest bodies when all of them together exceed the limit."""
        left = MAX_BODY_BYTES
        for exchange in self.newest():
            left -= len(exchange.request_body) + len(exchange.response_body)
            if left < 0:
                exchange.request_body = exchange.response_body = b""
