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
from postroom.flow.mailboxes.connect import Wish
from postroom.model import ContentPolicy, Health, MailboxId, ProviderName, Role
from postroom.store import alarms, mailboxes
from postroom.store.mailboxes import Mailbox
from postroom.store.sessions import Visitor
from postroom.store.views import standing
from postroom.store.views.standing import Standing
from postroom.web import pages
from postroom.web.connect import Counter, authorize, authorize_path, callback
from postroom.web.sessions import guarded, visitor_of

NAMES: Final[Mapping[ProviderName, str]] = {
    ProviderName.GMAIL: "Gmail",
    ProviderName.OUTLOOK: "Microsoft 365",
}
KEPT: Final[Mapping[ContentPolicy, str]] = {
    ContentPolicy.FULL: "Everything",
    ContentPolicy.DOCUMENTS: "Documents",
    ContentPolicy.METADATA: "Metadata only",
}
_HEALTH: Final[Mapping[Health, tuple[str, str]]] = {
    Health.ACTIVE: ("Connected", "New mail is fetched as it comes."),
    Health.TOKEN_REFRESH_FAILED: (
        "Connection lost",
        "Nothing is fetched until it is connected again; it then goes on where it stopped.",
    ),
    Health.SUBSCRIPTION_EXPIRED: (
        "Connected, not notified",
        "The provider tells us of nothing; regular looks find new mail until that is put right.",
    ),
    Health.PROVIDER_ERROR: ("Refused by the provider", "It is tried again from time to time."),
}


@dataclass(frozen=True)
class Shown:
    """A mailbox as the page shows it. `reconnect` is a link, where signing in is the way."""

    mailbox: Mailbox
    provider: str
    kept: str
    state: str
    meaning: str
    well: bool
    reconnect: str | None
    standing: Standing | None


def routes(counter: Counter) -> list[Route]:
    return [
        Route("/oauth/{provider}/authorize", partial(authorize, counter)),
        Route("/oauth/{provider}/callback", partial(callback, counter)),
        guarded(counter.gate, "/mailboxes", partial(page, counter)),
        guarded(
            counter.gate, "/mailboxes/{mailbox}/{action}", partial(act, counter), Role.ADMIN, methods=["POST"]
        ),
    ]


async def page(counter: Counter, request: Request) -> Response:
    async with counter.desk.database.transaction(visitor_of(request).organization) as connected:
        found = await mailboxes.every(connected)
        app_only = await mailboxes.app_only(connected)
        troubles = await alarms.standing(connected)
        standings = await standing.of_all(connected)
    asked = request.query_params.get("connected")
    return pages.page(
        "mailboxes.html",
        mailboxes=[
            _shown(counter, each, standings.get(each.id), app_only=each.id in app_only) for each in found
        ],
        new=next((each for each in found if str(each.id) == asked), None),
        troubles=troubles,
        choices=_choices(counter),
        now=datetime.now(UTC),
    )


def state_of(mailbox: Mailbox) -> tuple[str, str, bool]:
    """How it is, in words, what that means, and whether that is well."""
    state, meaning = _HEALTH[mailbox.health]
    well = mailbox.health is Health.ACTIVE
    if mailbox.disconnected_at is not None:
        return "Disconnected", "Nothing is fetched. What was kept is still here.", False
    if well and mailbox.paused_at is None and mailbox.last_synced_at is None:
        meaning = "It is connected; nothing has been fetched yet."
    elif mailbox.paused_at is not None and well:
        return "Paused", "Nothing is fetched until it is resumed.", False
    return state, meaning, well


def _shown(counter: Counter, mailbox: Mailbox, stands: Standing | None, *, app_only: bool) -> Shown:
    state, meaning, well = state_of(mailbox)
    by_login = mailbox.provider in counter.desk.sign_ins and not app_only
    link = authorize_path(mailbox.provider, Wish(mailbox.policy, mailbox=mailbox.id)) if by_login else None
    return Shown(mailbox, NAMES[mailbox.provider], KEPT[mailbox.policy], state, meaning, well, link, stands)


def _choices(counter: Counter) -> list[tuple[str, str, list[tuple[str, str]] | None]]:
    """For each provider, and the maker of its settings, the links that connect a mailbox, or none."""
    makers = {ProviderName.GMAIL: "google", ProviderName.OUTLOOK: "microsoft"}
    return [
        (
            name,
            makers[provider],
            [(words, authorize_path(provider, Wish(policy))) for policy, words in KEPT.items()]
            if provider in counter.desk.sign_ins
            else None,
        )
        for provider, name in NAMES.items()
    ]


async def act(counter: Counter, request: Request) -> Response:
    """One button."""
    action = _actions(counter, visitor_of(request)).get(request.path_params["action"])
    try:
        mailbox = MailboxId(UUID(request.path_params["mailbox"]))
    except ValueError:
        raise HTTPException(404) from None
    async with counter.desk.database.transaction(visitor_of(request).organization) as connected:
        known = await mailboxes.get(connected, mailbox)
    if action is None or known is None:
        raise HTTPException(404)
    await action(mailbox)
    return RedirectResponse("/mailboxes", 303)


def _actions(counter: Counter, visitor: Visitor) -> Mapping[str, Callable[[MailboxId], Awaitable[bool]]]:
    desk, tokens, _ = counter
    organization, actor = visitor.organization, visitor.actor
    leave = partial(lifecycle.disconnect, desk, tokens, organization, actor=actor)
    return {
        "pause": partial(lifecycle.pause, desk, organization, actor=actor),
        "resume": partial(lifecycle.resume, desk, organization, actor=actor),
        "disconnect": partial(leave, purge=False),
        "purge": partial(leave, purge=True),
    }
