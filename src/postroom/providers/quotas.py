"""What calls cost and what a mailbox may spend, as the providers publish it. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Quota:
    """So many units in so many seconds, so many calls at a time, and the units of each kind of call."""

    units: float
    seconds: float
    concurrent: int
    costs: Mapping[str, float]

    def cost(self, kind: str) -> float:
        return self.costs.get(kind, 1)


_OLD_COSTS: Final = {
    "profile": 1,
    "labels.list": 1,
    "history.list": 2,
    "messages.list": 5,
    "messages.get": 5,
    "watch": 100,
    "stop": 50,
}
_NEW_COSTS: Final = _OLD_COSTS | {"messages.get": 20}
# Gmail counts calls under way per user, over all of the user's programs, and publishes no number.
_GMAIL_CONCURRENT: Final = 4

GMAIL: Final = {
    "new": Quota(6_000, 60, _GMAIL_CONCURRENT, _NEW_COSTS),  # projects made since May 2026
    "old": Quota(15_000, 60, _GMAIL_CONCURRENT, _OLD_COSTS),
}
# Graph lets an application make four calls at a time to one mailbox; one is left for other processes.
GRAPH: Final = Quota(10_000, 600, 3, {})


def gmail_quota(setting: str) -> Quota:
    """`new`, `old`, or the units a minute that a project has, at the new costs."""
    return GMAIL.get(setting) or Quota(float(setting), 60, _GMAIL_CONCURRENT, _NEW_COSTS)
