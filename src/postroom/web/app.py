"""The web application: its routes, the headers of every answer, and one table from error to HTTP status."""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
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
from postroom.web import metrics, overview, pages, sign_in
from postroom.web.allowed_hosts import AllowedHostsMiddleware
from postroom.web.event_stream import EventStreams
from postroom.web.health import HealthMonitor
from postroom.web.metrics import RequestMetrics
from postroom.web.sessions import SiteContext, member_route
from postroom.web.trusted_proxies import TrustedProxiesMiddleware

log = Log()

# The most specific class decides; one that is not named here is answered as its family is. What we said goes
# to the log; the visitor learns that, not what.
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
    # Nothing is told to others; our own forms keep their origin, by which we know them.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
# Who came once over TLS comes by nothing else. Of this name alone: others under it may be somebody else's.
_OVER_TLS: Final = [(b"strict-transport-security", b"max-age=31536000")]


# What is reached without a session. A test walks the routes: every other one is guarded.
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
        "/oauth/{provider}/authorize",  # by an invitation; else an admin's session is asked for
        "/oauth/{provider}/callback",
    }
)


def create(
    site: SiteContext,
    *,
    webhooks: Sequence[Route] = (),
    routes: Sequence[BaseRoute] = (),
    performed: Collection[str] | None = None,
    trusted_proxies: Sequence[Network] = (),
    streams: EventStreams | None = None,
    metrics_token: Secret | None = None,
) -> ASGIApp:
    """The whole application. `performed` are the kinds of work that have a step: others cannot be late."""
    monitor, requests = HealthMonitor(site.database, site.organization, performed=performed), RequestMetrics()
    app = Starlette(
        routes=[
            *webhooks,
            *routes,
            metrics.route(site.database, monitor, requests, streams, metrics_token),
            *sign_in.routes(site),
            *overview.routes(site),
            member_route(site, "/health", pages.health_page),
            member_route(site, "/health/parts", pages.health_fragments),
            Route("/healthz", _alive),
            Route("/readyz", _ready),
            Mount("/static", StaticFiles(directory=pages.HERE / "static")),
        ],
        middleware=[Middleware(_Fitting)],
        exception_handlers={
            PostroomError: _known_error,
            HTTPException: _http_error,
            Exception: _unknown_error,
        },
    )
    app.state.health_monitor = monitor
    headers = _HEADERS + (_OVER_TLS if site.url.startswith("https:") else [])
    safe = _Guarded(AllowedHostsMiddleware(app, site.url), requests, headers)
    return TrustedProxiesMiddleware(safe, trusted_proxies) if trusted_proxies else safe


async def _alive(_request: Request) -> Response:
    """The process runs; says nothing about the database, so that a probe does not restart it in vain."""
    return PlainTextResponse("alive\n")


async def _ready(request: Request) -> Response:
    monitor: HealthMonitor = request.app.state.health_monitor
    report = await monitor.report()
    if report.health is None:
        return PlainTextResponse("\n".join(report.problems) + "\n", 503)
    return PlainTextResponse("ready\n")


def status_of(error: PostroomError) -> int:
    return next(STATUSES[each] for each in type(error).__mro__ if each in STATUSES)


async def _known_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, PostroomError)
    log.warning("request.failed", error=error)
    return pages.problem_page(status_of(error))


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return pages.problem_page(error.status_code, error.headers)


async def _unknown_error(_request: Request, _error: Exception) -> Response:
    return pages.problem_page(500)


class _Fitting:
    """A value of a path, a query or a form that no column can hold is a mistake of who asks, not of ours."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if not is_out_of_range_value(error):
                raise
            await pages.problem_page(400)(scope, receive, send)


class _Guarded:
    """Around everything: safe headers on every answer, one log line by route and status, never by path."""

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
                ]  # a stricter one of its own stays
                message = {**message, "headers": [*message["headers"], *safe]}
            await send(message)

        try:
            await self._app(scope, receive, guarded)
        except Exception as error:  # noqa: BLE001  answered already; the log gets its class and place
            log.error("request.failed", error=error)  # noqa: TRY400  ours takes the error, and no words of it
        _note(scope, status, time.perf_counter() - started, self._requests)


def _note(scope: Scope, status: int, seconds: float, requests: RequestMetrics) -> None:
    route = scope.get("route")
    path = route.path if isinstance(route, Route | Mount) else "/"
    requests.record(scope["method"], path, status, seconds)
    write = log.debug if status < 400 or scope.get("counted") else log.info
    write("request.served", method=scope["method"], route=path, status=status, seconds=round(seconds, 4))
