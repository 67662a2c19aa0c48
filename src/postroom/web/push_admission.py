"""Admission of pushes: while more arrive than can be answered in time, the rest gets 503 at once.

A provider gives up after three seconds, so a late answer is worth nothing, whatever it says. Under overload
most of a push's time passes before our code sees it, so admission happens where bytes arrive: the server's
protocol answers a push that would wait too long without parsing it. Other requests are not affected.

Whatever was expected, no push is stored that has waited longer than allowed since the kernel received it: the
time of its arrival is in its scope, and the endpoint and the group commit answer 503 once it is too long ago.
"""

import asyncio
import itertools
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import ClassVar, Final

from postroom.flow.mail.push import RESPONSE_LIMITS
from postroom.logs import Log
from postroom.web.connection_limits import ConnectionLimits, LimitedProtocol

MAX_WAIT_SECONDS: Final = RESPONSE_LIMITS.queue_seconds
# The key for the time of a push's arrival, by the monotonic clock, in the state of its scope.
WAITING_SINCE: Final = "waiting_since"
# So many pushes are always admitted: together they form one write.
MIN_ADMITTED: Final = 64
# A connection is not read for this long after a rejection, or answering rejected senders would leave no time
# for the admitted pushes.
PAUSE_SECONDS: Final = 1.0
_FIRST_ESTIMATE: Final = 0.002  # cautious: a burst may meet a process that has just started
_WEIGHT: Final = 0.02
_LOG_SECONDS: Final = 1.0
_PATHS: Final = (b"/webhooks/", b"/api/graph/")
_FIRST_BYTES: Final = tuple(b"POST " + path for path in _PATHS)
# Where the kernel's struct tcp_info has the milliseconds since the last data arrived.
_LAST_DATA_RECEIVED: Final = 52
_REJECTION: Final = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 5\r\n\r\n"

log = Log()


class PushAdmission:
    """Counts the pushes in progress and estimates how long one more would wait.

    A push that began behind n others and took s seconds waited s/n per push in front of it. While none ends,
    the age of the oldest says how long the others have to wait.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: dict[int, tuple[float, int]] = {}  # time and place by number, the oldest first
        self._numbers = itertools.count()
        self._seconds_each = _FIRST_ESTIMATE
        self._rejected = 0
        self._logged_at = float("-inf")

    def has_room(self, waited_seconds: float = 0.0) -> bool:
        """Whether a push that has waited for so long already can be stored in time."""
        in_progress = self.count_in_progress()
        if in_progress < MIN_ADMITTED:
            return True
        oldest, _ = next(iter(self._begun.values()))
        expected_seconds = max(in_progress * self._seconds_each, self._clock() - oldest)
        return waited_seconds + expected_seconds < MAX_WAIT_SECONDS

    def compute_arrival(self, waited_seconds: float) -> float:
        return self._clock() - waited_seconds

    def count_in_progress(self) -> int:
        return len(self._begun)

    def begin(self) -> int:
        """Count a push; returns its number for `end`."""
        number = next(self._numbers)
        self._begun[number] = self._clock(), len(self._begun) + 1
        return number

    def end(self, number: int) -> None:
        since, place = self._begun.pop(number)
        seconds_each = (self._clock() - since) / max(place, MIN_ADMITTED)
        self._seconds_each += _WEIGHT * (seconds_each - self._seconds_each)

    def count_rejected(self) -> None:
        """Log rejections, but at most one line per second."""
        self._rejected += 1
        if self._clock() - self._logged_at >= _LOG_SECONDS:
            log.warning("push.shed", count=self._rejected)
            self._logged_at, self._rejected = self._clock(), 0


class PushAdmissionProtocol(LimitedProtocol):
    """The server's HTTP protocol with admission of pushes."""

    admission: ClassVar[PushAdmission]
    push: int | None = None  # the number of the push in progress on this connection

    def data_received(self, data: bytes) -> None:
        if (
            data.startswith(_FIRST_BYTES)
            and not self.admission.has_room(measure_kernel_wait(self.transport))
            and self.is_idle()
            and _is_whole_push(data)
        ):
            self._reject()
        else:
            super().data_received(data)

    def on_message_complete(self) -> None:
        """Count a push once it has arrived as a whole: a slow sender must not look like a slow server."""
        if self.push is None and self.url.startswith(_PATHS) and not self.cycle.response_complete:
            self.push = self.admission.begin()
            waited_seconds = measure_kernel_wait(self.transport)
            self.scope.setdefault("state", {})[WAITING_SINCE] = self.admission.compute_arrival(waited_seconds)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._end_push()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_push()
        super().connection_lost(exc)

    def _end_push(self) -> None:
        if self.push is not None:
            self.admission.end(self.push)
            self.push = None

    def _reject(self) -> None:
        self.admission.count_rejected()
        self._unset_keepalive_if_required()
        self.skip_request()
        self.transport.write(_REJECTION)
        self.flow.pause_reading()
        self.timeout_keep_alive_task = self.loop.call_later(PAUSE_SECONDS, self._read_again)

    def _read_again(self) -> None:
        """Read on, and close the connection if it stays idle, as after every response."""
        self.flow.resume_reading()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )


def build_protocol(admission: PushAdmission, limits: ConnectionLimits) -> type[PushAdmissionProtocol]:
    bound = {"admission": admission, "limits": limits}
    return type("BoundPushAdmissionProtocol", (PushAdmissionProtocol,), bound)


def measure_kernel_wait(transport: asyncio.BaseTransport) -> float:
    """Seconds for which the newest bytes of a connection have waited in the kernel. Only Linux knows."""
    if sys.platform != "linux":
        return 0.0
    connected: socket.socket = transport.get_extra_info("socket")
    try:
        info = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_DATA_RECEIVED + 4)
    except OSError:  # it is closed already
        return 0.0
    [milliseconds] = struct.unpack_from("I", info, _LAST_DATA_RECEIVED)
    return milliseconds / 1000


def _is_whole_push(data: bytes) -> bool:
    """Whether the data is exactly one push with its body. A handshake, or a part, is left to the parser."""
    head, found, body = data.partition(b"\r\n\r\n")
    _, named, rest = head.lower().partition(b"\r\ncontent-length:")
    length = rest.partition(b"\r\n")[0].strip()
    is_whole = found and named and length.isdigit() and len(length) < 8 and len(body) == int(length)
    return bool(is_whole) and b"validationToken=" not in head.partition(b"\r\n")[0]
