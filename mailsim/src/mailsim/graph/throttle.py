"""Exchange's limits per application and mailbox, and those of the subscription service. Counts and refuses.

Requests that are refused count too. How many requests are in flight is counted by the gate.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from mailsim.graph.errors import GraphError

CONCURRENT = 4
REQUESTS = 10_000
WINDOW_SECONDS = 600
SUBSCRIPTION_SECONDS = 20
_SUBSCRIPTION_LIMITS = {  # per application and tenant
    "subscriptions.create": 500,
    "subscriptions.update": 500,
    "subscriptions.delete": 500,
    "subscriptions.reauthorize": 1000,
    "subscriptions.get": 500,
    "subscriptions.list": 25,
}
_SLICES = 60


@dataclass(slots=True)
class Window:
    """How many requests fell into the last so many seconds, to a sixtieth of them."""

    seconds: float
    slices: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    total: int = 0

    def add(self, now: float) -> int:
        """Count one more; returns the sum."""
        place = int(now / self.seconds * _SLICES)
        while self.slices and self.slices[0][0] <= place - _SLICES:
            self.total -= self.slices.popleft()[1]
        if self.slices and self.slices[-1][0] == place:
            self.slices[-1] = (place, self.slices[-1][1] + 1)
        else:
            self.slices.append((place, 1))
        self.total += 1
        return self.total

    def wait(self, now: float, limit: int) -> int:
        """After how many whole seconds the sum is below the limit, if nobody asks meanwhile."""
        left = self.total
        for place, count in self.slices:
            left -= count
            if left < limit:
                return max(1, math.ceil((place + _SLICES) * self.seconds / _SLICES - now))
        return 1


@dataclass(slots=True)
class Throttle:
    windows: dict[str, Window] = field(default_factory=dict[str, Window])
    refusals: int = 0

    def mailbox(self, budget: str, in_flight: int, now: float, retry_after: str) -> None:
        """Raise 429 when this application asks too much of this mailbox."""
        window = self.windows.setdefault(budget, Window(WINDOW_SECONDS))
        asked = window.add(now)
        if in_flight > CONCURRENT:
            raise GraphError(
                429,
                "ApplicationThrottled",
                "Application is over its MailboxConcurrency limit.",
                headers=self._header(10, retry_after),
                bare=True,
            )
        if asked > REQUESTS:
            raise too_many(self._header(window.wait(now, REQUESTS), retry_after))

    def subscription(self, endpoint: str, key: str, now: float, retry_after: str) -> None:
        limit = _SUBSCRIPTION_LIMITS[endpoint]
        group = "write" if limit == 500 and endpoint != "subscriptions.get" else endpoint
        window = self.windows.setdefault(f"{group} {key}", Window(SUBSCRIPTION_SECONDS))
        if window.add(now) > limit:
            raise too_many(self._header(window.wait(now, limit), retry_after))

    def _header(self, seconds: int, policy: str) -> dict[str, str]:
        """Retry-After, which has been missing at times: here from every fourth refusal."""
        self.refusals += 1
        if policy == "never" or (policy == "sometimes" and self.refusals % 4 == 0):
            return {}
        return {"retry-after": str(seconds)}


def too_many(headers: dict[str, str]) -> GraphError:
    return GraphError(
        429,
        "TooManyRequests",
        "Please retry again later.",
        headers=headers,
        inner={"code": "429", "message": "Please retry after", "status": "429"},
    )
