"""The sign-in page: one-time link, password, OpenID. Says the same to everybody who is not let in."""

import re
from functools import partial
from secrets import token_urlsafe
from typing import Final
from urllib.parse import urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import LoginRejected, OperatorError, PostroomError, TransientError
from postroom.flow.access import sign_in
from postroom.flow.access.sign_in import NewSession
from postroom.logs import Log
from postroom.model import Role, Secret
from postroom.ports import IdentityProvider, IdentityRequest
from postroom.vault import sealed_tokens
from postroom.web import csrf, forms, pages, sessions
from postroom.web.sessions import SiteContext, member_route
from postroom.web.throttle import Throttle

log = Log()

_PENDING_COOKIE: Final = "postroom_openid"
_PENDING_SECONDS: Final = 600
_CALLBACK: Final = "/sign-in/openid/callback"
_WRONG_CREDENTIALS: Final = (
    "That is not right, or it was wrong too often in a row. Try again in a while, or ask an admin for a link."
)
_LINK_INVALID: Final = "This link was used already, or is too old. Ask for another one."
_UNKNOWN_ACCOUNT: Final = (
    "Nobody here is known by that account. Ask an admin of your organization to add you."
)


class _PendingOpenIdSignIn(msgspec.Struct):
    state: str
    nonce: str
    verifier: str
    next: str


def routes(site: SiteContext) -> list[Route]:
    throttle = Throttle(credit=30)
    return [
        Route("/sign-in", partial(page, site)),
        Route("/sign-in", partial(sign_in_with_password, site, throttle), methods=["POST"]),
        Route("/sign-in/link", link_page),
        Route("/sign-in/link", partial(sign_in_with_link, site, throttle), methods=["POST"]),
        Route("/sign-in/openid", partial(redirect_to_provider, site)),
        Route(_CALLBACK, partial(sign_in_with_openid, site)),
        member_route(site, "/sign-out", partial(sign_out, site), Role.READER, methods=["POST"]),
    ]


async def page(site: SiteContext, request: Request) -> Response:
    return _sign_in_page(site, _safe_next_path(request.query_params.get("next")))


async def sign_in_with_password(site: SiteContext, throttle: Throttle, request: Request) -> Response:
    source = _get_source(request)
    given = await _read_own_form(site, request)
    following = _safe_next_path(given.get("next"))
    if throttle.shuts_out(source):
        return _sign_in_page(site, following, words=_WRONG_CREDENTIALS, status=429)
    throttle.refused(source)  # until it is right: many at once shall cost as much as many in a row
    done = await sign_in.sign_in_by_password(
        site.database,
        given.get("address", "").strip()[:320],
        Secret(given.get("password", "")),
        first=site.organization,
        seconds=site.session_seconds,
    )
    if done is None:
        return _sign_in_page(site, following, words=_WRONG_CREDENTIALS, status=403)
    throttle.right(source)
    return _start_session(site, done, following)


async def link_page(request: Request) -> Response:
    """Opening the link uses nothing up: whoever previews links in messages would. The page's button does."""
    asked = request.query_params
    return pages.render_page(
        "sign_in_link.html", token=asked.get("token", "")[:100], following=_safe_next_path(asked.get("next"))
    )


async def sign_in_with_link(site: SiteContext, throttle: Throttle, request: Request) -> Response:
    source = _get_source(request)
    given = await _read_own_form(site, request)
    if throttle.shuts_out(source):
        return _sign_in_page(site, "/", words=_LINK_INVALID, status=429)
    throttle.refused(source)
    done = await sign_in.sign_in_by_link(
        site.database, Secret(given.get("token", "")), seconds=site.session_seconds
    )
    if done is None:
        return _sign_in_page(site, "/", words=_LINK_INVALID, status=403)
    throttle.right(source)
    return _start_session(site, done, _safe_next_path(given.get("next")))


async def redirect_to_provider(site: SiteContext, request: Request) -> Response:
    identities = _get_identity_provider(site)
    under_way = _PendingOpenIdSignIn(
        token_urlsafe(32),
        token_urlsafe(32),
        token_urlsafe(48),
        _safe_next_path(request.query_params.get("next")),
    )
    try:
        url = await identities.authorization_url(_to_identity_request(site, under_way))
    except PostroomError as error:
        return _provider_error_page(site, error)
    response = RedirectResponse(url, 303, {"cache-control": "no-store"})
    value = sealed_tokens.issue(
        site.sealer, _PENDING_COOKIE, msgspec.json.encode(under_way), _PENDING_SECONDS
    )
    response.set_cookie(
        _PENDING_COOKIE,
        value,
        max_age=_PENDING_SECONDS,
        path="/sign-in/openid",
        secure=site.url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )
    return response


async def sign_in_with_openid(site: SiteContext, request: Request) -> Response:
    """Where the provider sends the browser back to. Only the browser that began may end it, once."""
    identities = _get_identity_provider(site)
    kept = sealed_tokens.redeem(site.sealer, _PENDING_COOKIE, request.cookies.get(_PENDING_COOKIE, ""))
    code = request.query_params.get("code", "")
    if kept is None or not 0 < len(code) <= 4096:
        return _clear_pending(_sign_in_page(site, "/", words=_WRONG_CREDENTIALS, status=400))
    under_way = msgspec.json.decode(kept, type=_PendingOpenIdSignIn)
    if Secret(request.query_params.get("state", "")) != Secret(under_way.state):
        return _clear_pending(_sign_in_page(site, "/", words=_WRONG_CREDENTIALS, status=400))
    try:
        identity = await identities.identity(_to_identity_request(site, under_way), Secret(code))
    except PostroomError as error:
        return _clear_pending(_provider_error_page(site, error))
    done = await sign_in.sign_in_by_identity(site.database, identity, seconds=site.session_seconds)
    if done is None:
        return _clear_pending(_sign_in_page(site, "/", words=_UNKNOWN_ACCOUNT, status=403))
    return _clear_pending(_start_session(site, done, under_way.next))


async def sign_out(site: SiteContext, request: Request) -> Response:
    session = sessions.get_session_token(site, request)
    if session is not None:
        await sign_in.sign_out(site.database, session)
    response = RedirectResponse("/sign-in", 303)
    sessions.clear_session_cookie(site, response, session)
    return response


def _start_session(site: SiteContext, done: NewSession, following: str) -> Response:
    response = RedirectResponse(following, 303, {"cache-control": "no-store"})
    sessions.set_session_cookie(site, response, done.session)
    return response


def _sign_in_page(
    site: SiteContext, following: str, *, words: str | None = None, status: int = 200
) -> Response:
    asked = "" if following == "/" else f"?{urlencode({'next': following})}"
    return pages.render_page(
        "sign_in.html",
        status,
        words=words,
        following=following,
        provider=site.identities.name if site.identities else None,
        openid=f"/sign-in/openid{asked}",
    )


async def _read_own_form(site: SiteContext, request: Request) -> dict[str, str]:
    """A form of another site could sign a visitor in as somebody else."""
    if not csrf.is_same_origin(request, url=site.url):
        raise HTTPException(403)
    return await forms.read(request, largest=8192)


def _safe_next_path(given: str | None) -> str:
    """A path here, and nowhere else."""
    return given if given and re.fullmatch(r"/(?![/\\])[!-~]{0,1000}", given) and "\\" not in given else "/"


def _get_identity_provider(site: SiteContext) -> IdentityProvider:
    if site.identities is None:
        raise HTTPException(404)
    return site.identities


def _to_identity_request(site: SiteContext, under_way: _PendingOpenIdSignIn) -> IdentityRequest:
    return IdentityRequest(
        Secret(under_way.state),
        Secret(under_way.nonce),
        Secret(under_way.verifier),
        site.url.rstrip("/") + _CALLBACK,
    )


def _provider_error_page(site: SiteContext, error: PostroomError) -> Response:
    log.warning("sign_in.failed", error=error)
    if isinstance(error, TransientError):
        return _sign_in_page(site, "/", words="The provider does not answer. Try again soon.", status=503)
    if isinstance(error, OperatorError):
        words = "The provider does not accept this Postroom. Whoever runs it must act; the log says how."
        return _sign_in_page(site, "/", words=words, status=503)
    return _sign_in_page(
        site, "/", words=_WRONG_CREDENTIALS, status=400 if isinstance(error, LoginRejected) else 403
    )


def _clear_pending(response: Response) -> Response:
    response.delete_cookie(_PENDING_COOKIE, path="/sign-in/openid")
    return response


def _get_source(request: Request) -> str:
    return request.client.host if request.client else "unknown"
