"""Simulator holds what every part of mailsim shares; Provider is what a provider module gives to the rest.

A provider module exports `routes(sim) -> list[Route]`: it registers its Provider in `sim.providers` and
returns routes whose `name` is the endpoint as faults and meters call it (`messages.get`). `app.py` puts them
behind the gate.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from starlette.types import Scope

from mailsim.background import Background
from mailsim.clock import Clock
from mailsim.faults import Faults
from mailsim.log import Exchange, RequestLog
from mailsim.mailbox import Mailbox
from mailsim.meters import Meters
from mailsim.orders import Lifecycle, Revocation
from mailsim.outgoing import Outgoing
from mailsim.state import ProviderName
from mailsim.world import World

if TYPE_CHECKING:  # the control's endpoints take a Simulator themselves
    from mailsim.control.endpoint import Endpoint

Quota = Literal["new", "old", "off"]


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 1
    latency_ms: int = 0
    quota: Quota = "new"


class Reply(NamedTuple):
    """A whole answer: what a fault says in a provider's words, or one part of a batch."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks for what, as far as it shows before the request is handled."""

    mailbox: str = ""
    endpoint: str = ""
    budget: str = ""  # what shares a limit of concurrent requests, if anything does


async def _no_lifecycle(_mailbox: Mailbox, _order: Lifecycle) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Provider:
    """What the gate, the truth and the control need to know about a provider.

    Revoking, expiring and lifecycle events return how many things they touched.
    """

    name: ProviderName
    message_id: Callable[[Mailbox, int], str]  # number -> id
    message_number: Callable[[Mailbox, str], int | None]  # id -> number, None when unknown
    thread_id: Callable[[Mailbox, int], str]  # number of the thread's first message -> id
    folder_id: Callable[[Mailbox, str], str]  # folder or label key -> id
    refusal: Callable[[int, int], Reply]  # status, Retry-After seconds (0: none) -> the provider's own error
    caller: Callable[
        [Scope, str], Caller
    ]  # request, name of the route -> mailbox and endpoint; must not raise
    subscriptions: Callable[[Mailbox], list[dict[str, Any]]]  # for people and for the control
    revoke: Callable[[Mailbox, Revocation], Awaitable[int]]
    expire_tokens: Callable[[Mailbox], Awaitable[int]]  # access tokens end now
    expire_cursors: Callable[[Mailbox], Awaitable[int]]  # history ids, delta links
    endpoints: frozenset[str]  # the names that faults, log and meters know
    # Kinds of faults with a `code` -> the codes; among them "" where there is one by default.
    fault_codes: Mapping[str, frozenset[str]]
    prefixes: tuple[str, ...] = ()  # of the paths whose unknown ones it answers with its own 404
    controls: "tuple[Endpoint, ...]" = ()  # its own part of the control API
    lifecycle: Callable[[Mailbox, Lifecycle], Awaitable[int]] = _no_lifecycle


@dataclass(frozen=True, slots=True)
class Simulator:
    options: Options
    clock: Clock
    world: World
    faults: Faults
    meters: Meters
    log: RequestLog  # of what came in
    pushes: RequestLog  # of what went out: pushes and handshakes
    background: Background
    outgoing: Outgoing  # pushes and handshakes
    providers: dict[ProviderName, Provider] = field(default_factory=dict[ProviderName, Provider])
    # "http" and "https": the base URLs, once known
    places: dict[str, str] = field(default_factory=dict[str, str])

    def refused(self, provider: ProviderName, mailbox: str, endpoint: str, entry: Exchange) -> Reply | None:
        """For one part of a batch: the answer of a fault, if one shall happen, noted in its log entry.

        A part can be refused; stalls, cut connections and the like befall the batch that carries it.
        """
        fault = self.faults.take_part(mailbox, endpoint, provider, entry.path)
        if fault is None:
            return None
        self.meters.of(mailbox).faults += 1
        entry.fault = fault.kind
        if fault.kind == "throttle":
            return self.providers[provider].refusal(429, fault.retry_after)
        return self.providers[provider].refusal(fault.status or 503, fault.retry_after)


def make_simulator(options: Options, clock: Clock) -> Simulator:
    """Needs a running event loop from its first use on. Close with `close_simulator`."""
    pushes = RequestLog()
    return Simulator(
        options=options,
        clock=clock,
        world=World(options.seed, clock),
        faults=Faults(options.seed),
        meters=Meters(),
        log=RequestLog(),
        pushes=pushes,
        background=Background(clock),
        outgoing=Outgoing(clock, pushes),
    )


async def close_simulator(sim: Simulator) -> None:
    await sim.background.stop()
    await sim.outgoing.close()
