"""Limits for connections: how many per client and in all, and deadlines for slow clients.

The server's own options do not suffice: its keep-alive limit applies only between requests, its limit of
connections answers 503 to everyone as soon as one client holds them all, and its parser takes headers of any
size. So these limits are in its protocol, where bytes arrive and before any of our code runs.
"""

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar, Final, LiteralString

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from postroom.config import Network
from postroom.logs import Log
from postroom.web.client_address import group_address, parse_address

MAX_PER_CLIENT: Final = 256
MAX_HEADER_BYTES: Final = 64 * 1024
# Requests of a connection that wait for the response to an earlier one. They arrive within one read of the
# socket, which holds thousands, and each takes kilobytes of memory.
MAX_PIPELINED: Final = 32
HEADER_SECONDS: Final = 10.0
# In each period a body must become complete or bring this many bytes, unless we are the slow side.
BODY_SECONDS: Final = 20.0
BODY_BYTES: Final = 64 * 1024
# The time a client has to read what the server's write buffer holds above its low-water mark.
WRITE_SECONDS: Final = 60.0
# Enough for every web client that is expected; more only costs memory.
MAX_FILES: Final = 65_536
# For the database, files, child processes and outgoing requests.
RESERVED_FILES: Final = 256
_LOG_SECONDS: Final = 1.0

log = Log()


def raise_file_limit() -> None:
    """Raise the number of files and connections that this process may open as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def compute_max_connections() -> int:
    """How many connections this process can hold and still open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_FILES if soft == resource.RLIM_INFINITY else max(soft - RESERVED_FILES, soft // 2)


@dataclass
class ConnectionLimits:
    """Counts the connections of one process. Clients in `exempt` networks have no limit of their own."""

    exempt: Sequence[Network] = ()
    max_connections: int = field(default_factory=compute_max_connections)
    max_per_client: int = MAX_PER_CLIENT
    header_seconds: float = HEADER_SECONDS
    body_seconds: float = BODY_SECONDS
    write_seconds: float = WRITE_SECONDS
    clock: Callable[[], float] = time.monotonic
    connections: int = 0
    _by_client: Counter[str] = field(default_factory=Counter[str])
    _dropped: Counter[LiteralString] = field(default_factory=Counter[LiteralString])
    _logged_at: dict[LiteralString, float] = field(default_factory=dict[LiteralString, float])

    def find_client(self, host: str) -> str | None:
        """The client to count a connection for; None if it is exempt."""
        address = parse_address(host)
        if address is None or any(address in network for network in self.exempt):
            return None
        return group_address(host)

    def is_client_full(self, client: str | None) -> bool:
        return client is not None and self._by_client[client] >= self.max_per_client

    def is_full(self) -> bool:
        return self.connections >= self.max_connections

    def enter(self, client: str | None) -> None:
        self.connections += 1
        if client is not None:
            self._by_client[client] += 1

    def leave(self, client: str | None) -> None:
        self.connections -= 1
        if client is not None:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

    def count_dropped(self, reason: LiteralString) -> None:
        """Log dropped connections, but at most one line per second and reason."""
        self._dropped[reason] += 1
        now = self.clock()
        if now - self._logged_at.get(reason, float("-inf")) >= _LOG_SECONDS:
            log.warning("connection.dropped", count=self._dropped.pop(reason), reason=reason)
            self._logged_at[reason] = now


class _TooManyPipelined(Exception):
    """Stops the parser. Raised and caught while one piece of data is parsed."""


class _Phase(Enum):
    IDLE = auto()
    HEADERS = auto()
    BODY = auto()


class LimitedProtocol(HttpToolsProtocol):
    """The server's HTTP protocol with limits for connections."""

    limits: ClassVar[ConnectionLimits]
    counted: bool = False
    counted_client: str | None = None
    phase: _Phase = _Phase.IDLE
    watched: _Phase = _Phase.IDLE  # the phase that `deadline` is for
    deadline: asyncio.TimerHandle | None = None
    write_deadline: asyncio.TimerHandle | None = None
    header_bytes: int = 0
    body_bytes: int = 0  # in the current period

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  as uvicorn does
        super().connection_made(transport)
        client = self.limits.find_client(self.client[0]) if self.client else None
        if self.limits.is_client_full(client):
            self.drop(b"429 Too Many Requests", "too many of one client")
        elif self.limits.is_full():
            self.drop(b"503 Service Unavailable", "too many in all")
        else:
            self.limits.enter(client)
            self.counted, self.counted_client = True, client
            self.phase = _Phase.HEADERS
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.counted:
            self.counted = False
            self.limits.leave(self.counted_client)
        self._unwatch()
        self._end_write_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.phase is _Phase.IDLE:  # any byte begins a request, also a line break that the parser skips
            self.phase, self.header_bytes = _Phase.HEADERS, 0
        self.header_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.phase is _Phase.HEADERS and self.header_bytes > MAX_HEADER_BYTES:
            self.drop(b"431 Request Header Fields Too Large", "headers too large")
        else:
            self._watch()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            self.drop(b"429 Too Many Requests", "too many pipelined")
            raise _TooManyPipelined
        self._unwatch()
        self.phase, self.header_bytes = _Phase.HEADERS, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.phase, self.body_bytes = _Phase.BODY, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.phase = _Phase.IDLE
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.write_deadline is None:
            self.write_deadline = self.loop.call_later(self.limits.write_seconds, self._abort_unread)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_write_deadline()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, without waiting for a client that does not read its response."""
        self._close()

    def is_idle(self) -> bool:
        return not (self.cycle and not self.cycle.response_complete)

    def skip_request(self) -> None:
        """A whole request was answered without the parser: wait for the next one."""
        self.phase = _Phase.IDLE
        self._watch()

    def drop(self, status: bytes, reason: LiteralString) -> None:
        self.limits.count_dropped(reason)
        if self.is_idle() or not self.cycle.response_started:
            self.transport.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
        self._close()

    def _watch(self) -> None:
        """Let a timer run while a request is arriving. A request that arrives as a whole needs none."""
        if self.phase is self.watched:
            return
        self._unwatch()
        self.watched = self.phase
        if self.phase is _Phase.HEADERS:
            self.deadline = self.loop.call_later(self.limits.header_seconds, self._check_headers)
        elif self.phase is _Phase.BODY:
            self.deadline = self.loop.call_later(self.limits.body_seconds, self._check_body)

    def _unwatch(self) -> None:
        self.watched = _Phase.IDLE
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _check_headers(self) -> None:
        if self.is_idle():
            self.drop(b"408 Request Timeout", "headers too slow")
        else:  # a response is in progress; what arrives meanwhile can wait
            self.deadline = self.loop.call_later(self.limits.header_seconds, self._check_headers)

    def _check_body(self) -> None:
        if self.flow.read_paused or self.body_bytes >= BODY_BYTES:
            self.body_bytes = 0
            self.deadline = self.loop.call_later(self.limits.body_seconds, self._check_body)
        else:
            self.drop(b"408 Request Timeout", "body too slow")

    def _abort_unread(self) -> None:
        self.limits.count_dropped("response not read")
        self.transport.abort()

    def _end_write_deadline(self) -> None:
        if self.write_deadline is not None:
            self.write_deadline.cancel()
            self.write_deadline = None

    def _close(self) -> None:
        if self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()
