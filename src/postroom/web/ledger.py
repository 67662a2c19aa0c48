"""The ledger page: the entries of the audit trail, and the verification of its seals."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.flow.documents.route import MACHINE
from postroom.flow.ledger import verification as ledger_verification
from postroom.flow.ledger.verification import LedgerVerification, SignatureCheck
from postroom.model import OrganizationId, Role
from postroom.store.views import actor_names, admin
from postroom.vault import LedgerHeads
from postroom.web import forms, pages
from postroom.web.sessions import SiteContext, get_visitor, member_route

PAGE_SIZE: Final = 100
# The page of each type of entity.
_ENTITY_PATHS: Final = {
    "document": "/documents/",
    "mailbox": "/mailboxes/",
    "message": "/messages/",
    "order": "/orders/",
    "record": "/records/",
    "supplier": "/suppliers/",
    "thread": "/threads/",
}
# Events whose names do not read well as text.
EVENT_NAMES: Final = {"DOCUMENT_TAKEN_IN": "Document created"}


@dataclass(frozen=True)
class LedgerPagesContext:
    """Collaborators of the ledger page. `check` verifies a seal's signature; `heads` are the known ones."""

    site: SiteContext
    check: SignatureCheck
    heads: LedgerHeads
    verifying: set[OrganizationId] = field(default_factory=set[OrganizationId])


def routes(context: LedgerPagesContext) -> list[Route]:
    return [
        member_route(context.site, "/ledger", partial(ledger_page, context)),
        member_route(context.site, "/ledger/verify", partial(verify, context), Role.ADMIN, methods=["POST"]),
    ]


async def ledger_page(
    context: LedgerPagesContext,
    request: Request,
    verification: LedgerVerification | None = None,
    *,
    is_running: bool = False,
) -> Response:
    below = forms.parse_number(request.query_params.get("below"))
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        entries = await admin.list_ledger_entries(
            connection, entity_type=None, entity_id=None, below=below, limit=PAGE_SIZE + 1
        )
        people = await actor_names.find_names(connection, [entry.actor_id for entry in entries])
    return pages.render_page(
        request,
        "ledger.html",
        409 if is_running else 200,
        is_running=is_running,
        entries=entries[:PAGE_SIZE],
        older=entries[PAGE_SIZE - 1].id if len(entries) > PAGE_SIZE else None,
        verification=verification,
        people={**people, MACHINE: "Postroom"},
        entity_paths=_ENTITY_PATHS,
        event_names=EVENT_NAMES,
        now=datetime.now(UTC),
    )


async def verify(context: LedgerPagesContext, request: Request) -> Response:
    """Verify the whole ledger. It reads every entry, so only one run per organization is allowed."""
    organization = get_visitor(request).organization
    if organization in context.verifying:
        return await ledger_page(context, request, is_running=True)
    context.verifying.add(organization)
    try:
        heads = context.heads.list_known(organization)
        verification = await ledger_verification.verify(
            context.site.database, organization, context.check, heads=heads
        )
    finally:
        context.verifying.discard(organization)
    return await ledger_page(context, request, verification)
