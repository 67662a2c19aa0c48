"""What happened and what runs: ledger with its proof, push channels, failures with retry, settings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.config import Shown
from postroom.flow.documents.route import MACHINE
from postroom.flow.ledger import seal
from postroom.flow.ledger.seal import SignatureCheck
from postroom.flow.mail import sync
from postroom.model import OrganizationId, Role
from postroom.store import mailboxes, work
from postroom.store.mailboxes import Mailbox
from postroom.store.views import actors, upkeep
from postroom.store.work import Wake
from postroom.web import forms, pages
from postroom.web.sessions import Gate, guarded, visitor_of

PAGE: Final = 100
# Where an entry's subject is shown.
_PLACES: Final = {
    "document": "/documents/",
    "mailbox": "/mailboxes/",
    "message": "/messages/",
    "thread": "/threads/",
}


@dataclass(frozen=True)
class Upkeep:
    """What the pages need. `settings` are masked already; `check` knows the keys that sign the ledger."""

    gate: Gate
    settings: Sequence[Shown]
    check: SignatureCheck
    verifying: set[OrganizationId] = field(default_factory=set[OrganizationId])


def routes(parts: Upkeep) -> list[Route]:
    gate = parts.gate
    return [
        guarded(gate, "/ledger", partial(ledger, parts)),
        guarded(gate, "/ledger/verify", partial(verify, parts), Role.ADMIN, methods=["POST"]),
        guarded(gate, "/subscriptions", partial(subscriptions, parts)),
        guarded(gate, "/failures", partial(failures, parts)),
        guarded(gate, "/failures/retry", partial(retry, parts), Role.ADMIN, methods=["POST"]),
        guarded(gate, "/settings", partial(settings, parts), Role.ADMIN),
    ]


async def ledger(
    parts: Upkeep, request: Request, proof: seal.Proof | None = None, *, under_way: bool = False
) -> Response:
    below = forms.number(request.query_params.get("below"))
    async with parts.gate.database.transaction(visitor_of(request).organization) as connection:
        found = await upkeep.ledger(connection, entity_type=None, entity_id=None, below=below, limit=PAGE + 1)
        people = await actors.names(connection, [each.actor_id for each in found])
    return pages.page(
        "ledger.html",
        409 if under_way else 200,
        under_way=under_way,
        entries=found[:PAGE],
        older=found[PAGE - 1].id if len(found) > PAGE else None,
        proof=proof,
        people={**people, MACHINE: "Postroom"},
        places=_PLACES,
        now=datetime.now(UTC),
    )


async def verify(parts: Upkeep, request: Request) -> Response:
    """One at a time for each organization: it reads all there is."""
    organization = visitor_of(request).organization
    if organization in parts.verifying:
        return await ledger(parts, request, under_way=True)
    parts.verifying.add(organization)
    try:
        proof = await seal.verify(parts.gate.database, organization, parts.check)
    finally:
        parts.verifying.discard(organization)
    return await ledger(parts, request, proof)


async def subscriptions(parts: Upkeep, request: Request) -> Response:
    async with parts.gate.database.transaction(visitor_of(request).organization) as connection:
        found = await upkeep.subscriptions(connection, mailbox=None, after=None, limit=1000)
        boxes: dict[UUID, Mailbox] = {each.id: each for each in await mailboxes.every(connection)}
    live = [each for each in found if each.replaced_at is None]
    return pages.page(
        "subscriptions.html",
        subscriptions=[(boxes[each.mailbox_id], each) for each in live if each.mailbox_id in boxes],
        replaced=len(found) - len(live),
        now=datetime.now(UTC),
    )


async def failures(parts: Upkeep, request: Request) -> Response:
    async with parts.gate.database.transaction(visitor_of(request).organization) as connection:
        found = await upkeep.failures(connection, mailbox=None, unresolved=True, below=None, limit=PAGE)
        parked = await work.parked(connection)
        names: dict[UUID, str] = {each.id: each.address for each in await mailboxes.every(connection)}
    return pages.page("failures.html", failures=found, parked=parked, names=names, now=datetime.now(UTC))


async def retry(parts: Upkeep, request: Request) -> Response:
    """One message that failed alone, or one piece of parked work."""
    given = await forms.read(request)
    organization = visitor_of(request).organization
    async with parts.gate.database.transaction(organization) as connection:
        if failure := forms.number(given.get("failure")):
            mailbox = await upkeep.retry(connection, failure)
            if mailbox is not None:
                await work.wake(connection, [Wake(organization, sync.KIND, str(mailbox))])
        elif given.get("kind") and given.get("subject"):
            await work.unpark(connection, given["kind"], given["subject"])
        else:
            raise HTTPException(400)
    return RedirectResponse("/failures", 303)


async def settings(parts: Upkeep, _request: Request) -> Response:
    return pages.page("settings.html", settings=parts.settings)
