"""Graph's throttling: limits per application and mailbox, and those of the subscription service.

Rejected requests count too. The middleware counts the requests in flight; `api` applies the limits.
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
class RequestWindow:
    """Counts the requests of the last `seconds`, with a resolution of one sixtieth."""

    seconds: float
    slices: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    total: int = 0

    def add(self, now: float) -> int:
        """Count one more request and return the sum."""
        slice_number = int(now / self.seconds * _SLICES)
        while self.slices and self.slices[0][0] <= slice_number - _SLICES:
            self.total -= self.slices.popleft()[1]
        if self.slices and self.slices[-1][0] == slice_number:
            self.slices[-1] = (slice_number, self.slices[-1][1] + 1)
        else:
            self.slices.append((slice_number, 1))
        self.total += 1
        return self.total

    def seconds_until_below(self, now: float, limit: int) -> int:
        """Return after how many whole seconds the sum falls below the limit without further requests."""
        left = self.total
        for slice_number, count in self.slices:
            left -= count
            if left < limit:
                return max(1, math.ceil((slice_number + _SLICES) * self.seconds / _SLICES - now))
        return 1


@dataclass(slots=True)
class GraphThrottle:
    windows: dict[str, RequestWindow] = field(default_factory=dict[str, RequestWindow])
    refusals: int = 0

    def check_mailbox(self, key: str, in_flight: int, now: float, retry_after: str) -> None:
        """Raise 429 if the application exceeds its limits on this mailbox."""
        window = self.windows.setdefault(key, RequestWindow(WINDOW_SECONDS))
        count = window.add(now)
        if in_flight > CONCURRENT:
            raise GraphError(
                429,
                "ApplicationThrottled",
                "Application is over its MailboxConcurrency limit.",
                headers=self._retry_after_header(10, retry_after),
                bare=True,
            )
        if count > REQUESTS:
            raise too_many_requests(
                self._retry_after_header(window.seconds_until_below(now, REQUESTS), retry_after)
            )

    def check_subscription(self, endpoint: str, key: str, now: float, retry_after: str) -> None:
        limit = _SUBSCRIPTION_LIMITS[endpoint]
        group = "write" if limit == 500 and endpoint != "subscriptions.get" else endpoint
        window = self.windows.setdefault(f"{group} {key}", RequestWindow(SUBSCRIPTION_SECONDS))
        if window.add(now) > limit:
            raise too_many_requests(
                self._retry_after_header(window.seconds_until_below(now, limit), retry_after)
            )

    def _retry_after_header(self, seconds: int, policy: str) -> dict[str, str]:
        """Return Retry-After. Microsoft omits it at times; `sometimes` omits it in every fourth response."""
        self.refusals += 1
        if policy == "never" or (policy == "sometimes" and self.refusals % 4 == 0):
            return {}
        return {"retry-after": str(seconds)}


def too_many_requests(headers: dict[str, str]) -> GraphError:
    return GraphError(
        429,
        "TooManyRequests",
        "Please retry again later.",
        headers=headers,
        inner={"code": "429", "message": "Please retry after", "status": "429"},
    )
