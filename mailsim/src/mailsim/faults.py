"""What shall go wrong, by plan or by chance, for which mailbox and endpoint. Decides only; others act on it.

Chance is a function of seed, fault, mailbox, endpoint and how often that endpoint was asked, not of the order
in which concurrent requests happen to arrive: a seed reproduces a run.
"""

from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, get_args

from mailsim.errors import Invalid, Unknown
from mailsim.generated import stable

AnswerKind = Literal[
    "throttle",  # 429 in the provider's own words; `retry_after` seconds, 0: without the header
    "error",  # `status` (default 503) in the provider's own words
    "html",  # `status` (default 502) with an HTML page
    "stall",  # nothing for `seconds`, then the answer
    "cut",  # the connection ends in the middle of the body
    "truncated",  # half of the JSON, as if complete
]
ProviderKind = Literal[
    "push_lost",
    "push_doubled",
    "push_late",  # by `seconds`
    "push_reordered",
    "not_readable",  # a new message is not found for `seconds` after its push
    "delta_repeat",
    "delta_empty_page",
    "cursor_expired",
    "consent_revoked",
    "token_error",  # the token endpoint answers with `code`
    "push_token",  # the Pub/Sub token is wrong: `code` is aud, email, expired or signature
]
FaultKind = AnswerKind | ProviderKind
ANSWER_KINDS: tuple[str, ...] = get_args(AnswerKind)
_ANSWERS = frozenset(ANSWER_KINDS)
_REFUSALS = frozenset({"throttle", "error"})
KINDS: tuple[str, ...] = (*ANSWER_KINDS, *get_args(ProviderKind))


@dataclass(frozen=True, slots=True)
class Fault:
    """`mailbox`, `endpoint` and, of answers, `path` are patterns (`*`, `messages.*`). `times` None: for ever.
    `skip`: spare the first ones.
    """

    kind: str
    mailbox: str = "*"
    endpoint: str = "*"
    provider: str = "*"
    probability: float = 1.0
    times: int | None = None
    skip: int = 0
    status: int = 0
    retry_after: int = 0
    seconds: float = 0.0
    code: str = ""
    path: str = "*"


@dataclass(slots=True)
class Plan:
    """A fault on order, and what became of it."""

    number: int
    fault: Fault
    asked: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    matched: int = 0
    taken: int = 0

    @property
    def spent(self) -> bool:
        return self.fault.times is not None and self.taken >= self.fault.times


class Faults:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._count = 0
        self._plans: dict[int, Plan] = {}

    def add(self, fault: Fault) -> Plan:
        if fault.kind not in KINDS:
            raise Invalid(f"no fault {fault.kind!r}; there are {', '.join(KINDS)}")
        if not 0 <= fault.probability <= 1:
            raise Invalid("a probability lies between 0 and 1")
        if min(fault.skip, fault.seconds, fault.retry_after, 0 if fault.times is None else fault.times) < 0:
            raise Invalid("times, skip, seconds and retry_after are not negative")
        if fault.status and not 400 <= fault.status <= 599:
            raise Invalid("the status of a fault lies between 400 and 599")
        self._count += 1
        plan = self._plans[self._count] = Plan(self._count, fault)
        return plan

    def remove(self, number: int) -> None:
        if self._plans.pop(number, None) is None:
            raise Unknown(f"no fault number {number}")

    def clear(self) -> None:
        self._plans.clear()

    def all(self) -> list[Plan]:
        return list(self._plans.values())

    def take(
        self, kind: FaultKind, mailbox: str = "", endpoint: str = "", provider: str = ""
    ) -> Fault | None:
        """The fault of this kind that shall happen now, if any. Asking counts: ask once for each occasion."""
        return self._first(frozenset({kind}), mailbox, endpoint, provider) if self._plans else None

    def take_answer(self, mailbox: str, endpoint: str, provider: str, path: str = "") -> Fault | None:
        """What shall go wrong with the answer to this request, if anything."""
        return self._first(_ANSWERS, mailbox, endpoint, provider, path) if self._plans else None

    def take_part(self, mailbox: str, endpoint: str, provider: str, path: str = "") -> Fault | None:
        """The same for one part of a batch, which can only be refused."""
        return self._first(_REFUSALS, mailbox, endpoint, provider, path) if self._plans else None

    def _first(
        self, kinds: frozenset[str], mailbox: str, endpoint: str, provider: str, path: str = ""
    ) -> Fault | None:
        for plan in self._plans.values():
            fault = plan.fault
            if fault.kind in kinds and not plan.spent and _meets(fault, mailbox, endpoint, provider, path):
                plan.asked[mailbox, endpoint] += 1
                plan.matched += 1
                if plan.matched > fault.skip and self._falls(plan, mailbox, endpoint):
                    plan.taken += 1
                    return fault
        return None

    def _falls(self, plan: Plan, mailbox: str, endpoint: str) -> bool:
        if plan.fault.probability >= 1:
            return True
        draw = stable(self._seed, plan.number, mailbox, endpoint, plan.asked[mailbox, endpoint])
        return draw / 2**64 < plan.fault.probability


def _meets(fault: Fault, mailbox: str, endpoint: str, provider: str, path: str) -> bool:
    return (
        fnmatchcase(mailbox.lower(), fault.mailbox.lower())
        and fnmatchcase(endpoint, fault.endpoint)
        and fnmatchcase(provider, fault.provider)
        and fnmatchcase(path, fault.path)
    )
