"""Who may see a page (W6): the session in a cookie, the role a route needs, forms that come from us alone.

`guarded` makes a route that only members reach; inside it `visitor_of(request)` says who asks.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.model import OrganizationId, Role, Secret
from postroom.ports import IdentityProvider
from postroom.store import sessions
from postroom.store.database import Database
from postroom.store.sessions import LONGEST_DAYS, Visitor
from postroom.vault import Sealer
from postroom.web import origin, pages

Endpoint = Callable[[Request], Awaitable[Response]]

ANSWER_SECONDS: Final = 3
# While the database is away, those who were in a moment ago may see that it is.
REMEMBERED_SECONDS: Final = 300
MOST_REMEMBERED: Final = 10_000
_SAFE: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Gate:
    """What letting people in needs. `url` is where browsers reach us; `organization` is tried first."""

    database: Database
    organization: OrganizationId
    url: str
    sealer: Sealer
    identities: IdentityProvider | None = None
    session_seconds: float = 12 * 3600
    remembered: OrderedDict[bytes, tuple[Visitor, float]] = field(
        default_factory=OrderedDict[bytes, tuple[Visitor, float]]
    )

    @property
    def cookie(self) -> str:
        """Over https a name that browsers accept from this host alone."""
        return "__Host-postroom" if self.url.startswith("https:") else "postroom_session"


def guarded(
    gate: Gate,
    path: str,
    endpoint: Endpoint,
    needed: Role = Role.READER,
    *,
    methods: Sequence[str] = ("GET",),
) -> Route:
    """A route for members of that role or a higher one."""
    return Route(path, guard(gate, endpoint, needed), methods=list(methods))


def guard(gate: Gate, endpoint: Endpoint, needed: Role) -> Endpoint:
    """Let in who has a session with the role. What changes anything must come from a page of ours."""

    async def admitted(request: Request) -> Response:
        visitor = await _visitor(gate, request)
        if visitor is None:
            return _turned_away(request)
        if request.method not in _SAFE and not origin.is_same(request, url=gate.url):
            raise HTTPException(403)
        if not visitor.role.may(needed):
            return pages.not_allowed(needed)
        request.state.visitor = visitor
        shown = pages.visiting.set(visitor)
        try:
            response = await endpoint(request)
        finally:
            pages.visiting.reset(shown)
        response.headers.setdefault("cache-control", "no-store")
        return response

    admitted.needed = needed  # pyright: ignore[reportFunctionMemberAccess]  # a test walks the routes and asks
    return admitted


def visitor_of(request: Request) -> Visitor:
    """Who asks, inside a guarded route."""
    return request.state.visitor


def token_of(gate: Gate, request: Request) -> Secret | None:
    value = request.cookies.get(gate.cookie, "")
    return Secret(value) if 20 <= len(value) <= 100 else None


def give(gate: Gate, response: Response, session: Secret) -> None:
    """Lax: it comes along when a provider's page leads back here, and with no other site's form."""
    response.set_cookie(
        gate.cookie,
        session.reveal(),
        max_age=LONGEST_DAYS * 86400,
        path="/",
        secure=gate.url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )


def take_back(gate: Gate, response: Response, session: Secret | None) -> None:
    if session is not None:
        gate.remembered.pop(sessions.digest(session), None)
    response.delete_cookie(
        gate.cookie, path="/", secure=gate.url.startswith("https:"), httponly=True, samesite="lax"
    )


async def _visitor(gate: Gate, request: Request) -> Visitor | None:
    token = token_of(gate, request)
    if token is None:
        return None
    digest = sessions.digest(token)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            found = await look_up(gate, token)
    except (DatabaseUnavailable, TransientError, TimeoutError):
        visitor, seen_at = gate.remembered.get(digest, (None, 0.0))
        if visitor is None or time.monotonic() - seen_at > REMEMBERED_SECONDS:
            raise DatabaseUnavailable("The database cannot be reached to see who asks.") from None
        return visitor
    if found is None:
        gate.remembered.pop(digest, None)
    else:
        gate.remembered[digest] = (found, time.monotonic())
        gate.remembered.move_to_end(digest)
        if len(gate.remembered) > MOST_REMEMBERED:
            gate.remembered.popitem(last=False)
    return found


async def look_up(gate: Gate, token: Secret) -> Visitor | None:
    async with gate.database.engine() as engine:
        organization = await sessions.organization_of(engine, token)
    if organization is None:
        return None
    async with gate.database.transaction(organization) as connection:
        return await sessions.visitor(connection, token, seconds=gate.session_seconds)


def _turned_away(request: Request) -> Response:
    """A person is led to the sign-in and back; a script is told."""
    if request.method in _SAFE and "text/html" in request.headers.get("accept", ""):
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        way = "/sign-in" if here == "/" else f"/sign-in?{urlencode({'next': here})}"
        return RedirectResponse(way, 303, {"cache-control": "no-store"})
    return PlainTextResponse("Sign in first.\n", 401, {"cache-control": "no-store"})
