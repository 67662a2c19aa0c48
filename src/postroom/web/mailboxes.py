"""The page of mailboxes: how each is, in words, and the buttons that pause, resume and disconnect it."""

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

from postroom.flow.mailboxes import lifecycle
from postroom.flow.mailboxes.connect import ConnectRequest
from postroom.model import ContentPolicy, MailboxHealth, MailboxId, ProviderName, Role
from postroom.store import alerts, mailboxes
from postroom.store.mailboxes import Mailbox
from postroom.store.sessions import Visitor
from postroom.store.views import mailbox_status
from postroom.store.views.mailbox_status import Standing
from postroom.web import pages
from postroom.web.connect import MailboxPagesContext, authorize, authorize_path, callback
from postroom.web.sessions import get_visitor, member_route

PROVIDER_NAMES: Final[Mapping[ProviderName, str]] = {
    ProviderName.GMAIL: "Gmail",
    ProviderName.OUTLOOK: "Microsoft 365",
}
POLICY_NAMES: Final[Mapping[ContentPolicy, str]] = {
    ContentPolicy.FULL: "Everything",
    ContentPolicy.DOCUMENTS: "Documents",
    ContentPolicy.METADATA: "Metadata only",
}
_HEALTH: Final[Mapping[MailboxHealth, tuple[str, str]]] = {
    MailboxHealth.ACTIVE: ("Connected", "New mail is fetched as it comes."),
    MailboxHealth.TOKEN_REFRESH_FAILED: (
        "Connection lost",
        "Nothing is fetched until it is connected again; it then goes on where it stopped.",
    ),
    MailboxHealth.SUBSCRIPTION_EXPIRED: (
        "Connected, not notified",
        "The provider tells us of nothing; regular looks find new mail until that is put right.",
    ),
    MailboxHealth.PROVIDER_ERROR: ("Refused by the provider", "It is tried again from time to time."),
}


@dataclass(frozen=True)
class MailboxCard:
    """A mailbox as the page shows it. `reconnect` is a link, where signing in is the way."""

    mailbox: Mailbox
    provider: str
    kept: str
    state: str
    meaning: str
    well: bool
    reconnect: str | None
    standing: Standing | None


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
    async with context.desk.database.transaction(get_visitor(request).organization) as connected:
        found = await mailboxes.every(connected)
        app_only = await mailboxes.app_only(connected)
        troubles = await alerts.standing(connected)
        standings = await mailbox_status.of_all(connected)
    asked = request.query_params.get("connected")
    return pages.render_page(
        "mailboxes.html",
        mailboxes=[
            _build_card(context, each, standings.get(each.id), app_only=each.id in app_only) for each in found
        ],
        new=next((each for each in found if str(each.id) == asked), None),
        troubles=troubles,
        choices=_list_connect_choices(context),
        now=datetime.now(UTC),
    )


def describe_state(mailbox: Mailbox) -> tuple[str, str, bool]:
    """How it is, in words, what that means, and whether that is well."""
    state, meaning = _HEALTH[mailbox.health]
    well = mailbox.health is MailboxHealth.ACTIVE
    if mailbox.disconnected_at is not None:
        return "Disconnected", "Nothing is fetched. What was kept is still here.", False
    if well and mailbox.paused_at is None and mailbox.last_synced_at is None:
        meaning = "It is connected; nothing has been fetched yet."
    elif mailbox.paused_at is not None and well:
        return "Paused", "Nothing is fetched until it is resumed.", False
    return state, meaning, well


def _build_card(
    context: MailboxPagesContext, mailbox: Mailbox, stands: Standing | None, *, app_only: bool
) -> MailboxCard:
    state, meaning, well = describe_state(mailbox)
    by_login = mailbox.provider in context.desk.sign_ins and not app_only
    link = (
        authorize_path(mailbox.provider, ConnectRequest(mailbox.policy, mailbox=mailbox.id))
        if by_login
        else None
    )
    return MailboxCard(
        mailbox,
        PROVIDER_NAMES[mailbox.provider],
        POLICY_NAMES[mailbox.policy],
        state,
        meaning,
        well,
        link,
        stands,
    )


def _list_connect_choices(
    context: MailboxPagesContext,
) -> list[tuple[str, str, list[tuple[str, str]] | None]]:
    """For each provider, and the maker of its settings, the links that connect a mailbox, or none."""
    makers = {ProviderName.GMAIL: "google", ProviderName.OUTLOOK: "microsoft"}
    return [
        (
            name,
            makers[provider],
            [
                (words, authorize_path(provider, ConnectRequest(policy)))
                for policy, words in POLICY_NAMES.items()
            ]
            if provider in context.desk.sign_ins
            else None,
        )
        for provider, name in PROVIDER_NAMES.items()
    ]


async def act(context: MailboxPagesContext, request: Request) -> Response:
    """One button."""
    action = _actions(context, get_visitor(request)).get(request.path_params["action"])
    try:
        mailbox = MailboxId(UUID(request.path_params["mailbox"]))
    except ValueError:
        raise HTTPException(404) from None
    async with context.desk.database.transaction(get_visitor(request).organization) as connected:
        known = await mailboxes.get(connected, mailbox)
    if action is None or known is None:
        raise HTTPException(404)
    await action(mailbox)
    return RedirectResponse("/mailboxes", 303)


def _actions(
    context: MailboxPagesContext, visitor: Visitor
) -> Mapping[str, Callable[[MailboxId], Awaitable[bool]]]:
    desk, tokens, _ = context
    organization, actor = visitor.organization, visitor.actor
    leave = partial(lifecycle.disconnect, desk, tokens, organization, actor=actor)
    return {
        "pause": partial(lifecycle.pause, desk, organization, actor=actor),
        "resume": partial(lifecycle.resume, desk, organization, actor=actor),
        "disconnect": partial(leave, purge=False),
        "purge": partial(leave, purge=True),
    }
