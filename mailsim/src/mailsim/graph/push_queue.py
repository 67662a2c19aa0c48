"""PushQueue and PushDelivery, the notifications for one URL, and EndpointHealth, which delays or drops them.

No I/O: `notifications` sends them.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

from mailsim.graph.subscription_model import GraphSubscription

WINDOW_SECONDS = 600
SLOW_SHARE = 0.10
DROP_SHARE = 0.15
PROBES = 3
DeliveryDecision = Literal["send", "delay", "drop"]


@dataclass(frozen=True, slots=True)
class QueuedNotification:
    """A notification that waits to be sent. Lifecycle notifications ignore the slow and drop states."""

    subscription: GraphSubscription
    json: dict[str, Any]
    since: float
    lifecycle: bool = False


@dataclass(slots=True)
class EndpointHealth:
    """The responses of an endpoint in the last ten minutes.

    Pushes are delayed if more than 10 % are slow, and dropped if more than 15 % are very slow.
    """

    responses: deque[tuple[float, bool, bool]] = field(default_factory=deque[tuple[float, bool, bool]])
    slow_until: float = 0.0
    drop_until: float = 0.0
    probes: int = 0

    def record(self, now: float, *, slow: bool, very_slow: bool) -> None:
        self.responses.append((now, slow, very_slow))
        self._forget(now)
        if self._share(2) > DROP_SHARE:
            self.drop_until = now + WINDOW_SECONDS
            self.probes = PROBES
            self.responses.clear()
        elif self._share(1) > SLOW_SHARE:
            self.slow_until = now + WINDOW_SECONDS

    def decide(self, now: float) -> DeliveryDecision:
        """Return what to do with a new notification."""
        if now < self.drop_until:
            return "drop"
        if self.drop_until and self.probes > 0:
            self.probes -= 1
            return "send"
        return "delay" if now < self.slow_until else "send"

    def _share(self, position: int) -> float:
        return (
            sum(response[position] for response in self.responses) / len(self.responses)
            if self.responses
            else 0.0
        )

    def _forget(self, now: float) -> None:
        while self.responses and self.responses[0][0] <= now - WINDOW_SECONDS:
            self.responses.popleft()


@dataclass(slots=True)
class PushQueue:
    """The notifications for one URL; `held` ones wait for the next notification to overtake them."""

    url: str
    items: list[QueuedNotification] = field(default_factory=list[QueuedNotification])
    held: list[QueuedNotification] = field(default_factory=list[QueuedNotification])
    draining: bool = False


@dataclass(slots=True)
class PushDelivery:
    """A batch of notifications that is being delivered; `due` is its next attempt."""

    url: str
    batch: list[QueuedNotification]
    due: float
    began: float
    pause: float
    attempts: int = 0


@dataclass(slots=True)
class LatePush:
    """Notifications that a fault delays until `due`."""

    url: str
    items: list[QueuedNotification]
    due: float
