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

from postroom.config import SettingView
from postroom.flow.documents.route import MACHINE
from postroom.flow.ledger import seal
from postroom.flow.ledger.seal import SignatureCheck
from postroom.model import OrganizationId, Role, WorkKind
from postroom.store import mailboxes, work
from postroom.store.mailboxes import Mailbox
from postroom.store.views import actor_names, admin
from postroom.store.work import Wake
from postroom.web import forms, pages
from postroom.web.sessions import SiteContext, get_visitor, member_route

PAGE: Final = 100
# Where an entry's subject is shown.
_PLACES: Final = {
    "document": "/documents/",
    "mailbox": "/mailboxes/",
    "message": "/messages/",
    "thread": "/threads/",
}


@dataclass(frozen=True)
class LedgerPagesContext:
    """What the pages need. `settings` are masked already; `check` knows the keys that sign the ledger."""

    site: SiteContext
    settings: Sequence[SettingView]
    check: SignatureCheck
    verifying: set[OrganizationId] = field(default_factory=set[OrganizationId])


def routes(context: LedgerPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/ledger", partial(ledger, context)),
        member_route(site, "/ledger/verify", partial(verify, context), Role.ADMIN, methods=["POST"]),
        member_route(site, "/subscriptions", partial(subscriptions, context)),
        member_route(site, "/failures", partial(failures, context)),
        member_route(site, "/failures/retry", partial(retry, context), Role.ADMIN, methods=["POST"]),
        member_route(site, "/settings", partial(settings, context), Role.ADMIN),
    ]


async def ledger(
    context: LedgerPagesContext,
    request: Request,
    proof: seal.LedgerVerification | None = None,
    *,
    under_way: bool = False,
) -> Response:
    below = forms.parse_number(request.query_params.get("below"))
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await admin.ledger(connection, entity_type=None, entity_id=None, below=below, limit=PAGE + 1)
        people = await actor_names.names(connection, [each.actor_id for each in found])
    return pages.render_page(
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


async def verify(context: LedgerPagesContext, request: Request) -> Response:
    """One at a time for each organization: it reads all there is."""
    organization = get_visitor(request).organization
    if organization in context.verifying:
        return await ledger(context, request, under_way=True)
    context.verifying.add(organization)
    try:
        proof = await seal.verify(context.site.database, organization, context.check)
    finally:
        context.verifying.discard(organization)
    return await ledger(context, request, proof)


async def subscriptions(context: LedgerPagesContext, request: Request) -> Response:
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await admin.subscriptions(connection, mailbox=None, after=None, limit=1000)
        boxes: dict[UUID, Mailbox] = {each.id: each for each in await mailboxes.every(connection)}
    live = [each for each in found if each.replaced_at is None]
    return pages.render_page(
        "subscriptions.html",
        subscriptions=[(boxes[each.mailbox_id], each) for each in live if each.mailbox_id in boxes],
        replaced=len(found) - len(live),
        now=datetime.now(UTC),
    )


async def failures(context: LedgerPagesContext, request: Request) -> Response:
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await admin.failures(connection, mailbox=None, unresolved=True, below=None, limit=PAGE)
        parked = await work.parked(connection)
        names: dict[UUID, str] = {each.id: each.address for each in await mailboxes.every(connection)}
    return pages.render_page(
        "failures.html", failures=found, parked=parked, names=names, now=datetime.now(UTC)
    )


async def retry(context: LedgerPagesContext, request: Request) -> Response:
    """One message that failed alone, or one piece of parked work."""
    given = await forms.read(request)
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        if failure := forms.parse_number(given.get("failure")):
            mailbox = await admin.retry(connection, failure)
            if mailbox is not None:
                await work.wake(connection, [Wake(organization, WorkKind.SYNC, str(mailbox))])
        elif given.get("kind") and given.get("subject"):
            await work.unpark(connection, given["kind"], given["subject"])
        else:
            raise HTTPException(400)
    return RedirectResponse("/failures", 303)


async def settings(context: LedgerPagesContext, _request: Request) -> Response:
    return pages.render_page("settings.html", settings=context.settings)
