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
from postroom.web import csrf, pages

Endpoint = Callable[[Request], Awaitable[Response]]

ANSWER_SECONDS: Final = 3
# While the database is away, those who were in a moment ago may see that it is.
REMEMBERED_SECONDS: Final = 300
MAX_REMEMBERED: Final = 10_000
_SAFE: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class SiteContext:
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


def member_route(
    site: SiteContext,
    path: str,
    endpoint: Endpoint,
    needed: Role = Role.READER,
    *,
    methods: Sequence[str] = ("GET",),
) -> Route:
    """A route for members of that role or a higher one."""
    return Route(path, require_role(site, endpoint, needed), methods=list(methods))


def require_role(site: SiteContext, endpoint: Endpoint, needed: Role) -> Endpoint:
    """Let in who has a session with the role. What changes anything must come from a page of ours."""

    async def admitted(request: Request) -> Response:
        visitor = await _find_visitor(site, request)
        if visitor is None:
            return _ask_to_sign_in(request)
        if request.method not in _SAFE and not csrf.is_same_origin(request, url=site.url):
            raise HTTPException(403)
        if not visitor.role.allows(needed):
            return pages.role_missing_page(needed)
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


def get_visitor(request: Request) -> Visitor:
    """Who asks, inside a guarded route."""
    return request.state.visitor


def get_session_token(site: SiteContext, request: Request) -> Secret | None:
    value = request.cookies.get(site.cookie, "")
    return Secret(value) if 20 <= len(value) <= 100 else None


def set_session_cookie(site: SiteContext, response: Response, session: Secret) -> None:
    """Lax: it comes along when a provider's page leads back here, and with no other site's form."""
    response.set_cookie(
        site.cookie,
        session.reveal(),
        max_age=LONGEST_DAYS * 86400,
        path="/",
        secure=site.url.startswith("https:"),
        httponly=True,
        samesite="lax",
    )


def clear_session_cookie(site: SiteContext, response: Response, session: Secret | None) -> None:
    if session is not None:
        site.remembered.pop(sessions.digest(session), None)
    response.delete_cookie(
        site.cookie, path="/", secure=site.url.startswith("https:"), httponly=True, samesite="lax"
    )


async def _find_visitor(site: SiteContext, request: Request) -> Visitor | None:
    token = get_session_token(site, request)
    if token is None:
        return None
    digest = sessions.digest(token)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            found = await find_visitor_by_token(site, token)
    except (DatabaseUnavailable, TransientError, TimeoutError):
        visitor, seen_at = site.remembered.get(digest, (None, 0.0))
        if visitor is None or time.monotonic() - seen_at > REMEMBERED_SECONDS:
            raise DatabaseUnavailable("The database cannot be reached to see who asks.") from None
        return visitor
    if found is None:
        site.remembered.pop(digest, None)
    else:
        site.remembered[digest] = (found, time.monotonic())
        site.remembered.move_to_end(digest)
        if len(site.remembered) > MAX_REMEMBERED:
            site.remembered.popitem(last=False)
    return found


async def find_visitor_by_token(site: SiteContext, token: Secret) -> Visitor | None:
    async with site.database.engine() as engine:
        organization = await sessions.organization_of(engine, token)
    if organization is None:
        return None
    async with site.database.transaction(organization) as connection:
        return await sessions.visitor(connection, token, seconds=site.session_seconds)


def _ask_to_sign_in(request: Request) -> Response:
    """A person is led to the sign-in and back; a script is told."""
    if request.method in _SAFE and "text/html" in request.headers.get("accept", ""):
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        way = "/sign-in" if here == "/" else f"/sign-in?{urlencode({'next': here})}"
        return RedirectResponse(way, 303, {"cache-control": "no-store"})
    return PlainTextResponse("Sign in first.\n", 401, {"cache-control": "no-store"})
