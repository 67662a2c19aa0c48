"""The demo page: compares the store with the simulated providers, and injects faults on request.

Served only while `postroom demo` runs: its buttons make the simulator fail and kill our own processes.
"""

import asyncio
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.model import Role
from postroom.store import health, mailboxes
from postroom.store.embedded.crash_simulation import kill_server
from postroom.store.mailboxes import Mailbox
from postroom.store.views import demo as demo_views
from postroom.web import pages
from postroom.web.mailboxes import PROVIDER_NAMES, describe_state
from postroom.web.sessions import SiteContext, get_visitor, member_route

if TYPE_CHECKING:
    from postroom.engine import SimulatorControl

# New mail normally arrives within seconds; without a push, the next sweep fetches it within a minute.
OVERDUE_SECONDS: Final = 150
_LOST, _THROTTLED, _RETRY_AFTER = 10, 12, 3


@dataclass(frozen=True)
class DemoContext:
    """Collaborators and state of the demo page.

    `differing` maps a message to the time since when it exists on one side only. `latest` holds the last
    comparison of each organization, shown while the database is down.
    """

    site: SiteContext
    simulator: "SimulatorControl"
    home: Path
    differing: dict[str, float] = field(default_factory=dict[str, float])
    latest: dict[UUID, Sequence["MailboxComparison"]] = field(
        default_factory=dict[UUID, Sequence["MailboxComparison"]]
    )


@dataclass(frozen=True, slots=True)
class MailboxComparison:
    """One mailbox: the number of messages at the provider and in the store."""

    mailbox: Mailbox
    provider: str
    state: str
    is_healthy: bool
    at_provider: int
    stored: int
    in_transit: int
    missing: int
    extra: int
    duplicate: int


@dataclass(frozen=True, slots=True)
class DemoFault:
    """A fault that the page can inject, and what to expect after it."""

    name: str
    button: str
    effect: str
    expectation: str


FAULTS: Final = (
    DemoFault(
        "pushes",
        "Lose pushes",
        f"Drops the next {_LOST} notifications of both providers.",
        "New mail no longer arrives immediately, but the next sweep fetches it: here once a minute.",
    ),
    DemoFault(
        "throttle",
        "Throttle",
        f"Answers the next {_THROTTLED} requests with 429 and Retry-After: {_RETRY_AFTER}.",
        "Postroom waits as requested and continues where it stopped.",
    ),
    DemoFault(
        "cursors",
        "Expire cursors",
        "Both providers reject Postroom's cursors.",
        "Postroom lists both mailboxes again and compares them. No message is stored twice.",
    ),
    DemoFault(
        "consent",
        "Revoke consent",
        "The owner of the Gmail mailbox revokes the grant.",
        "The mailbox shows: reconnect required. Reconnect it, and Postroom fetches the missed mail.",
    ),
    DemoFault(
        "worker",
        "Kill a worker",
        "Sends SIGKILL to one of the two worker processes.",
        "The worker restarts. Another worker takes over its work when the leases expire.",
    ),
    DemoFault(
        "database",
        "Kill the database",
        "Sends SIGKILL to PostgreSQL.",
        "PostgreSQL recovers, and Postroom continues from the last commit. This page waits for it.",
    ),
)


def routes(context: DemoContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/demo", partial(page, context, "demo.html")),
        member_route(site, "/demo/parts", partial(page, context, "demo_fragments.html")),
        member_route(
            site, "/demo/break/{fault}", partial(inject_fault, context), Role.ADMIN, methods=["POST"]
        ),
    ]


async def page(context: DemoContext, template: str, request: Request) -> Response:
    organization = get_visitor(request).organization
    try:
        async with asyncio.timeout(4):
            context.latest[organization] = await compare_mailboxes(context, request)
        is_database_down = False
    except (DatabaseUnavailable, TransientError, TimeoutError):
        is_database_down = True
    injected = request.query_params.get("ordered")
    return pages.render_page(
        request,
        template,
        comparisons=context.latest.get(organization, []),
        is_database_down=is_database_down,
        faults=FAULTS,
        injected=next((fault for fault in FAULTS if fault.name == injected), None),
        now=datetime.now(UTC),
    )


async def compare_mailboxes(context: DemoContext, request: Request) -> list[MailboxComparison]:
    """Compare every mailbox message by message.

    The store is read first: a message that arrives in between counts as in transit, not as extra.
    """
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        connected = await mailboxes.list_all(connection)
        stored = {
            mailbox.id: await demo_views.list_message_ids(connection, mailbox.id) for mailbox in connected
        }
    simulated = set(await context.simulator.mailboxes())
    return [
        await _compare_mailbox(context, mailbox, stored[mailbox.id])
        for mailbox in connected
        if mailbox.address in simulated
    ]


async def _compare_mailbox(
    context: DemoContext, mailbox: Mailbox, stored: Sequence[tuple[str, str]]
) -> MailboxComparison:
    truth, now = set(await context.simulator.truth(mailbox.address)), time.monotonic()
    state, _, is_healthy = describe_state(mailbox)
    stored_ids = {provider_id for provider_id, _ in stored}
    for message_id in truth & stored_ids:
        context.differing.pop(message_id, None)
    # While a mailbox waits to be reconnected, its new mail stays at the provider.
    missing = _count_overdue(context, truth - stored_ids, now) if is_healthy else 0
    return MailboxComparison(
        mailbox=mailbox,
        provider=PROVIDER_NAMES[mailbox.provider],
        state=state,
        is_healthy=is_healthy,
        at_provider=len(truth),
        stored=len(stored),
        in_transit=len(truth - stored_ids) - missing,
        missing=missing,
        extra=_count_overdue(context, stored_ids - truth, now) if is_healthy else 0,
        duplicate=count_duplicates(truth, stored),
    )


def _count_overdue(context: DemoContext, differing: Collection[str], now: float) -> int:
    """Count the messages that have been on one side only for longer than a sweep takes."""
    return sum(
        now - context.differing.setdefault(message_id, now) > OVERDUE_SECONDS for message_id in differing
    )


def count_duplicates(truth: Collection[str], stored: Sequence[tuple[str, str]]) -> int:
    """Count messages that are stored more often than the provider has them, by Message-ID.

    A mailbox may really contain the same message twice; then the provider has both copies too.
    """
    copies = Counter(header for _, header in stored if header)
    at_provider = Counter(header for provider_id, header in stored if header and provider_id in truth)
    return sum(max(0, count - max(1, at_provider[header])) for header, count in copies.items())


async def inject_fault(context: DemoContext, request: Request) -> Response:
    """Inject the fault of one button."""
    actions: Mapping[str, Callable[[DemoContext], Awaitable[None]]] = {
        "pushes": _lose_pushes,
        "throttle": _throttle,
        "cursors": _expire_cursors,
        "consent": _revoke_consent,
        "worker": _kill_worker,
        "database": _kill_database,
    }
    name = request.path_params["fault"]
    if name not in actions:
        raise HTTPException(404)
    await actions[name](context)
    return RedirectResponse(f"/demo?ordered={name}#watch", 303)


async def _lose_pushes(context: DemoContext) -> None:
    await context.simulator.fault("push_lost", times=_LOST)


async def _throttle(context: DemoContext) -> None:
    await context.simulator.fault("throttle", mailbox="*@*", times=_THROTTLED, retry_after=_RETRY_AFTER)


async def _expire_cursors(context: DemoContext) -> None:
    for address in await context.simulator.mailboxes():
        await context.simulator.expire_cursors(address)


async def _revoke_consent(context: DemoContext) -> None:
    await context.simulator.revoke((await context.simulator.mailboxes())[0])


async def _kill_worker(context: DemoContext) -> None:
    """Kill a worker on this machine. It belongs to the demo, because the database does."""
    here = socket.gethostname()[:30]
    workers = [
        process
        for process in (await health.read_health(context.site.database)).list_processes("worker")
        if process.host == here
    ]
    for process in workers[:1]:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


async def _kill_database(context: DemoContext) -> None:
    await asyncio.to_thread(kill_server, context.home)
