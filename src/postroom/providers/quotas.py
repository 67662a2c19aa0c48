"""The quotas that the providers publish: cost of each method, units per mailbox. Data only.

`rate_limit` enforces them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Quota:
    """`units` per `seconds`, `concurrent` requests at a time; `costs` are units by method."""

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
# Gmail limits concurrent requests per user, across all of the user's programs, but publishes no number.
_GMAIL_CONCURRENT: Final = 4

GMAIL: Final = {
    "new": Quota(6_000, 60, _GMAIL_CONCURRENT, _NEW_COSTS),  # projects created since May 2026
    "old": Quota(15_000, 60, _GMAIL_CONCURRENT, _OLD_COSTS),
}
# Graph allows four concurrent requests per application and mailbox; one is left for other processes.
GRAPH: Final = Quota(10_000, 600, 3, {})
# Graph allows an application 25 pages of its list of subscriptions in 20 seconds, in a tenant.
GRAPH_SUBSCRIPTION_LISTINGS: Final = Quota(25, 20, 1, {})

# The Directory API allows 2,400 requests per minute for each user of a project.
GOOGLE_DIRECTORY: Final = Quota(2_400, 60, 4, {})
# Graph allows an application 3,500 units in ten seconds in a small tenant. A page of members costs 3.
MICROSOFT_DIRECTORY: Final = Quota(3_500 / 3, 10, 4, {})


def gmail_quota(setting: str) -> Quota:
    """The quota of a setting: `new`, `old`, or units per minute at the new costs."""
    return GMAIL.get(setting) or Quota(float(setting), 60, _GMAIL_CONCURRENT, _NEW_COSTS)
