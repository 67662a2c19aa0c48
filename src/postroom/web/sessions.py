"""Sessions of members: the session cookie, routes that require a role, and the CSRF check on writes.

Also `SiteContext`, which every page gets. `member_route` builds a route for members only; inside it,
`get_visitor(request)` returns the member. Signing in and out is in `sign_in`.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
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
from postroom.store.sessions import LONGEST_DAYS, SessionMember
from postroom.vault import Sealer
from postroom.web import cookies, csrf, pages
from postroom.web.throttle import SignInQueue

Endpoint = Callable[[Request], Awaitable[Response]]

STALL_SECONDS: Final = 3
# While the database is unreachable, recent visitors stay signed in, so that they can see the health page.
REMEMBERED_SECONDS: Final = 300
MAX_REMEMBERED: Final = 10_000
_SAFE: Final = frozenset({"GET", "HEAD"})


@dataclass
class LookupProgress:
    """When the database last completed a session lookup of this process."""

    completed_at: float = float("-inf")

    @asynccontextmanager
    async def stall_timeout(self, seconds: float) -> AsyncGenerator[None]:
        """Raise TimeoutError when no lookup at all has completed for `seconds`.

        A fixed limit per request would mistake load for an outage: when hundreds of clients connect at once,
        their lookups queue for the connection pool while the database answers as fast as it can.
        """
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        timer: asyncio.TimerHandle | None = None
        async with asyncio.timeout(None) as timeout:

            def check() -> None:
                nonlocal timer
                idle_seconds = loop.time() - max(started_at, self.completed_at)
                if idle_seconds >= seconds:
                    timeout.reschedule(loop.time())
                else:
                    timer = loop.call_later(seconds - idle_seconds, check)

            check()
            try:
                yield
                self.completed_at = loop.time()
            finally:
                if timer is not None:
                    timer.cancel()


@dataclass(frozen=True)
class SiteContext:
    """Collaborators of every page.

    `url` is the public URL. `organization` is the operator's; sign-in looks there first. `has_demo` adds the
    demo page to the navigation.
    """

    database: Database
    organization: OrganizationId
    url: str
    sealer: Sealer
    identities: IdentityProvider | None = None
    session_seconds: float = 12 * 3600
    has_demo: bool = False
    remembered: OrderedDict[bytes, tuple[SessionMember, float]] = field(
        default_factory=OrderedDict[bytes, tuple[SessionMember, float]]
    )

    lookups: LookupProgress = field(default_factory=LookupProgress)
    sign_ins: SignInQueue = field(default_factory=SignInQueue)

    @property
    def cookie(self) -> str:
        """The name of the session cookie."""
        return "__Host-postroom" if self.url.startswith("https:") else "postroom_session"


def member_route(
    site: SiteContext,
    path: str,
    endpoint: Endpoint,
    needed: Role = Role.READER,
    *,
    methods: Sequence[str] = ("GET",),
) -> Route:
    """Build a route for members with the role or a higher one."""
    return Route(path, require_role(site, endpoint, needed), methods=list(methods))


def require_role(site: SiteContext, endpoint: Endpoint, needed: Role) -> Endpoint:
    """Wrap an endpoint: it needs a session with the role, and a write must come from our own origin."""

    async def guarded(request: Request) -> Response:
        visitor = await _find_visitor(site, request)
        if visitor is None:
            return _ask_to_sign_in(request)
        if request.method not in _SAFE and not csrf.is_same_origin(request, url=site.url):
            raise HTTPException(403)
        if not visitor.role.allows(needed):
            return pages.role_missing_page(needed)
        request.state.visitor = visitor
        request.state.has_demo = site.has_demo
        request.state.is_operator = visitor.organization == site.organization
        response = await endpoint(request)
        response.headers.setdefault("cache-control", "no-store")
        return response

    guarded.needed = needed  # pyright: ignore[reportFunctionMemberAccess]  # a test reads it from every route
    return guarded


def require_operator(endpoint: Endpoint) -> Endpoint:
    """Wrap an endpoint of a member route that shows the whole server: for the operator's organization."""

    async def guarded(request: Request) -> Response:
        return await endpoint(request) if request.state.is_operator else pages.operator_only_page()

    return guarded


def get_visitor(request: Request) -> SessionMember:
    """The signed-in member, inside a member route."""
    return request.state.visitor


def get_session_token(site: SiteContext, request: Request) -> Secret | None:
    value = request.cookies.get(site.cookie, "")
    return Secret(value) if 20 <= len(value) <= 100 else None


def set_session_cookie(site: SiteContext, response: Response, session: Secret) -> None:
    cookies.set_cookie(response, site.cookie, session, url=site.url, max_age=LONGEST_DAYS * 86400)


def clear_session_cookie(site: SiteContext, response: Response, session: Secret | None) -> None:
    if session is not None:
        forget_session(site, session)
    cookies.clear_cookie(response, site.cookie, url=site.url)


def forget_session(site: SiteContext, session: Secret) -> None:
    """Do not let an ended session in while the database is unreachable."""
    site.remembered.pop(sessions.digest(session), None)


async def _find_visitor(site: SiteContext, request: Request) -> SessionMember | None:
    token = get_session_token(site, request)
    if token is None:
        return None
    digest = sessions.digest(token)
    try:
        async with site.lookups.stall_timeout(STALL_SECONDS):
            visitor = await find_visitor_by_token(site, token)
    except (DatabaseUnavailable, TransientError, TimeoutError):
        remembered, seen_at = site.remembered.get(digest, (None, 0.0))
        if remembered is None or time.monotonic() - seen_at > REMEMBERED_SECONDS:
            raise DatabaseUnavailable("Cannot check the session: the database is unreachable.") from None
        return remembered
    if visitor is None:
        site.remembered.pop(digest, None)
    else:
        site.remembered[digest] = (visitor, time.monotonic())
        site.remembered.move_to_end(digest)
        if len(site.remembered) > MAX_REMEMBERED:
            site.remembered.popitem(last=False)
    return visitor


async def find_visitor_by_token(site: SiteContext, token: Secret) -> SessionMember | None:
    """The member of a valid session. A session stays in its organization, so that is looked up only once."""
    remembered, _ = site.remembered.get(sessions.digest(token), (None, 0.0))
    if remembered is not None:
        organization = remembered.organization
    else:
        async with site.database.engine() as engine:
            organization = await sessions.find_organization(engine, token)
    if organization is None:
        return None
    return await sessions.find_member(site.database, organization, token, seconds=site.session_seconds)


def _ask_to_sign_in(request: Request) -> Response:
    """Redirect a browser to the sign-in page and back; answer a script with 401."""
    if request.method in _SAFE and "text/html" in request.headers.get("accept", ""):
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        target = "/sign-in" if here == "/" else f"/sign-in?{urlencode({'next': here})}"
        return RedirectResponse(target, 303, {"cache-control": "no-store"})
    return PlainTextResponse("Sign in first.\n", 401, {"cache-control": "no-store"})
