"""The schedule of injected faults: which fault happens for which mailbox and endpoint.

It only decides; the middleware and the providers act on the decision. Probability depends on seed, fault,
mailbox, endpoint and how often that endpoint was called, not on the order in which concurrent requests
arrive, so that a seed reproduces a run.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, get_args

import msgspec

from mailsim.errors import InvalidRequest, NotFound, check_name
from mailsim.hashing import stable_hash
from mailsim.message_state import ProviderName
from mailsim.provider_actions import ProviderNames

AnswerKind = Literal[
    "throttle",  # 429 in the provider's format, which asks to wait for `retry_after` seconds
    "error",  # `status` (default 503) in the provider's format
    "html",  # `status` (default 502) with an HTML page
    "stall",  # no response for `seconds`, then the normal one
    "cut",  # the connection closes in the middle of the body
    "truncated",  # half of the JSON, presented as complete
]
ProviderKind = Literal[
    "push_lost",
    "push_doubled",
    "push_late",  # by `seconds`
    "push_reordered",
    "not_readable",  # a new message is pushed, listed and in the change feed, but returns 404 for `seconds`
    "delta_repeat",
    "delta_empty_page",
    "cursor_expired",
    "consent_revoked",
    "token_error",  # the token endpoint returns the error `code`
    "push_token",  # the Pub/Sub token is invalid: `code` is aud, email, expired or signature
]
FaultKind = AnswerKind | ProviderKind
ANSWER_KINDS: tuple[str, ...] = get_args(AnswerKind)
_ANSWERS = frozenset(ANSWER_KINDS)
REFUSALS = frozenset({"throttle", "error"})
KINDS: tuple[str, ...] = (*ANSWER_KINDS, *get_args(ProviderKind))
RETRY_SECONDS = 10  # of a throttled request, unless the fault says otherwise


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault to inject, and when. `GET /_sim/` lists the kinds.

    `mailbox`, `endpoint`, `provider` and (for faults in responses) `path` are patterns such as `messages.*`.
    `times` null means until removed. `skip` spares the first matching requests. `retry_after` null means ten
    seconds if throttled, otherwise none; with 0, the response does not say how long to wait.
    """

    kind: str
    mailbox: str = "*"
    endpoint: str = "*"
    provider: str = "*"
    probability: float = 1.0
    times: int | None = None
    skip: int = 0
    status: int = 0
    retry_after: int | None = None
    seconds: float = 0.0
    code: str = ""
    path: str = "*"

    @property
    def refusal(self) -> tuple[int, int]:
        """Return the status of a refused request, and for how many seconds to wait (0: unknown)."""
        if self.kind == "throttle":
            return 429, RETRY_SECONDS if self.retry_after is None else self.retry_after
        return self.status or 503, self.retry_after or 0


def check_fault(fault: Fault) -> None:
    """Raise InvalidRequest for values that no fault can have."""
    check_name("fault kind", fault.kind, KINDS)
    if not 0 <= fault.probability <= 1:
        raise InvalidRequest("probability must be between 0 and 1")
    if min(fault.skip, fault.seconds, fault.retry_after or 0, fault.times or 0) < 0:
        raise InvalidRequest("times, skip, seconds and retry_after must not be negative")
    if fault.status and not 400 <= fault.status <= 599:
        raise InvalidRequest("status must be between 400 and 599")


def check_fault_names(fault: Fault, providers: Mapping[ProviderName, ProviderNames]) -> None:
    """Raise InvalidRequest for a fault that could never happen: it is a typo."""
    check_name("provider", fault.provider, providers, pattern=True)
    matching = [names for name, names in providers.items() if fnmatchcase(name, fault.provider)]
    endpoints = sorted({name for names in matching for name in names.endpoints})
    check_name("endpoint", fault.endpoint, endpoints, pattern=True)
    codes = {code for names in matching for code in names.fault_codes.get(fault.kind, ())} or {""}
    if fault.code not in codes:
        valid = ", ".join(sorted(codes - {""})) or "none"
        raise InvalidRequest(f"unknown code {fault.code!r} for {fault.kind}; use one of {valid}")


@dataclass(slots=True)
class ScheduledFault:
    """A fault in the schedule, with counts of how often it matched and happened."""

    number: int
    fault: Fault
    occasions: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    matched: int = 0
    taken: int = 0

    @property
    def is_spent(self) -> bool:
        return self.fault.times is not None and self.taken >= self.fault.times


class FaultSchedule:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._count = 0
        self._scheduled: dict[int, ScheduledFault] = {}

    def add(self, fault: Fault) -> ScheduledFault:
        check_fault(fault)
        self._count += 1
        scheduled = self._scheduled[self._count] = ScheduledFault(self._count, fault)
        return scheduled

    def remove(self, number: int) -> None:
        if self._scheduled.pop(number, None) is None:
            raise NotFound(f"fault {number} does not exist")

    def clear(self) -> None:
        self._scheduled.clear()

    def list_all(self) -> list[ScheduledFault]:
        return list(self._scheduled.values())

    def take(
        self, kind: FaultKind, mailbox: str = "", endpoint: str = "", provider: str = ""
    ) -> Fault | None:
        """Return the fault of this kind that happens now, if any.

        Every call counts as one occasion, so call it once per occasion.
        """
        return self._take_first(frozenset({kind}), mailbox, endpoint, provider) if self._scheduled else None

    def take_response_fault(self, mailbox: str, endpoint: str, provider: str, path: str = "") -> Fault | None:
        """Return the fault to inject into the response to this request, if any."""
        return self._take_first(_ANSWERS, mailbox, endpoint, provider, path) if self._scheduled else None

    def take_part_fault(self, mailbox: str, endpoint: str, provider: str, path: str = "") -> Fault | None:
        """Return the fault for one part of a batch; a part can only be refused."""
        return self._take_first(REFUSALS, mailbox, endpoint, provider, path) if self._scheduled else None

    def _take_first(
        self, kinds: frozenset[str], mailbox: str, endpoint: str, provider: str, path: str = ""
    ) -> Fault | None:
        for scheduled in self._scheduled.values():
            fault = scheduled.fault
            if (
                fault.kind in kinds
                and not scheduled.is_spent
                and _matches(fault, mailbox, endpoint, provider, path)
            ):
                scheduled.occasions[mailbox, endpoint] += 1
                scheduled.matched += 1
                if scheduled.matched > fault.skip and self._happens(scheduled, mailbox, endpoint):
                    scheduled.taken += 1
                    return fault
        return None

    def _happens(self, scheduled: ScheduledFault, mailbox: str, endpoint: str) -> bool:
        if scheduled.fault.probability >= 1:
            return True
        draw = stable_hash(
            self._seed, scheduled.number, mailbox, endpoint, scheduled.occasions[mailbox, endpoint]
        )
        return draw / 2**64 < scheduled.fault.probability


def _matches(fault: Fault, mailbox: str, endpoint: str, provider: str, path: str) -> bool:
    return (
        fnmatchcase(mailbox.lower(), fault.mailbox.lower())
        and fnmatchcase(endpoint, fault.endpoint)
        and fnmatchcase(provider, fault.provider)
        and fnmatchcase(path, fault.path)
    )
