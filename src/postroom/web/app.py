"""The web application: middleware, response headers and log lines, and the status of each error.

Also `/healthz` and `/readyz`. `server` passes in most routes, and serves the application.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.config import Network
from postroom.errors import (
    AlreadyExists,
    CursorExpired,
    DatabaseTooOld,
    DatabaseUnavailable,
    InvalidGrant,
    LeaseLost,
    LoginRejected,
    NotFound,
    PostroomError,
    PushRejected,
    ResponseTooLarge,
    SchemaError,
    TransientError,
    UnreadableFile,
    UnsupportedByProvider,
)
from postroom.logs import Log
from postroom.model import Secret
from postroom.store.database_errors import is_out_of_range_value
from postroom.web import health_page, help_page, metrics, overview, pages, sign_in
from postroom.web.allowed_hosts import AllowedHostsMiddleware
from postroom.web.event_stream import EventStreams
from postroom.web.health import HealthMonitor
from postroom.web.metrics import RequestMetrics
from postroom.web.sessions import SiteContext
from postroom.web.trusted_proxies import TrustedProxiesMiddleware

log = Log()

# The most specific class decides; a class that is not listed has the status of its base class. The message
# goes to the log only; the visitor gets a generic text.
STATUSES: Final[Mapping[type[PostroomError], int]] = {
    PostroomError: 500,
    DatabaseUnavailable: 503,
    DatabaseTooOld: 503,
    SchemaError: 503,
    TransientError: 503,
    LoginRejected: 400,
    PushRejected: 403,
    AlreadyExists: 409,
    InvalidGrant: 409,
    LeaseLost: 409,
    NotFound: 410,
    ResponseTooLarge: 502,
    CursorExpired: 502,
    UnsupportedByProvider: 502,
    UnreadableFile: 422,
}

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # Other sites get no referrer. Our own forms keep their origin, which the CSRF check needs.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
# Browsers that connected over TLS must always do so. Without subdomains, which may belong to others.
_OVER_TLS: Final = [(b"strict-transport-security", b"max-age=31536000")]


# Paths that need no session. A test walks all routes: every other one requires a session.
OPEN: Final = frozenset(
    {
        "/healthz",
        "/readyz",
        "/metrics",  # on this machine, or with a token
        "/static",
        "/sign-in",
        "/sign-in/link",
        "/sign-in/openid",
        "/sign-in/openid/callback",
        "/oauth/{provider}/authorize",  # with an invitation, or else with an admin's session
        "/oauth/{provider}/callback",
    }
)


def create(
    site: SiteContext,
    *,
    push_routes: Sequence[Route] = (),
    routes: Sequence[BaseRoute] = (),
    trusted_proxies: Sequence[Network] = (),
    streams: EventStreams | None = None,
    metrics_token: Secret | None = None,
) -> ASGIApp:
    """The whole application."""
    monitor, requests = HealthMonitor(site.database, site.organization), RequestMetrics()
    app = Starlette(
        routes=[
            *push_routes,
            *routes,
            metrics.route(site.database, monitor, requests, streams, metrics_token),
            *sign_in.routes(site),
            *overview.routes(site),
            *health_page.routes(site),
            *help_page.routes(site),
            Route("/healthz", _alive),
            Route("/readyz", _ready),
            Mount("/static", StaticFiles(directory=pages.HERE / "static")),
        ],
        middleware=[Middleware(_ValueRangeMiddleware)],
        exception_handlers={
            PostroomError: _known_error,
            HTTPException: _http_error,
            ClientDisconnect: _client_disconnected,
            Exception: _unknown_error,
        },
    )
    app.state.health_monitor = monitor
    headers = _HEADERS + (_OVER_TLS if site.url.startswith("https:") else [])
    safe = _ResponseMiddleware(AllowedHostsMiddleware(app, site.url), requests, headers)
    return TrustedProxiesMiddleware(safe, trusted_proxies) if trusted_proxies else safe


async def _alive(_request: Request) -> Response:
    """Whether the process runs. Ignores the database: restarting the process would not help it."""
    return PlainTextResponse("alive\n")


async def _ready(request: Request) -> Response:
    monitor: HealthMonitor = request.app.state.health_monitor
    report = await monitor.report()
    if report.health is None:
        return PlainTextResponse("\n".join(report.problems) + "\n", 503)
    return PlainTextResponse("ready\n")


def find_status(error: PostroomError) -> int:
    return next(STATUSES[ancestor] for ancestor in type(error).__mro__ if ancestor in STATUSES)


async def _known_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, PostroomError)
    log.warning("request.failed", error=error)
    status = find_status(error)
    retry_after = error.retry_after if isinstance(error, TransientError) else None
    headers = {"retry-after": str(max(1, round(retry_after or 1)))} if status == 503 else None
    return pages.problem_page(status, headers)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return pages.problem_page(error.status_code, error.headers)


async def _client_disconnected(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)  # for the log: the connection is gone


async def _unknown_error(_request: Request, _error: Exception) -> Response:
    return pages.problem_page(500)


class _ValueRangeMiddleware:
    """Answers 400 if a value of the request is out of range for its database column."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if not is_out_of_range_value(error):
                raise
            await pages.problem_page(400)(scope, receive, send)


class _ResponseMiddleware:
    """Adds security headers, and writes one log line per request: route and status, never the path."""

    def __init__(
        self, app: ASGIApp, requests: RequestMetrics, headers: Sequence[tuple[bytes, bytes]]
    ) -> None:
        self._app = app
        self._requests = requests
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message["headers"]}
                safe = [
                    each for each in self._headers if each[0] not in given
                ]  # a stricter one of the page stays
                message = {**message, "headers": [*message["headers"], *safe]}
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except Exception as error:  # noqa: BLE001  a response was sent already; the log gets its class and place
            log.error("request.failed", error=error)  # noqa: TRY400  our log takes the error without its message
        _record_request(scope, status, time.perf_counter() - started, self._requests)


def _record_request(scope: Scope, status: int, seconds: float, requests: RequestMetrics) -> None:
    route = scope.get("route")
    path = route.path if isinstance(route, Route | Mount) else "/"
    requests.record(scope["method"], path, status, seconds)
    write = log.debug if status < 400 or scope.get("log_as_debug") else log.info
    write("request.served", method=scope["method"], route=path, status=status, seconds=round(seconds, 4))
