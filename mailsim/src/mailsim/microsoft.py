"""Microsoft 365 put together: Entra and Graph at their real paths, and what the simulator asks of them."""

from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from mailsim import notify
from mailsim.entra import authorize, discovery, token
from mailsim.entra.aadsts import KINDS
from mailsim.entra.directory import Directory
from mailsim.entra.grants import Grants
from mailsim.entra.token import Entra
from mailsim.errors import Invalid
from mailsim.graph import api, throttle
from mailsim.graph.context import JSON, Graph, encode
from mailsim.graph.control import Control
from mailsim.graph.errors import GraphError, body
from mailsim.graph.ids import MalformedIdError
from mailsim.graph.options import MicrosoftOptions
from mailsim.graph.subscribed import Subscription, moment
from mailsim.mailbox import Mailbox
from mailsim.orders import Lifecycle, Revocation
from mailsim.simulator import Caller, Provider, Reply, Simulator

_REASONS = {"consent": 65001, "password": 50173, "session": 50173}
_CODES = {
    401: ("InvalidAuthenticationToken", "Access token validation failure."),
    403: ("ErrorAccessDenied", "Access is denied. Check credentials and try again."),
    404: ("BadRequest", "Resource not found."),
    500: ("ErrorInternalServerTransientError", "An internal server error occurred. Try again later."),
    503: ("serviceNotAvailable", "The service is temporarily unavailable."),
    509: ("activityLimitReached", "The app or user has been throttled."),
}


def routes(sim: Simulator) -> list[Route]:
    """Every path of Microsoft: sign-in, discovery, Graph. Registers the provider."""
    directory = Directory(sim.world)
    grants = Grants(directory, sim.clock, Random(sim.options.seed))
    entra = Entra(sim, directory, grants, MicrosoftOptions())
    graph = Graph(sim, entra, random=Random(sim.options.seed))
    sim.world.listeners.append(partial(notify.heard, graph))
    sim.world.arrivals.append(partial(_arrived, graph))
    sign_in = _sign_in(entra)
    names = {place.endpoint for place in api.MAP.places} | {route.name for route in sign_in}
    sim.providers["outlook"] = _provider(graph, names | {"push", "lifecycle", "unknown"})
    return [Route("/v1.0/{rest:path}", api.Endpoint(graph), name="graph"), *sign_in]


def _sign_in(entra: Entra) -> list[Route]:
    def at(
        path: str, work: Callable[[Entra, Request], Awaitable[Response]], name: str, *methods: str
    ) -> Route:
        return Route(path, partial(work, entra), methods=list(methods or ("GET",)), name=name)

    oauth = "/{tenant}/oauth2/v2.0"
    return [
        at(f"{oauth}/authorize", authorize.authorize, "authorize", "GET", "POST"),
        at(f"{oauth}/token", token.token, "token", "POST"),
        at("/{tenant}/adminconsent", authorize.admin_consent, "adminconsent", "GET", "POST"),
        at("/{tenant}/v2.0/adminconsent", authorize.admin_consent, "adminconsent", "GET", "POST"),
        at("/common/discovery/instance", discovery.instance, "instance"),
        at("/{tenant}/v2.0/.well-known/openid-configuration", discovery.configuration, "configuration"),
        at("/{tenant}/discovery/v2.0/keys", discovery.keys, "keys"),
        at("/oidc/userinfo", discovery.userinfo, "userinfo", "GET", "POST"),
    ]


def _arrived(graph: Graph, mailbox: Mailbox) -> None:
    """An address may be used again after its mailbox was closed: its ids are new then."""
    if mailbox.provider == "outlook":
        graph.forget(mailbox)
        graph.ids(mailbox)


def _provider(graph: Graph, names: set[str]) -> Provider:
    return Provider(
        name="outlook",
        message_id=lambda mailbox, number: graph.ids(mailbox).immutable(number),
        message_number=partial(_number, graph),
        thread_id=lambda mailbox, root: graph.ids(mailbox).conversation(root),
        folder_id=lambda mailbox, key: graph.ids(mailbox).folder(key),
        refusal=partial(_refusal, graph),
        caller=partial(_caller, graph),
        subscriptions=partial(_subscriptions, graph),
        endpoints=frozenset(names),
        fault_codes={
            "token_error": frozenset({"", *map(str, KINDS), *(f"AADSTS{code}" for code in KINDS)}),
        },
        prefixes=("/v1.0/", "/beta/"),
        revoke=partial(_revoke, graph),
        expire_tokens=partial(_expire_tokens, graph),
        expire_cursors=partial(_expire_cursors, graph),
        lifecycle=partial(_lifecycle, graph),
        controls=Control(graph).endpoints(),
    )


def _number(graph: Graph, mailbox: Mailbox, text: str) -> int | None:
    try:
        return graph.ids(mailbox).read_message(text)
    except MalformedIdError:
        return None


def _refusal(graph: Graph, status: int, seconds: int) -> Reply:
    """A fault in Graph's words."""
    headers = {"retry-after": str(seconds)} if seconds else {}
    if status == 429:
        error = throttle.too_many(headers)
    else:
        code, message = _CODES.get(status, ("UnknownError", "An unknown error occurred."))
        error = GraphError(status, code, message, headers=headers)
    named = graph.guid()
    answer = body(error, now=graph.sim.clock.time(), request_id=named, client_request_id=named)
    headers |= {"content-type": JSON, "odata-version": "4.0", "request-id": named, "client-request-id": named}
    return Reply(status, encode(answer), tuple(headers.items()))


def _caller(graph: Graph, scope: Scope, endpoint: str) -> Caller:
    """Who asks for what, before anything is checked."""
    if endpoint != "graph":
        return Caller("", endpoint)
    authorization = next((v.decode("latin-1") for n, v in scope["headers"] if n == b"authorization"), "")
    access = graph.entra.grants.find_access(authorization.partition(" ")[2].strip())
    try:
        place, names = api.MAP.find(scope["method"], api.path_of(scope))
    except GraphError:
        return Caller("", "unknown")
    own = access.user if access is not None else None
    named = place.pattern[0] == "users" and names[0] != "me"
    user = graph.entra.directory.find(names[0]) if named else own
    if user is None or access is None:
        return Caller("", place.endpoint)
    shared = api.budget(access.application.client_id, user.upn) if place.pattern[0] == "users" else ""
    scope["mailsim.width"] = graph.sim.meters.flying[shared] + 1 if shared else 1
    return Caller(user.upn, place.endpoint, shared)


def _subscriptions(graph: Graph, mailbox: Mailbox) -> list[dict[str, Any]]:
    return [
        {
            "kind": "subscription",
            "id": one.id,
            "application": one.application_id,
            "resource": one.resource,
            "changes": one.change_type,
            "url": one.url,
            "lifecycle": one.lifecycle_url,
            "expires": moment(one.expires),
            "token_expires": moment(one.token_expires),
            "paused": len(one.paused),
        }
        for one in _active(graph, mailbox)
    ]


def _active(graph: Graph, mailbox: Mailbox) -> list[Subscription]:
    now = graph.sim.clock.time()
    oid = graph.entra.directory.user(mailbox).oid
    return [one for one in graph.subscriptions.of(oid) if one.active(now)]


async def _revoke(graph: Graph, mailbox: Mailbox, order: Revocation) -> int:
    """`reason`: consent (65001), password or session (50173), or an AADSTS code. Its subscriptions go too."""
    user = graph.entra.directory.user(mailbox)
    reason, client = order.reason, order.client_id
    if reason not in {*_REASONS, *map(str, KINDS)}:
        raise Invalid(f"no reason {reason!r}; there are {', '.join(_REASONS)} and the AADSTS codes")
    if reason == "consent":
        graph.entra.directory.revoke_consent(user, client)
    code = _REASONS[reason] if reason in _REASONS else int(reason)
    count = graph.entra.grants.revoke(user, code, client)
    for one in _active(graph, mailbox):
        if one.access.user is not None and client in {"", one.application_id}:
            notify.lifecycle(graph, one, "subscriptionRemoved")
    return count


async def _expire_tokens(graph: Graph, mailbox: Mailbox) -> int:
    return graph.entra.grants.expire_accesses(graph.entra.directory.user(mailbox))


async def _expire_cursors(graph: Graph, mailbox: Mailbox) -> int:
    """So many rounds went by that no link of any folder lives."""
    feeds = [key for key in graph.generations if key[0] == mailbox.address]
    for key in feeds:
        graph.generations[key] += max(graph.options.generations, 1)
    if graph.options.generations == 0:
        mailbox.forget_changes()
    return len(feeds)


async def _lifecycle(graph: Graph, mailbox: Mailbox, order: Lifecycle) -> int:
    chosen = [one for one in _active(graph, mailbox) if order.subscription in {"", one.id}]
    return sum(notify.lifecycle(graph, one, order.event, order.shape) for one in chosen)
