"""The pages and endpoints for sign-in, by one-time link, password or OpenID Connect, and sign-out.

A failed sign-in never reveals whether the address belongs to a member. Credentials are checked in
`flow.access.sign_in`; the session cookie is in `sessions`.
"""

import re
from collections.abc import Mapping
from functools import partial
from secrets import token_urlsafe
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import LoginRejected, OperatorError, PostroomError, TransientError
from postroom.flow.access import sign_in
from postroom.flow.access.sign_in import NewSession
from postroom.logs import Log
from postroom.model import OrganizationId, Role, Secret
from postroom.ports import IdentityProvider, IdentityRequest, OpenIdIdentity
from postroom.vault import sealed_values
from postroom.web import cookies, csrf, forms, pages, sessions
from postroom.web.client_address import group_address
from postroom.web.disconnects import run_while_connected
from postroom.web.sessions import SiteContext, member_route
from postroom.web.throttle import Throttle

log = Log()

_PENDING_COOKIE: Final = "postroom_openid"
_CHOICE_FIELD: Final = "openid_choice"
_PENDING_SECONDS: Final = 600
_CALLBACK: Final = "/sign-in/openid/callback"
_WRONG_CREDENTIALS: Final = (
    "Wrong address or password, or too many attempts. Try again later, or ask an admin for a sign-in link."
)
_TOO_MANY_SIGN_INS: Final = (
    "Too many people are signing in by password. Try again in a moment, or use another way to sign in."
)
_LINK_INVALID: Final = "This link has expired or was already used. Ask for a new one."
_UNKNOWN_ACCOUNT: Final = "This account is not a member. Ask an admin of your organization to add you."


class _PendingOpenIdSignIn(msgspec.Struct):
    state: str
    nonce: str
    verifier: str
    next: str


class _AccountChoice(msgspec.Struct):
    identity: OpenIdIdentity
    next: str


def routes(site: SiteContext) -> list[Route]:
    throttle = Throttle(credit=30)
    return [
        Route("/sign-in", partial(page, site)),
        Route("/sign-in", partial(sign_in_with_password, site, throttle), methods=["POST"]),
        Route("/sign-in/link", partial(link_page, site, throttle)),
        Route("/sign-in/link", partial(sign_in_with_link, site, throttle), methods=["POST"]),
        Route("/sign-in/openid", partial(redirect_to_provider, site)),
        Route(_CALLBACK, partial(sign_in_with_openid, site)),
        Route(_CALLBACK, partial(choose_account, site), methods=["POST"]),
        member_route(site, "/sign-out", partial(sign_out, site), Role.READER, methods=["POST"]),
    ]


async def page(site: SiteContext, request: Request) -> Response:
    return _sign_in_page(request, site, _safe_next_path(request.query_params.get("next")))


async def sign_in_with_password(site: SiteContext, throttle: Throttle, request: Request) -> Response:
    source = _get_source(request)
    form = await _read_own_form(site, request)
    following = _safe_next_path(form.get("next"))
    if throttle.is_blocked(source):
        return _sign_in_page(request, site, following, error=_WRONG_CREDENTIALS, status=429)
    if site.sign_ins.is_full():  # nothing is counted against the member or the source
        return _sign_in_page(request, site, following, error=_TOO_MANY_SIGN_INS, status=503)
    # Charged before the check and refunded on success: parallel attempts must cost as much as serial ones.
    throttle.record_rejection(source)
    address, password = form.get("address", "").strip()[:320], Secret(form.get("password", ""))
    checking = sign_in.sign_in_by_password(
        site.database,
        address,
        password,
        source=group_address(source),
        first=site.organization,
        seconds=site.session_seconds,
    )
    with site.sign_ins.enter():
        signed_in = await run_while_connected(request, checking)
    if signed_in is None:
        return _sign_in_page(request, site, following, error=_WRONG_CREDENTIALS, status=403)
    throttle.record_success(source)
    return _start_session(site, signed_in, following)


async def link_page(site: SiteContext, throttle: Throttle, request: Request) -> Response:
    """Ask before signing in: programs that preview links would use up the link, and another person may have
    sent the link of their own account.
    """
    query = request.query_params
    return await _use_link(site, throttle, request, query, may_sign_in=False)


async def sign_in_with_link(site: SiteContext, throttle: Throttle, request: Request) -> Response:
    form = await _read_own_form(site, request)
    return await _use_link(site, throttle, request, form, may_sign_in=True)


async def _use_link(
    site: SiteContext, throttle: Throttle, request: Request, given: Mapping[str, str], *, may_sign_in: bool
) -> Response:
    """Sign in if the member confirmed it, and knew which session it replaces; otherwise ask."""
    source = _get_source(request)
    if throttle.is_blocked(source):
        return _sign_in_page(request, site, "/", error=_LINK_INVALID, status=429)
    throttle.record_rejection(source)
    token, following = Secret(given.get("token", "")[:100]), _safe_next_path(given.get("next"))
    account = await sign_in.find_account(site.database, token, kind="link")
    session = sessions.get_session_token(site, request)
    current = await sign_in.find_account(site.database, session, kind="session")
    replaced = current if account and current and current.member != account.member else None
    if account and may_sign_in and (replaced is None or str(replaced.member) == given.get("replace")):
        signed_in = await sign_in.sign_in_by_link(site.database, token, seconds=site.session_seconds)
        if signed_in is not None:
            throttle.record_success(source)
            return await _replace_session(site, session if current else None, signed_in, following)
        account = None
    if account is None:
        return _sign_in_page(request, site, "/", error=_LINK_INVALID, status=403)
    throttle.record_success(source)
    return pages.render_page(
        request,
        "sign_in_link.html",
        409 if may_sign_in else 200,
        account=account,
        replaced=replaced,
        token=token.reveal(),
        following=following,
    )


async def _replace_session(
    site: SiteContext, replaced: Secret | None, new_session: NewSession, following: str
) -> Response:
    if replaced is not None:
        await sign_in.sign_out(site.database, replaced)
        sessions.forget_session(site, replaced)
    return _start_session(site, new_session, following)


async def redirect_to_provider(site: SiteContext, request: Request) -> Response:
    identities = _get_identity_provider(site)
    pending = _PendingOpenIdSignIn(
        token_urlsafe(32),
        token_urlsafe(32),
        token_urlsafe(48),
        _safe_next_path(request.query_params.get("next")),
    )
    try:
        url = await identities.authorization_url(_to_identity_request(site, pending))
    except PostroomError as error:
        return _provider_error_page(request, site, error)
    response = RedirectResponse(url, 303, {"cache-control": "no-store"})
    value = sealed_values.seal(site.sealer, _PENDING_COOKIE, msgspec.json.encode(pending), _PENDING_SECONDS)
    name = cookies.cookie_name(_PENDING_COOKIE, url=site.url)
    cookies.set_cookie(response, name, Secret(value), url=site.url, max_age=_PENDING_SECONDS)
    return response


async def sign_in_with_openid(site: SiteContext, request: Request) -> Response:
    """Complete the sign-in when the provider redirects back: once, in the browser that started it."""
    identities = _get_identity_provider(site)
    sealed = request.cookies.get(cookies.cookie_name(_PENDING_COOKIE, url=site.url), "")
    cookie = sealed_values.unseal(site.sealer, _PENDING_COOKIE, sealed)
    code = request.query_params.get("code", "")
    if cookie is None or not 0 < len(code) <= 4096:
        return _clear_pending(site, _sign_in_page(request, site, "/", error=_WRONG_CREDENTIALS, status=400))
    pending = msgspec.json.decode(cookie, type=_PendingOpenIdSignIn)
    if Secret(request.query_params.get("state", "")) != Secret(pending.state):
        return _clear_pending(site, _sign_in_page(request, site, "/", error=_WRONG_CREDENTIALS, status=400))
    try:
        identity = await identities.identity(_to_identity_request(site, pending), Secret(code))
    except PostroomError as error:
        return _clear_pending(site, _provider_error_page(request, site, error))
    signed_in = await sign_in.sign_in_by_identity(site.database, identity, seconds=site.session_seconds)
    if signed_in is not None:
        return _clear_pending(site, _start_session(site, signed_in, pending.next))
    accounts = await sign_in.list_bindable_accounts(site.database, identity)
    if not accounts:
        return _clear_pending(site, _sign_in_page(request, site, "/", error=_UNKNOWN_ACCOUNT, status=403))
    choice = msgspec.json.encode(_AccountChoice(identity, pending.next))
    if accounts.keys() == {site.organization}:  # no one else can add members there
        return _clear_pending(site, await _bind_account(site, request, choice, site.organization))
    sealed = sealed_values.seal(site.sealer, _CHOICE_FIELD, choice, _PENDING_SECONDS)
    page = pages.render_page(request, "sign_in_account.html", accounts=accounts, choice=sealed)
    return _clear_pending(site, page)


async def choose_account(site: SiteContext, request: Request) -> Response:
    """Sign in to the account that a person chose at the first sign-in with an OpenID identity."""
    form = await _read_own_form(site, request)
    choice = sealed_values.unseal(site.sealer, _CHOICE_FIELD, form.get("choice", ""))
    try:
        organization = OrganizationId(UUID(form.get("organization", "")))
    except ValueError:
        raise HTTPException(400) from None
    if choice is None:
        return _sign_in_page(request, site, "/", error=_WRONG_CREDENTIALS, status=400)
    return await _bind_account(site, request, choice, organization)


async def _bind_account(
    site: SiteContext, request: Request, choice: bytes, organization: OrganizationId
) -> Response:
    chosen = msgspec.json.decode(choice, type=_AccountChoice)
    signed_in = await sign_in.bind_identity(
        site.database, chosen.identity, organization, seconds=site.session_seconds
    )
    if signed_in is None:
        return _sign_in_page(request, site, "/", error=_UNKNOWN_ACCOUNT, status=403)
    return _start_session(site, signed_in, chosen.next)


async def sign_out(site: SiteContext, request: Request) -> Response:
    session = sessions.get_session_token(site, request)
    if session is not None:
        await sign_in.sign_out(site.database, session)
    response = RedirectResponse("/sign-in", 303)
    sessions.clear_session_cookie(site, response, session)
    return response


def _start_session(site: SiteContext, new_session: NewSession, following: str) -> Response:
    response = RedirectResponse(following, 303, {"cache-control": "no-store"})
    sessions.set_session_cookie(site, response, new_session.session)
    return response


def _sign_in_page(
    request: Request, site: SiteContext, following: str, *, error: str | None = None, status: int = 200
) -> Response:
    query = "" if following == "/" else f"?{urlencode({'next': following})}"
    return pages.render_page(
        request,
        "sign_in.html",
        status,
        error=error,
        following=following,
        provider=site.identities.name if site.identities else None,
        openid=f"/sign-in/openid{query}",
    )


async def _read_own_form(site: SiteContext, request: Request) -> dict[str, str]:
    """Reject forms of other sites: they could sign a visitor in to a different account."""
    if not csrf.is_same_origin(request, url=site.url):
        raise HTTPException(403)
    return await forms.read(request, max_bytes=8192)


def _safe_next_path(path: str | None) -> str:
    """The path to open after signing in; anything but a local path becomes `/`."""
    return path if path and re.fullmatch(r"/(?![/\\])[!-~]{0,1000}", path) and "\\" not in path else "/"


def _get_identity_provider(site: SiteContext) -> IdentityProvider:
    if site.identities is None:
        raise HTTPException(404)
    return site.identities


def _to_identity_request(site: SiteContext, pending: _PendingOpenIdSignIn) -> IdentityRequest:
    return IdentityRequest(
        Secret(pending.state),
        Secret(pending.nonce),
        Secret(pending.verifier),
        site.url.rstrip("/") + _CALLBACK,
    )


def _provider_error_page(request: Request, site: SiteContext, error: PostroomError) -> Response:
    log.warning("sign_in.failed", error=error)
    if isinstance(error, TransientError):
        message = "The identity provider is not responding. Try again in a moment."
        return _sign_in_page(request, site, "/", error=message, status=503)
    if isinstance(error, OperatorError):
        message = (
            "The identity provider rejected Postroom. The operator must fix the configuration; see the log."
        )
        return _sign_in_page(request, site, "/", error=message, status=503)
    status = 400 if isinstance(error, LoginRejected) else 403
    return _sign_in_page(request, site, "/", error=_WRONG_CREDENTIALS, status=status)


def _clear_pending(site: SiteContext, response: Response) -> Response:
    cookies.clear_cookie(response, cookies.cookie_name(_PENDING_COOKIE, url=site.url), url=site.url)
    return response


def _get_source(request: Request) -> str:
    return request.client.host if request.client else "unknown"
