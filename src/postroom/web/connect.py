"""The way to a provider's consent page and back (C1). Shows nothing of what the address bar held."""

from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlencode
from uuid import UUID, uuid4

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from postroom.errors import LoginRejected
from postroom.flow.mailboxes import connect, invitations
from postroom.flow.mailboxes.connect import (
    ConnectContext,
    ConnectedMailbox,
    ConnectRequest,
    LoginRefusal,
    LoginRefusalReason,
)
from postroom.flow.mailboxes.invitations import Invitation
from postroom.flow.mailboxes.tokens import AccessTokens
from postroom.model import ContentPolicy, MailboxId, ProviderName, Role, Secret
from postroom.web import csrf, pages
from postroom.web.sessions import SiteContext, get_visitor, require_role

MAX_PARAMETER_LENGTH: Final = 4096
_TITLES: Final = {
    LoginRefusalReason.UNKNOWN: "This sign-in is no longer good",
    LoginRefusalReason.DENIED: "Nothing was connected",
    LoginRefusalReason.NOT_ACCEPTED: "The provider did not let us in",
    LoginRefusalReason.SCOPES_MISSING: "One more permission is needed",
    LoginRefusalReason.OTHER_ACCOUNT: "That was another account",
    LoginRefusalReason.NO_MAILBOX: "This account has no mailbox that can be read",
    LoginRefusalReason.APPLICATION: "This Postroom is not set up right",
    LoginRefusalReason.TRY_AGAIN: "The provider has trouble",
}
_THEIR_FAULT: Final = frozenset({LoginRefusalReason.APPLICATION, LoginRefusalReason.TRY_AGAIN})


class MailboxPagesContext(NamedTuple):
    """What the pages of mailboxes need: where they connect, and who may."""

    desk: ConnectContext
    tokens: AccessTokens
    site: SiteContext


async def authorize(context: MailboxPagesContext, request: Request) -> Response:
    """Begin a login and send the browser to the provider: for an admin, or for whoever was invited."""
    if "invitation" not in request.query_params:
        return await require_role(context.site, partial(_authorize_as_admin, context), Role.ADMIN)(request)
    invitation = await invitations.read(context.desk, request.query_params["invitation"])
    if invitation is None or invitation.provider is not get_provider(request):
        return _refusal_page(get_provider(request), connect.refuse_unknown_login())
    return await _start_login(context, request, invitation)


async def _authorize_as_admin(context: MailboxPagesContext, request: Request) -> Response:
    provider = get_provider(request)
    try:
        wish = _wish(request)
    except LoginRejected as error:
        return _refusal_page(provider, LoginRefusal(LoginRefusalReason.NOT_ACCEPTED, str(error)))
    visitor = get_visitor(request)
    wanted = Invitation(visitor.organization, provider, wish, uuid4())
    return await _start_login(context, request, wanted, actor=visitor.actor)


async def _start_login(
    context: MailboxPagesContext, request: Request, invitation: Invitation, *, actor: str | None = None
) -> Response:
    browser = csrf.get_browser_secret(request) or csrf.new_browser_secret()
    try:
        url = await connect.begin_login(
            context.desk,
            invitation.organization,
            invitation.provider,
            invitation.request,
            browser=browser,
            login_id=invitation.login_id,
            actor=actor,
        )
    except LoginRejected as error:
        return _refusal_page(invitation.provider, LoginRefusal(LoginRefusalReason.NOT_ACCEPTED, str(error)))
    response = RedirectResponse(url, 303, {"cache-control": "no-store"})
    csrf.set_browser_cookie(response, browser, url=context.desk.url)
    return response


async def callback(context: MailboxPagesContext, request: Request) -> Response:
    """Where the provider sends the browser back to."""
    provider = get_provider(request)
    done = await connect.complete_login(
        context.desk,
        provider,
        state=_read_secret(request, "state") or Secret(""),
        browser=csrf.get_browser_secret(request),
        code=_read_secret(request, "code"),
        error=request.query_params.get("error"),
    )
    match done:
        case ConnectedMailbox(invited=True):
            return pages.render_page("connected.html")
        case ConnectedMailbox(mailbox=mailbox):
            return RedirectResponse(f"/mailboxes?connected={mailbox.id}", 303, {"cache-control": "no-store"})
        case LoginRefusal():
            return _refusal_page(provider, done)


def get_provider(request: Request) -> ProviderName:
    try:
        return ProviderName(request.path_params["provider"])
    except ValueError:
        raise HTTPException(404) from None


def authorize_path(provider: ProviderName, wish: ConnectRequest) -> str:
    asked: dict[str, str] = {}
    if wish.policy is not None:
        asked |= {"policy": wish.policy.value}
    if wish.mailbox is not None:
        asked |= {"mailbox": str(wish.mailbox)}
    if wish.force_consent:
        asked |= {"again": "1"}
    return f"/oauth/{provider}/authorize?{urlencode(asked)}"


def _wish(request: Request) -> ConnectRequest:
    given = request.query_params
    try:
        policy = ContentPolicy(given["policy"]) if "policy" in given else None
    except ValueError:
        raise LoginRejected("There is no such content policy: metadata, documents and full are.") from None
    mailbox = _read_uuid(request, "mailbox")
    if mailbox is None and "mailbox" in given:
        raise LoginRejected("There is no such mailbox.")
    return ConnectRequest(
        policy,
        address=given.get("address", "").strip()[:320] or None,
        mailbox=MailboxId(mailbox) if mailbox else None,
        force_consent="again" in given,
    )


def _read_uuid(request: Request, name: str) -> UUID | None:
    try:
        return UUID(request.query_params.get(name, ""))
    except ValueError:
        return None


def _read_secret(request: Request, name: str) -> Secret | None:
    value = request.query_params.get(name, "")
    return Secret(value) if 0 < len(value) <= MAX_PARAMETER_LENGTH else None


def _refusal_page(provider: ProviderName, refused: LoginRefusal) -> Response:
    wish = refused.request
    # An address that was asked for stays out of the page; whoever gave it begins where they did before.
    # So does who was invited: a link is good for one login.
    by_member = wish is not None and wish.address is None and not refused.invited
    again = authorize_path(provider, wish) if wish is not None and by_member else None
    return pages.render_page(
        "refused.html",
        503 if refused.reason in _THEIR_FAULT else 400,
        title=_TITLES[refused.reason],
        words=refused.message,
        again=again,
        invited=refused.invited,
    )
