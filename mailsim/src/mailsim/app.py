"""The ASGI application: combines the routes of both providers, the control API and the web page.

It wraps provider routes in the middleware, and answers unknown paths and bugs. It defines no endpoint itself.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mailsim import control, page
from mailsim.control.endpoint import problem_response
from mailsim.errors import SimulatorError, explain_unsimulated
from mailsim.gmail.provider import routes as google_routes
from mailsim.graph.provider import routes as microsoft_routes
from mailsim.message_state import ProviderName
from mailsim.middleware import ProviderMiddleware
from mailsim.request_origin import refuse_foreign_requests
from mailsim.simulator import LoadState, Provider, RawResponse, Reset, Simulator, close_simulator
from mailsim.state.simulation_state import SavedSimulation

MakeSimulator = Callable[[Reset, LoadState, SavedSimulation | None], Simulator]
# Each also registers its Provider in `sim.providers`.
ROUTES: Mapping[ProviderName, Callable[[Simulator], list[Route]]] = {
    "gmail": google_routes,
    "outlook": microsoft_routes,
}


class ResettableApp:
    """The application of the current simulator, which a reset or a saved state replaces.

    The sockets stay open.
    """

    def __init__(self, make: MakeSimulator, hosts: Collection[str], saved: bytes | None = None) -> None:
        self._make = make
        self._hosts = hosts
        self._start(None if saved is None else SavedSimulation(saved))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def reset(self) -> None:
        """Start a new simulator, then stop the pending work of the old one."""
        old = self.sim
        self._start(None)
        await close_simulator(old)

    async def load(self, data: bytes) -> None:
        """Replace the simulator by a saved one; if the file cannot be loaded, nothing changes."""
        old, saved = self.sim, SavedSimulation(data)
        sim = self._make(self.reset, self.load, saved)
        app = _make_app(sim, self._hosts)
        try:
            saved.restore(sim)
        except SimulatorError:
            await close_simulator(sim)
            raise
        self.sim, self._app = sim, app
        await close_simulator(old)

    def _start(self, saved: SavedSimulation | None) -> None:
        self.sim = self._make(self.reset, self.load, saved)
        self._app = _make_app(self.sim, self._hosts)
        if saved is not None:
            saved.restore(self.sim)


def _make_app(sim: Simulator, hosts: Collection[str]) -> ASGIApp:
    """Build the application. It answers under the names in `hosts` too."""
    routes: list[BaseRoute] = []
    for name, build_routes in ROUTES.items():
        provider_routes = build_routes(sim)
        routes += _wrap_in_middleware(sim, sim.providers[name], provider_routes)
    routes += [*control.routes(sim), *page.routes(sim)]
    handler = _make_error_handler(sim)
    app = Starlette(routes=routes, exception_handlers={HTTPException: handler, Exception: handler})
    app.router.redirect_slashes = False
    return refuse_foreign_requests(_ignore_disconnects(app), hosts)


def _ignore_disconnects(app: ASGIApp) -> ASGIApp:
    """Suppress the error of a client that disconnects while its request is being read."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            await app(scope, receive, send)

    return serve


def _wrap_in_middleware(sim: Simulator, provider: Provider, routes: Sequence[Route]) -> list[Route]:
    for route in routes:
        route.app = ProviderMiddleware(route.app, sim, provider, route.name)
    return list(routes)


def _make_error_handler(sim: Simulator) -> Callable[[Request, Exception], Response]:
    """Answer unknown paths, wrong methods and bugs in the error format of the provider that owns the path."""

    def handle_error(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        for provider in sim.providers.values():
            if provider.prefixes and request.url.path.startswith(provider.prefixes):
                response = provider.error_response(status, 0)
                _log_unrouted(sim, provider, request, response)
                return Response(response.body, response.status, dict(response.headers))
            if status == 404 and provider.unsimulated and provider.unsimulated.match(request.url.path):
                explanation = explain_unsimulated(f"{request.method} {request.url.path[:200]}")
                sim.log_unsimulated(explanation)
                return problem_response(501, explanation)
        return problem_response(status, HTTPStatus(status).phrase.lower())

    return handle_error


def _log_unrouted(sim: Simulator, provider: Provider, request: Request, response: RawResponse) -> None:
    """Log a request that matched no route: the middleware wraps routes only."""
    if "mailsim.exchange" not in request.scope:
        url = request.url
        exchange = sim.request_log.open(sim.clock.milliseconds(), request.method, url.path, url.query)
        exchange.provider, exchange.status = provider.name, response.status
        if sim.request_log.keep_bodies:
            exchange.response_headers, exchange.response_body = response.headers, response.body
