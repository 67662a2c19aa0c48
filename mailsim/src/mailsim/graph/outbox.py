"""What waits to be pushed to one URL, and how well that URL has answered lately. Sends nothing."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal

from mailsim.graph.subscribed import Subscription

WINDOW_SECONDS = 600
SLOW_SHARE = 0.10
DROP_SHARE = 0.15
PROBES = 3
Verdict = Literal["send", "delay", "drop"]


@dataclass(frozen=True, slots=True)
class Item:
    """One notification on its way. `lifecycle`: not subject to the slow and drop states."""

    subscription: Subscription
    json: dict[str, Any]
    since: float
    lifecycle: bool = False


@dataclass(slots=True)
class Health:
    """The last ten minutes of an endpoint. Over 10 % slow: pushes wait; over 15 % very slow: dropped."""

    answers: deque[tuple[float, bool, bool]] = field(default_factory=deque[tuple[float, bool, bool]])
    slow_until: float = 0.0
    drop_until: float = 0.0
    probes: int = 0

    def note(self, now: float, *, slow: bool, very_slow: bool) -> None:
        self.answers.append((now, slow, very_slow))
        self._forget(now)
        if self._share(2) > DROP_SHARE:
            self.drop_until = now + WINDOW_SECONDS
            self.probes = PROBES
            self.answers.clear()
        elif self._share(1) > SLOW_SHARE:
            self.slow_until = now + WINDOW_SECONDS

    def verdict(self, now: float) -> Verdict:
        """What to do with a new notification."""
        if now < self.drop_until:
            return "drop"
        if self.drop_until and self.probes > 0:
            self.probes -= 1
            return "send"
        return "delay" if now < self.slow_until else "send"

    def _share(self, place: int) -> float:
        return sum(answer[place] for answer in self.answers) / len(self.answers) if self.answers else 0.0

    def _forget(self, now: float) -> None:
        while self.answers and self.answers[0][0] <= now - WINDOW_SECONDS:
            self.answers.popleft()


@dataclass(slots=True)
class Outbox:
    url: str
    items: list[Item] = field(default_factory=list[Item])
    held: list[Item] = field(default_factory=list[Item])  # to be overtaken by the next one
    draining: bool = False
