"""The guided page of a demonstration: what one sees, buttons that break it, and what is lost by that.

Only there while `postroom demo` runs: it orders trouble from the simulator and ends processes of ours.
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
from postroom.store.views import overview
from postroom.web import pages
from postroom.web.mailboxes import PROVIDER_NAMES, describe_state
from postroom.web.sessions import SiteContext, get_visitor, member_route

if TYPE_CHECKING:
    from postroom.engine import SimulatorControl

# New mail is here within seconds; what no push told of, within the minute of a sweep.
PATIENCE_SECONDS: Final = 150
_LOST, _THROTTLED, _RETRY_AFTER = 10, 12, 3


@dataclass(frozen=True)
class DemoContext:
    """What the page needs. `differing` remembers since when a message was seen on one side alone.

    `shown` is what was compared last, for while the database is away.
    """

    site: SiteContext
    simulator: "SimulatorControl"
    home: Path
    differing: dict[str, float] = field(default_factory=dict[str, float])
    shown: dict[UUID, Sequence["MailboxComparison"]] = field(
        default_factory=dict[UUID, Sequence["MailboxComparison"]]
    )


@dataclass(frozen=True, slots=True)
class MailboxComparison:
    """One mailbox: what the provider has beside what is kept."""

    mailbox: Mailbox
    provider: str
    state: str
    well: bool
    there: int
    here: int
    coming: int
    missing: int
    extra: int
    duplicate: int


@dataclass(frozen=True, slots=True)
class DemoFault:
    name: str
    button: str
    does: str
    watch: str


FAULTS: Final = (
    DemoFault(
        "pushes",
        "Lose pushes",
        f"The next {_LOST} notifications of both providers get lost.",
        "New mail stops coming at once, and comes all the same: a sweep looks by itself, here every minute.",
    ),
    DemoFault(
        "throttle",
        "Throttle",
        f"The next {_THROTTLED} calls are refused with 429, come back in {_RETRY_AFTER} seconds.",
        "Postroom waits as long as it is told, and goes on where it was.",
    ),
    DemoFault(
        "cursors",
        "Expire cursors",
        "Both providers forget how far Postroom had read.",
        "The mailboxes are listed anew and compared; nothing is stored twice.",
    ),
    DemoFault(
        "consent",
        "Revoke consent",
        "The owner of the Gmail mailbox withdraws the permission.",
        "The mailbox says so. Reconnect it under Mailboxes: all that came in between is fetched.",
    ),
    DemoFault(
        "worker",
        "Kill a worker",
        "One of the two worker processes gets kill -9.",
        "It is started again; what it had begun is done by whoever is free.",
    ),
    DemoFault(
        "database",
        "Kill the database",
        "PostgreSQL gets kill -9 in the middle of everything.",
        "It recovers and everything goes on from the last commit. This page waits for it.",
    ),
)


def routes(context: DemoContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/demo", partial(page, context, "demo.html")),
        member_route(site, "/demo/parts", partial(page, context, "demo_fragments.html")),
        member_route(
            site, "/demo/break/{trouble}", partial(inject_fault, context), Role.ADMIN, methods=["POST"]
        ),
    ]


async def page(context: DemoContext, template: str, request: Request) -> Response:
    organization = get_visitor(request).organization
    try:
        async with asyncio.timeout(4):
            context.shown[organization] = await compare_mailboxes(context, request)
        away = False
    except (DatabaseUnavailable, TransientError, TimeoutError):
        away = True
    ordered = request.query_params.get("ordered")
    return pages.render_page(
        request,
        template,
        compared=context.shown.get(organization, []),
        away=away,
        troubles=FAULTS,
        ordered=next((each for each in FAULTS if each.name == ordered), None),
        now=datetime.now(UTC),
    )


async def compare_mailboxes(context: DemoContext, request: Request) -> list[MailboxComparison]:
    """Every mailbox, message by message. The store is read first: what comes in between is coming."""
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await mailboxes.list_all(connection)
        kept = {each.id: await overview.list_message_ids(connection, each.id) for each in found}
    known = set(await context.simulator.mailboxes())
    return [await _compare_mailbox(context, each, kept[each.id]) for each in found if each.address in known]


async def _compare_mailbox(
    context: DemoContext, mailbox: Mailbox, kept: Sequence[tuple[str, str]]
) -> MailboxComparison:
    truth, now = set(await context.simulator.truth(mailbox.address)), time.monotonic()
    state, _, well = describe_state(mailbox)
    here = {provider_id for provider_id, _ in kept}
    for each in truth & here:
        context.differing.pop(each, None)
    # While a person must act first, mail waits at the provider.
    missing = _count_overdue(context, truth - here, now) if well else 0
    return MailboxComparison(
        mailbox=mailbox,
        provider=PROVIDER_NAMES[mailbox.provider],
        state=state,
        well=well,
        there=len(truth),
        here=len(kept),
        coming=len(truth - here) - missing,
        missing=missing,
        extra=_count_overdue(context, here - truth, now) if well else 0,
        duplicate=count_duplicates(truth, kept),
    )


def _count_overdue(context: DemoContext, differing: Collection[str], now: float) -> int:
    """How many have been on one side alone for longer than a sweep takes."""
    return sum(now - context.differing.setdefault(each, now) > PATIENCE_SECONDS for each in differing)


def count_duplicates(truth: Collection[str], kept: Sequence[tuple[str, str]]) -> int:
    """Letters that are kept more often than the provider has them, by the name that their sender gave them.

    The same letter may lie twice in a mailbox: then the provider has both of what is kept.
    """
    copies = Counter(name for _, name in kept if name)
    there = Counter(name for provider_id, name in kept if name and provider_id in truth)
    return sum(max(0, count - max(1, there[name])) for name, count in copies.items())


async def inject_fault(context: DemoContext, request: Request) -> Response:
    """One button."""
    orders: Mapping[str, Callable[[DemoContext], Awaitable[None]]] = {
        "pushes": _lose_pushes,
        "throttle": _throttle,
        "cursors": _expire_cursors,
        "consent": _revoke_consent,
        "worker": _kill_worker,
        "database": _kill_database,
    }
    name = request.path_params["trouble"]
    if name not in orders:
        raise HTTPException(404)
    await orders[name](context)
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
    """Who is connected as a worker from this machine is one of ours: the database is the demonstration's."""
    here = socket.gethostname()[:30]
    workers = [
        each
        for each in (await health.read_health(context.site.database)).of_role("worker")
        if each.host == here
    ]
    for each in workers[:1]:
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)


async def _kill_database(context: DemoContext) -> None:
    await asyncio.to_thread(kill_server, context.home)
