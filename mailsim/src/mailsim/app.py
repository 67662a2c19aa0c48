"""Puts the simulator's parts together: every provider's real paths, the control and the page on one port."""

import contextlib
from collections.abc import Callable, Sequence
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mailsim import control, page
from mailsim.control.endpoint import problem
from mailsim.gate import Gate
from mailsim.gmail.provider import routes as google_routes
from mailsim.microsoft import routes as microsoft_routes
from mailsim.simulator import Provider, Reply, Simulator
from mailsim.state import ProviderName

RouteMaker = Callable[[Simulator], list[Route]]

# A provider's parts. The first one of each provider registers the Provider in `sim.providers`.
GOOGLE: tuple[RouteMaker, ...] = (google_routes,)
MICROSOFT: tuple[RouteMaker, ...] = (microsoft_routes,)


def make_app(sim: Simulator) -> ASGIApp:
    routes: list[BaseRoute] = []
    parts: dict[ProviderName, tuple[RouteMaker, ...]] = {"gmail": GOOGLE, "outlook": MICROSOFT}
    for name, makers in parts.items():
        made = [route for maker in makers for route in maker(sim)]
        if made:
            routes += _behind_the_gate(sim, sim.providers[name], made)
    routes += [*control.routes(sim), *page.routes(sim)]
    app = Starlette(
        routes=routes, exception_handlers={HTTPException: _refuser(sim), Exception: _refuser(sim)}
    )
    app.router.redirect_slashes = False
    return _until_hung_up(app)


def _until_hung_up(app: ASGIApp) -> ASGIApp:
    """A client that goes away while its request is being read is nobody's mistake."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(ClientDisconnect):
            await app(scope, receive, send)

    return serve


def _behind_the_gate(sim: Simulator, provider: Provider, routes: Sequence[Route]) -> list[Route]:
    for route in routes:
        route.app = Gate(route.app, sim, provider, route.name)
    return list(routes)


def _refuser(sim: Simulator) -> Callable[[Request, Exception], Response]:
    """No such path, wrong method, our own mistake: in the words of the provider whose paths begin like it."""

    def refuse(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        for provider in sim.providers.values():
            if provider.prefixes and request.url.path.startswith(provider.prefixes):
                reply = provider.refusal(status, 0)
                _note(sim, provider, request, reply)
                return Response(reply.body, reply.status, dict(reply.headers))
        return problem(status, HTTPStatus(status).phrase.lower())

    return refuse


def _note(sim: Simulator, provider: Provider, request: Request, reply: Reply) -> None:
    """The gate stands before routes; what found no route is logged here."""
    if "mailsim.exchange" not in request.scope:
        url = request.url
        exchange = sim.log.open(sim.clock.milliseconds(), request.method, url.path, url.query)
        exchange.provider, exchange.status = provider.name, reply.status
        if sim.log.bodies:
            exchange.response_headers, exchange.response_body = reply.headers, reply.body
