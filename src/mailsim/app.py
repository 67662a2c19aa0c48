"""Puts the simulator's parts together: every provider's real paths, the control and the page on one port."""

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mailsim.gate import Gate
from mailsim.simulator import Provider, Simulator
from mailsim.state import ProviderName

RouteMaker = Callable[[Simulator], list[Route]]

# A provider's parts. The first one of each provider registers the Provider in `sim.providers`.
GOOGLE: tuple[RouteMaker, ...] = ()
MICROSOFT: tuple[RouteMaker, ...] = ()


def make_app(sim: Simulator) -> Starlette:
    routes: list[BaseRoute] = []
    parts: dict[ProviderName, tuple[RouteMaker, ...]] = {"gmail": GOOGLE, "outlook": MICROSOFT}
    for name, makers in parts.items():
        made = [route for maker in makers for route in maker(sim)]
        if made:
            routes += _behind_the_gate(sim, sim.providers[name], made)
    app = Starlette(routes=routes)
    app.router.default = _unknown_path(sim)
    app.router.redirect_slashes = False
    return app


def _behind_the_gate(sim: Simulator, provider: Provider, routes: Sequence[Route]) -> list[Route]:
    for route in routes:
        route.app = Gate(route.app, sim, provider, route.name)
    return list(routes)


def _unknown_path(sim: Simulator) -> ASGIApp:
    """A path that nobody serves is answered in the words of the provider whose paths begin like it."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        for provider in sim.providers.values():
            if provider.prefixes and scope["path"].startswith(provider.prefixes):
                reply = provider.refusal(404, 0)
                response = Response(reply.body, reply.status, dict(reply.headers))
                break
        else:
            response = Response(b'{"error":"no such path"}', 404, media_type="application/json")
        await response(scope, receive, send)

    return answer
