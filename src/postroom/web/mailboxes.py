"""The mailboxes page: the state of each mailbox; pause, resume, disconnect and purge it.

Also the names of providers, policies and states that other pages show, and the routes of the OAuth endpoints
in `connect`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.flow.mailboxes import lifecycle, mailbox_health
from postroom.flow.mailboxes.connect import authorize_path
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.model import ContentPolicy, MailboxId, ProviderName, Role
from postroom.store import alerts, mailboxes
from postroom.store.mailboxes import Mailbox
from postroom.store.sessions import SessionMember
from postroom.store.views import mailbox_status
from postroom.store.views.mailbox_status import MailboxStatus
from postroom.web import pages
from postroom.web.connect import MailboxPagesContext, authorize, callback
from postroom.web.sessions import get_visitor, member_route

PROVIDER_NAMES: Final[Mapping[ProviderName, str]] = {
    ProviderName.GMAIL: "Gmail",
    ProviderName.OUTLOOK: "Microsoft 365",
}
POLICY_NAMES: Final[Mapping[ContentPolicy, str]] = {
    ContentPolicy.FULL: "Full messages",
    ContentPolicy.DOCUMENTS: "Documents only",
    ContentPolicy.METADATA: "Metadata only",
}


@dataclass(frozen=True)
class MailboxCard:
    """A mailbox as the page shows it. `reconnect` is the sign-in link; app-only mailboxes have none."""

    mailbox: Mailbox
    provider: str
    policy: str
    state: str
    meaning: str
    remedy: str | None
    is_healthy: bool
    reconnect: str | None
    status: MailboxStatus | None


def routes(context: MailboxPagesContext) -> list[Route]:
    return [
        Route("/oauth/{provider}/authorize", partial(authorize, context)),
        Route("/oauth/{provider}/callback", partial(callback, context)),
        member_route(context.site, "/mailboxes", partial(page, context)),
        member_route(
            context.site, "/mailboxes/{mailbox}/{action}", partial(act, context), Role.ADMIN, methods=["POST"]
        ),
    ]


async def page(context: MailboxPagesContext, request: Request) -> Response:
    async with context.connect.database.transaction(get_visitor(request).organization) as connection:
        connected = await mailboxes.list_all(connection)
        app_only = await mailboxes.list_app_only_ids(connection)
        active_alerts = await alerts.list_active(connection)
        statuses = await mailbox_status.list_by_mailbox(connection)
    connected_id = request.query_params.get("connected")
    return pages.render_page(
        request,
        "mailboxes.html",
        mailboxes=[
            _build_card(context, mailbox, statuses.get(mailbox.id), app_only=mailbox.id in app_only)
            for mailbox in connected
        ],
        new=next((mailbox for mailbox in connected if str(mailbox.id) == connected_id), None),
        alerts=active_alerts,
        choices=_list_connect_choices(context),
        now=datetime.now(UTC),
    )


def describe_state(mailbox: Mailbox) -> tuple[str, str, bool]:
    """The state's name, what it means, and whether the mailbox is healthy."""
    if mailbox.disconnected_at is not None:
        return "Disconnected", "New mail is not fetched. Stored mail is still here.", False
    if mailbox.health_cause is not None:
        description = mailbox_health.DESCRIPTIONS[mailbox.health_cause]
        return description.name, description.meaning, False
    if mailbox.paused_at is not None:
        return "Paused", "New mail is not fetched until you resume the mailbox.", False
    if mailbox.last_synced_at is None:
        return "Connected", "The first sync has not finished yet.", True
    return "Connected", "New mail is fetched as it arrives.", True


def describe_remedy(mailbox: Mailbox) -> str | None:
    """What a person can do about the mailbox's problem, if it has one."""
    cause = mailbox.health_cause if mailbox.disconnected_at is None else None
    return mailbox_health.DESCRIPTIONS[cause].remedy if cause else None


def _build_card(
    context: MailboxPagesContext, mailbox: Mailbox, status: MailboxStatus | None, *, app_only: bool
) -> MailboxCard:
    state, meaning, is_healthy = describe_state(mailbox)
    has_sign_in = mailbox.provider in context.connect.sign_ins and not app_only
    link = authorize_path(mailbox.provider, ConnectRequest(mailbox=mailbox.id)) if has_sign_in else None
    return MailboxCard(
        mailbox,
        PROVIDER_NAMES[mailbox.provider],
        POLICY_NAMES[mailbox.policy],
        state,
        meaning,
        describe_remedy(mailbox),
        is_healthy,
        link,
        status,
    )


def _list_connect_choices(
    context: MailboxPagesContext,
) -> list[tuple[str, str, list[tuple[str, str]] | None]]:
    """For each provider: its name, its vendor and the connect links, or None if it is not configured."""
    vendors = {ProviderName.GMAIL: "google", ProviderName.OUTLOOK: "microsoft"}
    return [
        (
            name,
            vendors[provider],
            [
                (label, authorize_path(provider, ConnectRequest(policy)))
                for policy, label in POLICY_NAMES.items()
            ]
            if provider in context.connect.sign_ins
            else None,
        )
        for provider, name in PROVIDER_NAMES.items()
    ]


async def act(context: MailboxPagesContext, request: Request) -> Response:
    """Pause, resume, disconnect or purge a mailbox."""
    action = _actions(context, get_visitor(request)).get(request.path_params["action"])
    try:
        mailbox = MailboxId(UUID(request.path_params["mailbox"]))
    except ValueError:
        raise HTTPException(404) from None
    async with context.connect.database.transaction(get_visitor(request).organization) as connection:
        stored = await mailboxes.get(connection, mailbox)
    if action is None or stored is None:
        raise HTTPException(404)
    await action(mailbox)
    return RedirectResponse("/mailboxes", 303)


def _actions(
    context: MailboxPagesContext, visitor: SessionMember
) -> Mapping[str, Callable[[MailboxId], Awaitable[bool]]]:
    connect, tokens, _ = context
    organization, actor = visitor.organization, visitor.actor
    disconnect = partial(lifecycle.disconnect, connect, tokens, organization, actor=actor)
    return {
        "pause": partial(lifecycle.pause, connect, organization, actor=actor),
        "resume": partial(lifecycle.resume, connect, organization, actor=actor),
        "disconnect": partial(disconnect, purge=False),
        "purge": partial(disconnect, purge=True),
    }
