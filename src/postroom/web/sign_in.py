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

from postroom.errors import LoginRefused, OperatorError, PostroomError, TransientError
from postroom.flow.access import sign_in
from postroom.flow.access.sign_in import SignedIn
from postroom.logs import Log
from postroom.model import Role, Secret
from postroom.ports import IdentityAsked, IdentityProvider
from postroom.vault import sealed_tokens
from postroom.web import forms, origin, pages, sessions
from postroom.web.sessions import Gate, guarded
from postroom.web.throttle import Throttle

log = Log()

_UNDER_WAY: Final = "postroom_openid"
_UNDER_WAY_SECONDS: Final = 600
_CALLBACK: Final = "/sign-in/openid/callback"
_NOT_RIGHT: Final = (
    "That is not right, or it was wrong too often in a row. Try again in a while, or ask an admin for a link."
)
_LINK_USED: Final = "This link was used already, or is too old. Ask for another one."
_UNKNOWN: Final = "Nobody here is known by that account. Ask an admin of your organization to add you."


class _UnderWay(msgspec.Struct):
    state: str
    nonce: str
    verifier: str
    next: str


def routes(gate: Gate) -> list[Route]:
    throttle = Throttle(credit=30)
    return [
        Route("/sign-in", partial(page, gate)),
        Route("/sign-in", partial(by_password, gate, throttle), methods=["POST"]),
        Route("/sign-in/link", link_page),
        Route("/sign-in/link", partial(by_link, gate, throttle), methods=["POST"]),
        Route("/sign-in/openid", partial(to_provider, gate)),
        Route(_CALLBACK, partial(by_openid, gate)),
        guarded(gate, "/sign-out", partial(leave, gate), Role.READER, methods=["POST"]),
    ]


async def page(gate: Gate, request: Request) -> Response:
    return _page(gate, _next(request.query_params.get("next")))


async def by_password(gate: Gate, throttle: Throttle, request: Request) -> Response:
    source = _source(request)
    given = await _own_form(gate, request)
    following = _next(given.get("next"))
    if throttle.shuts_out(source):
        return _page(gate, following, words=_NOT_RIGHT, status=429)
    throttle.refused(source)  # until it is right: many at once shall cost as much as many in a row
    done = await sign_in.by_password(
        gate.database,
        given.get("address", "").strip()[:320],
        Secret(given.get("password", "")),
        first=gate.organization,
        seconds=gate.session_seconds,
    )
    if done is None:
        return _page(gate, following, words=_NOT_RIGHT, status=403)
    throttle.right(source)
    return _let_in(gate, done, following)


async def link_page(request: Request) -> Response:
    """Opening the link uses nothing up: whoever previews links in messages would. The page's button does."""
    asked = request.query_params
    return pages.page(
        "sign_in_link.html", token=asked.get("token", "")[:100], following=_next(asked.get("next"))
    )


async def by_link(gate: Gate, throttle: Throttle, request: Request) -> Response:
    source = _source(request)
    given = await _own_form(gate, request)
    if throttle.shuts_out(source):
        return _page(gate, "/", words=_LINK_USED, status=429)
    throttle.refused(source)
    done = await sign_in.by_link(gate.database, Secret(given.get("token", "")), seconds=gate.session_seconds)
    if done is None:
        return _page(gate, "/", words=_LINK_USED, status=403)
    throttle.right(source)
    return _let_in(gate, done, _next(given.get("next")))


async def to_provider(gate: Gate, request: Request) -> Response:
    identities = _identities(gate)
    under_way = _UnderWay(
        token_urlsafe(32), token_urlsafe(32), token_urlsafe(48), _next(request.query_params.get("next"))
    )
    try:
        url = await identities.authorization_url(_asked(gate, under_way))
    except PostroomError as error:
        return _trouble(gate, error)
    response = RedirectResponse(url, 303, {"cache-control": "no-store"})
    value = sealed_tokens.write(gate.sealer, _UNDER_WAY, msgspec.json.encode(under_way), _UNDER_WAY_SECONDS)
    response.set_cookie(
        _UNDER_WAY,
        value,
        max_age=_UNDER_WAY_SECONDS,
        path="/sign-in/openid",
        secure=gate.url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )
    return response


async def by_openid(gate: Gate, request: Request) -> Response:
    """Where the provider sends the browser back to. Only the browser that began may end it, once."""
    identities = _identities(gate)
    kept = sealed_tokens.read(gate.sealer, _UNDER_WAY, request.cookies.get(_UNDER_WAY, ""))
    code = request.query_params.get("code", "")
    if kept is None or not 0 < len(code) <= 4096:
        return _forgetting(_page(gate, "/", words=_NOT_RIGHT, status=400))
    under_way = msgspec.json.decode(kept, type=_UnderWay)
    if Secret(request.query_params.get("state", "")) != Secret(under_way.state):
        return _forgetting(_page(gate, "/", words=_NOT_RIGHT, status=400))
    try:
        identity = await identities.identity(_asked(gate, under_way), Secret(code))
    except PostroomError as error:
        return _forgetting(_trouble(gate, error))
    done = await sign_in.by_identity(gate.database, identity, seconds=gate.session_seconds)
    if done is None:
        return _forgetting(_page(gate, "/", words=_UNKNOWN, status=403))
    return _forgetting(_let_in(gate, done, under_way.next))


async def leave(gate: Gate, request: Request) -> Response:
    session = sessions.token_of(gate, request)
    if session is not None:
        await sign_in.leave(gate.database, session)
    response = RedirectResponse("/sign-in", 303)
    sessions.take_back(gate, response, session)
    return response


def _let_in(gate: Gate, done: SignedIn, following: str) -> Response:
    response = RedirectResponse(following, 303, {"cache-control": "no-store"})
    sessions.give(gate, response, done.session)
    return response


def _page(gate: Gate, following: str, *, words: str | None = None, status: int = 200) -> Response:
    asked = "" if following == "/" else f"?{urlencode({'next': following})}"
    return pages.page(
        "sign_in.html",
        status,
        words=words,
        following=following,
        provider=gate.identities.name if gate.identities else None,
        openid=f"/sign-in/openid{asked}",
    )


async def _own_form(gate: Gate, request: Request) -> dict[str, str]:
    """A form of another site could sign a visitor in as somebody else."""
    if not origin.is_same(request, url=gate.url):
        raise HTTPException(403)
    return await forms.read(request, largest=8192)


def _next(given: str | None) -> str:
    """A path here, and nowhere else."""
    return given if given and re.fullmatch(r"/(?![/\\])[!-~]{0,1000}", given) and "\\" not in given else "/"


def _identities(gate: Gate) -> IdentityProvider:
    if gate.identities is None:
        raise HTTPException(404)
    return gate.identities


def _asked(gate: Gate, under_way: _UnderWay) -> IdentityAsked:
    return IdentityAsked(
        Secret(under_way.state),
        Secret(under_way.nonce),
        Secret(under_way.verifier),
        gate.url.rstrip("/") + _CALLBACK,
    )


def _trouble(gate: Gate, error: PostroomError) -> Response:
    log.warning("sign_in.failed", error=error)
    if isinstance(error, TransientError):
        return _page(gate, "/", words="The provider does not answer. Try again soon.", status=503)
    if isinstance(error, OperatorError):
        words = "The provider does not accept this Postroom. Whoever runs it must act; the log says how."
        return _page(gate, "/", words=words, status=503)
    return _page(gate, "/", words=_NOT_RIGHT, status=400 if isinstance(error, LoginRefused) else 403)


def _forgetting(response: Response) -> Response:
    response.delete_cookie(_UNDER_WAY, path="/sign-in/openid")
    return response


def _source(request: Request) -> str:
    return request.client.host if request.client else "unknown"
