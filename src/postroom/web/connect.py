"""OAuth endpoints that connect a mailbox: the redirect to the consent page, and its callback.

Also the context shared with `mailboxes`, which holds the routes. Pages never display a value from the URL.
The login itself is in `flow.mailboxes.connect`.
"""

from functools import partial
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from postroom.errors import LoginRejected
from postroom.flow.mailboxes import connect, invitations, login_checks
from postroom.flow.mailboxes.connect import ConnectContext, ConnectedMailbox, authorize_path
from postroom.flow.mailboxes.connect_request import ConnectRequest
from postroom.flow.mailboxes.invitations import Invitation
from postroom.flow.mailboxes.login_checks import LoginRefusal, LoginRefusalReason
from postroom.flow.mailboxes.tokens import AccessTokens
from postroom.model import ContentPolicy, MailboxId, ProviderName, Role, Secret
from postroom.web import csrf, pages
from postroom.web.sessions import SiteContext, get_visitor, require_role

MAX_PARAMETER_LENGTH: Final = 4096
_TITLES: Final = {
    LoginRefusalReason.UNKNOWN: "This sign-in is not valid",
    LoginRefusalReason.DENIED: "Nothing was connected",
    LoginRefusalReason.NOT_ACCEPTED: "The provider rejected the sign-in",
    LoginRefusalReason.SCOPES_MISSING: "A permission is missing",
    LoginRefusalReason.OTHER_ACCOUNT: "You signed in with a different account",
    LoginRefusalReason.NO_MAILBOX: "This account has no readable mailbox",
    LoginRefusalReason.APPLICATION: "Postroom is misconfigured",
    LoginRefusalReason.TRY_AGAIN: "The provider is unavailable",
}
_SERVER_SIDE: Final = frozenset({LoginRefusalReason.APPLICATION, LoginRefusalReason.TRY_AGAIN})


class MailboxPagesContext(NamedTuple):
    """Collaborators of the mailboxes page and the OAuth endpoints."""

    connect: ConnectContext
    tokens: AccessTokens
    site: SiteContext


async def authorize(context: MailboxPagesContext, request: Request) -> Response:
    """Start a login and redirect to the provider: for an admin, or for the holder of an invitation."""
    if "invitation" not in request.query_params:
        return await require_role(context.site, partial(_authorize_as_admin, context), Role.ADMIN)(request)
    invitation = await invitations.read(context.connect, request.query_params["invitation"])
    if invitation is None or invitation.provider is not get_provider(request):
        return _refusal_page(request, get_provider(request), login_checks.refuse_unknown_login())
    return await _start_login(context, request, invitation)


async def _authorize_as_admin(context: MailboxPagesContext, request: Request) -> Response:
    provider = get_provider(request)
    try:
        connect_request = _read_connect_request(request)
    except LoginRejected as error:
        return _refusal_page(request, provider, LoginRefusal(LoginRefusalReason.NOT_ACCEPTED, str(error)))
    visitor = get_visitor(request)
    invitation = Invitation(visitor.organization, provider, connect_request, uuid4())
    return await _start_login(context, request, invitation, actor=visitor.actor)


async def _start_login(
    context: MailboxPagesContext, request: Request, invitation: Invitation, *, actor: str | None = None
) -> Response:
    browser = csrf.get_browser_secret(request, url=context.connect.url) or csrf.new_browser_secret()
    try:
        url = await connect.begin_login(
            context.connect,
            invitation.organization,
            invitation.provider,
            invitation.request,
            browser=browser,
            login_id=invitation.login_id,
            actor=actor,
        )
    except LoginRejected as error:
        return _refusal_page(
            request, invitation.provider, LoginRefusal(LoginRefusalReason.NOT_ACCEPTED, str(error))
        )
    response = RedirectResponse(url, 303, {"cache-control": "no-store"})
    csrf.set_browser_cookie(response, browser, url=context.connect.url)
    return response


async def callback(context: MailboxPagesContext, request: Request) -> Response:
    """Complete the login when the provider redirects back."""
    provider = get_provider(request)
    result = await connect.complete_login(
        context.connect,
        provider,
        state=_read_secret(request, "state") or Secret(""),
        browser=csrf.get_browser_secret(request, url=context.connect.url),
        code=_read_secret(request, "code"),
        error=request.query_params.get("error"),
    )
    match result:
        case ConnectedMailbox(invited=True):
            return pages.render_page(request, "connected.html")
        case ConnectedMailbox(mailbox=mailbox):
            return RedirectResponse(f"/mailboxes?connected={mailbox.id}", 303, {"cache-control": "no-store"})
        case LoginRefusal():
            return _refusal_page(request, provider, result)


def get_provider(request: Request) -> ProviderName:
    try:
        return ProviderName(request.path_params["provider"])
    except ValueError:
        raise HTTPException(404) from None


def _read_connect_request(request: Request) -> ConnectRequest:
    query = request.query_params
    try:
        policy = ContentPolicy(query["policy"]) if "policy" in query else None
    except ValueError:
        raise LoginRejected("Unknown content policy. Use metadata, documents or full.") from None
    mailbox = _read_uuid(request, "mailbox")
    if mailbox is None and "mailbox" in query:
        raise LoginRejected("Mailbox not found.")
    return ConnectRequest(
        policy,
        address=query.get("address", "").strip()[:320] or None,
        mailbox=MailboxId(mailbox) if mailbox else None,
        force_consent="again" in query,
    )


def _read_uuid(request: Request, name: str) -> UUID | None:
    try:
        return UUID(request.query_params.get(name, ""))
    except ValueError:
        return None


def _read_secret(request: Request, name: str) -> Secret | None:
    value = request.query_params.get(name, "")
    return Secret(value) if 0 < len(value) <= MAX_PARAMETER_LENGTH else None


def _refusal_page(request: Request, provider: ProviderName, refusal: LoginRefusal) -> Response:
    connect_request = refusal.request
    # The page must not reveal a requested address, so such a login restarts where it began. So does an
    # invited one: an invitation is valid for a single login.
    can_retry = connect_request is not None and connect_request.address is None and not refusal.invited
    retry = authorize_path(provider, connect_request) if connect_request is not None and can_retry else None
    return pages.render_page(
        request,
        "refused.html",
        503 if refusal.reason in _SERVER_SIDE else 400,
        title=_TITLES[refusal.reason],
        message=refusal.message,
        retry=retry,
        invited=refusal.invited,
    )
