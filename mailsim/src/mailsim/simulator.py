"""The Simulator, whose state all parts of mailsim share, and the Provider interface of both providers.

It creates and closes the Simulator; it has no routes. A provider module exports `routes(sim) -> list[Route]`,
registers its Provider in `sim.providers` and returns routes whose `name` is the endpoint name used by faults
and meters (`messages.get`). `app.py` wraps them in the middleware.
"""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from starlette.types import Scope

from mailsim.background import BackgroundTasks
from mailsim.clock import Clock
from mailsim.device_codes import DeviceCodes
from mailsim.errors import UNSIMULATED, explain_unsimulated
from mailsim.faults import Fault, FaultSchedule
from mailsim.mailbox import Mailbox
from mailsim.message_state import ProviderName
from mailsim.meters import Meters
from mailsim.provider_actions import LifecycleRequest, ProviderNames, RevocationRequest
from mailsim.push_client import PushClient
from mailsim.registry import Registry
from mailsim.request_log import HttpExchange, RequestLog
from mailsim.state.saved_part import ProviderState

if TYPE_CHECKING:  # a circular import: control endpoints take a Simulator
    from mailsim.control.endpoint import ControlEndpoint

Quota = Literal["new", "old", "off"]
Reset = Callable[[], Awaitable[None]]
LoadState = Callable[[bytes], Awaitable[None]]
_ID = re.compile(r"/(?!v1(?:/|\.0/))(?:me(?=[/?])|[^/?\s]*[\d@=][^/?\s]*)")
_log = logging.getLogger("mailsim")


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    seed: int = 1
    latency_ms: int = 0
    quota: Quota = "new"


class RawResponse(NamedTuple):
    """A complete HTTP response: a provider's error for a fault, or one part of a batch."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The mailbox and the endpoint of a request, as far as known before it is handled."""

    mailbox: str = ""
    endpoint: str = ""
    limit_key: str = ""  # requests with the same key share a concurrency limit; empty: none


async def _no_lifecycle(_mailbox: Mailbox, _request: LifecycleRequest) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Provider:
    """What the middleware and the control API need from a provider.

    `revoke`, `expire_tokens`, `expire_cursors` and `lifecycle` return the number of affected objects.
    """

    name: ProviderName
    message_id: Callable[[Mailbox, int], str]  # number -> ID
    message_number: Callable[[Mailbox, str], int | None]  # ID -> number, None when unknown
    thread_id: Callable[[Mailbox, int], str]  # number of the thread's first message -> ID
    folder_id: Callable[[Mailbox, str], str]  # folder or label key -> ID
    error_response: Callable[[int, int], RawResponse]  # status, seconds to wait (0: unknown)
    identify_request: Callable[[Scope, str], RequestTarget]  # ASGI scope, route name; must not raise
    subscriptions: Callable[[Mailbox], list[dict[str, Any]]]  # for the status page and the control API
    revoke: Callable[[Mailbox, RevocationRequest], Awaitable[int]]
    expire_tokens: Callable[[Mailbox], Awaitable[int]]  # access tokens only
    expire_cursors: Callable[[Mailbox], Awaitable[int]]  # history IDs, delta links
    names: ProviderNames  # of endpoints, fault codes and reasons
    state: ProviderState  # what the saved state contains of it
    prefixes: tuple[str, ...] = ()  # path prefixes whose unknown paths get the provider's own 404
    # Paths outside these prefixes that only the provider has.
    unsimulated: re.Pattern[str] | None = None
    controls: "tuple[ControlEndpoint, ...]" = ()  # its own endpoints of the control API
    lifecycle: Callable[[Mailbox, LifecycleRequest], Awaitable[int]] = _no_lifecycle


@dataclass(frozen=True, slots=True)
class Simulator:
    options: SimulatorOptions
    clock: Clock
    registry: Registry
    faults: FaultSchedule
    meters: Meters
    request_log: RequestLog  # incoming requests
    push_log: RequestLog  # outgoing pushes and handshakes
    device_codes: DeviceCodes
    background: BackgroundTasks
    push_client: PushClient
    reset: Reset  # replaces this simulator with a new one
    load: LoadState  # replaces this simulator with a saved one
    providers: dict[ProviderName, Provider] = field(default_factory=dict[ProviderName, Provider])
    # Keys "http" and "https", set once the sockets are bound.
    base_urls: dict[str, str] = field(default_factory=dict[str, str])
    unsimulated: set[str] = field(default_factory=set[str])  # explanations that were logged

    def log_unsimulated(self, body: str) -> None:
        """Log once what the body of a 501 says that only the provider has. IDs become `*`."""
        if (explanation := UNSIMULATED.search(body)) is None:
            return
        shown = explain_unsimulated(_ID.sub("/*", explanation[1]))
        if shown not in self.unsimulated:
            self.unsimulated.add(shown)
            _log.warning(shown)

    def take_part_fault(
        self, provider: ProviderName, mailbox: str, endpoint: str, entry: HttpExchange
    ) -> Fault | None:
        """Return the fault of one part of a batch, if one happens, and log it.

        A part can only be refused; stalls and cut connections apply to the batch that carries it.
        """
        fault = self.faults.take_part_fault(mailbox, endpoint, provider, entry.path)
        if fault is not None:
            self.meters.get(mailbox).faults += 1
            entry.fault = fault.kind
        return fault


def make_simulator(options: SimulatorOptions, clock: Clock, reset: Reset, load: LoadState) -> Simulator:
    """Create a simulator. It needs a running event loop; close it with `close_simulator`."""
    push_log = RequestLog()
    registry = Registry(options.seed, clock)
    return Simulator(
        options=options,
        clock=clock,
        registry=registry,
        faults=FaultSchedule(options.seed),
        meters=Meters(),
        request_log=RequestLog(),
        push_log=push_log,
        device_codes=DeviceCodes(registry),
        background=BackgroundTasks(clock),
        push_client=PushClient(clock, push_log),
        reset=reset,
        load=load,
    )


async def close_simulator(sim: Simulator) -> None:
    await sim.background.stop()
    await sim.push_client.close()
