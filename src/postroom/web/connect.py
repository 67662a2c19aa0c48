"""The way to a provider's consent page and back (C1). Shows nothing of what the address bar held."""

from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlencode
from uuid import UUID, uuid4

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from postroom.errors import LoginRefused
from postroom.flow.mailboxes import connect, invite
from postroom.flow.mailboxes.connect import Connected, Desk, Reason, Refused, Wish
from postroom.flow.mailboxes.invite import Invitation
from postroom.flow.mailboxes.tokens import AccessTokens
from postroom.model import ContentPolicy, MailboxId, ProviderName, Role, Secret
from postroom.web import origin, pages
from postroom.web.sessions import Gate, guard, visitor_of

LONGEST: Final = 4096
_TITLES: Final = {
    Reason.UNKNOWN: "This sign-in is no longer good",
    Reason.DENIED: "Nothing was connected",
    Reason.NOT_ACCEPTED: "The provider did not let us in",
    Reason.SCOPES_MISSING: "One more permission is needed",
    Reason.OTHER_ACCOUNT: "That was another account",
    Reason.NO_MAILBOX: "This account has no mailbox that can be read",
    Reason.APPLICATION: "This Postroom is not set up right",
    Reason.TRY_AGAIN: "The provider has trouble",
}
_THEIR_FAULT: Final = frozenset({Reason.APPLICATION, Reason.TRY_AGAIN})


class Counter(NamedTuple):
    """What the pages of mailboxes need: where they connect, and who may."""

    desk: Desk
    tokens: AccessTokens
    gate: Gate


async def authorize(counter: Counter, request: Request) -> Response:
    """Begin a login and send the browser to the provider: for an admin, or for whoever was invited."""
    if "invitation" not in request.query_params:
        return await guard(counter.gate, partial(_by_admin, counter), Role.ADMIN)(request)
    invitation = await invite.read(counter.desk, request.query_params["invitation"])
    if invitation is None or invitation.provider is not provider_of(request):
        return _page(provider_of(request), connect.unknown())
    return await _begun(counter, request, invitation)


async def _by_admin(counter: Counter, request: Request) -> Response:
    provider = provider_of(request)
    try:
        wish = _wish(request)
    except LoginRefused as error:
        return _page(provider, Refused(Reason.NOT_ACCEPTED, str(error)))
    visitor = visitor_of(request)
    wanted = Invitation(visitor.organization, provider, wish, uuid4())
    return await _begun(counter, request, wanted, actor=visitor.actor)


async def _begun(
    counter: Counter, request: Request, invitation: Invitation, *, actor: str | None = None
) -> Response:
    browser = origin.browser_of(request) or origin.new_browser()
    try:
        url = await connect.begin(
            counter.desk,
            invitation.organization,
            invitation.provider,
            invitation.wish,
            browser=browser,
            login_id=invitation.login_id,
            actor=actor,
        )
    except LoginRefused as error:
        return _page(invitation.provider, Refused(Reason.NOT_ACCEPTED, str(error)))
    response = RedirectResponse(url, 303, {"cache-control": "no-store"})
    origin.give(response, browser, url=counter.desk.url)
    return response


async def callback(counter: Counter, request: Request) -> Response:
    """Where the provider sends the browser back to."""
    provider = provider_of(request)
    done = await connect.complete(
        counter.desk,
        provider,
        state=_secret(request, "state") or Secret(""),
        browser=origin.browser_of(request),
        code=_secret(request, "code"),
        error=request.query_params.get("error"),
    )
    match done:
        case Connected(invited=True):
            return pages.page("connected.html")
        case Connected(mailbox=mailbox):
            return RedirectResponse(f"/mailboxes?connected={mailbox.id}", 303, {"cache-control": "no-store"})
        case Refused():
            return _page(provider, done)


def provider_of(request: Request) -> ProviderName:
    try:
        return ProviderName(request.path_params["provider"])
    except ValueError:
        raise HTTPException(404) from None


def authorize_path(provider: ProviderName, wish: Wish) -> str:
    asked: dict[str, str] = {}
    if wish.policy is not None:
        asked |= {"policy": wish.policy.value}
    if wish.mailbox is not None:
        asked |= {"mailbox": str(wish.mailbox)}
    if wish.ask_again:
        asked |= {"again": "1"}
    return f"/oauth/{provider}/authorize?{urlencode(asked)}"


def _wish(request: Request) -> Wish:
    given = request.query_params
    try:
        policy = ContentPolicy(given["policy"]) if "policy" in given else None
    except ValueError:
        raise LoginRefused("There is no such content policy: metadata, documents and full are.") from None
    mailbox = _uuid(request, "mailbox")
    if mailbox is None and "mailbox" in given:
        raise LoginRefused("There is no such mailbox.")
    return Wish(
        policy,
        address=given.get("address", "").strip()[:320] or None,
        mailbox=MailboxId(mailbox) if mailbox else None,
        ask_again="again" in given,
    )


def _uuid(request: Request, name: str) -> UUID | None:
    try:
        return UUID(request.query_params.get(name, ""))
    except ValueError:
        return None


def _secret(request: Request, name: str) -> Secret | None:
    value = request.query_params.get(name, "")
    return Secret(value) if 0 < len(value) <= LONGEST else None


def _page(provider: ProviderName, refused: Refused) -> Response:
    wish = refused.wish
    # An address that was asked for stays out of the page; whoever gave it begins where they did before.
    # So does who was invited: a link is good for one login.
    by_member = wish is not None and wish.address is None and not refused.invited
    again = authorize_path(provider, wish) if wish is not None and by_member else None
    return pages.page(
        "refused.html",
        503 if refused.reason in _THEIR_FAULT else 400,
        title=_TITLES[refused.reason],
        words=refused.words,
        again=again,
        invited=refused.invited,
    )
