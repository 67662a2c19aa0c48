"""The Microsoft 365 provider: the routes of Entra and Graph, and the simulator's Provider interface.

It connects the modules; the endpoints are elsewhere.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from mailsim.entra import authorize, device_flow, discovery, sign_out, token
from mailsim.entra.aadsts import ERRORS
from mailsim.entra.context import EntraContext
from mailsim.entra.directory import EntraDirectory
from mailsim.entra.grants import EntraGrants
from mailsim.graph import api, attachment_writes, fault_errors, notifications
from mailsim.graph.context import GraphContext
from mailsim.graph.control import MicrosoftControl
from mailsim.graph.errors import GraphError, error_body
from mailsim.graph.ids import MalformedIdError
from mailsim.graph.options import MicrosoftOptions
from mailsim.graph.request import GraphResponse, encode_json
from mailsim.graph.saved_state import make_state
from mailsim.graph.subscription_model import GraphSubscription, format_timestamp
from mailsim.mailbox import Mailbox
from mailsim.provider_actions import LifecycleRequest, ProviderNames, RevocationRequest
from mailsim.simulator import Provider, RawResponse, RequestTarget, Simulator

# Version 1 of Entra's endpoints, and what Microsoft's pages and MSAL ask before a password.
_OTHER_SIGN_IN = re.compile(
    r"/[^/]+/(?:oauth2/(?:authorize|devicecode|token)|openid/userinfo"
    r"|userrealm/[^/]+|GetCredentialType)$",
    re.IGNORECASE,
)
_REVOCATION_CODES = {"consent": 65001, "password": 50173, "session": 50173}


def routes(sim: Simulator) -> list[Route]:
    """Return the routes for sign-in, discovery and Graph, and register the provider."""
    directory = EntraDirectory(sim.registry)
    grants = EntraGrants(directory, sim.clock, Random(sim.options.seed))
    entra = EntraContext(sim, directory, grants, MicrosoftOptions())
    graph = GraphContext(sim, entra, random=Random(sim.options.seed))
    sim.registry.change_listeners.append(partial(notifications.handle_change, graph))
    sim.registry.mailbox_listeners.append(partial(_add_mailbox, graph))
    other = [
        *_sign_in_routes(entra),
        Route(
            "/api/v2.0/{rest:path}",
            partial(attachment_writes.upload, graph),
            methods=["PUT", "DELETE"],
            name="attachments.upload",
        ),
    ]
    names = {route.endpoint for route in api.ROUTES.routes} | {route.name for route in other}
    sim.providers["outlook"] = _provider(graph, names | {"push", "lifecycle", "unknown"})
    app = api.GraphApp(graph)
    versions = ("/v1.0/{rest:path}", f"{api.BETA}{{rest:path}}")
    return [*(Route(path, app, name="graph") for path in versions), *other]


def _sign_in_routes(entra: EntraContext) -> list[Route]:
    def at(
        path: str, work: Callable[[EntraContext, Request], Awaitable[Response]], name: str, *methods: str
    ) -> Route:
        return Route(path, partial(work, entra), methods=list(methods or ("GET",)), name=name)

    oauth = "/{tenant}/oauth2/v2.0"
    return [
        at(f"{oauth}/authorize", authorize.authorize, "authorize", "GET", "POST"),
        at(f"{oauth}/token", token.token, "token", "POST"),
        at(f"{oauth}/devicecode", token.device_code, "devicecode", "POST"),
        at(f"{oauth}/logout", sign_out.sign_out, "logout", "GET", "POST"),
        at("/{tenant}/oauth2/logout", sign_out.sign_out, "logout", "GET", "POST"),
        at("/devicelogin", device_flow.show_device_page, "devicelogin", "GET", "POST"),
        at("/{tenant}/adminconsent", authorize.admin_consent, "adminconsent", "GET", "POST"),
        at("/{tenant}/v2.0/adminconsent", authorize.admin_consent, "adminconsent", "GET", "POST"),
        at("/common/discovery/instance", discovery.instance, "instance"),
        at("/{tenant}/v2.0/.well-known/openid-configuration", discovery.configuration, "configuration"),
        at("/{tenant}/.well-known/openid-configuration", discovery.configuration_v1, "configuration"),
        at("/{tenant}/discovery/v2.0/keys", discovery.keys, "keys"),
        at("/{tenant}/discovery/keys", discovery.keys, "keys"),
        at("/oidc/userinfo", discovery.userinfo, "userinfo", "GET", "POST"),
    ]


def _add_mailbox(graph: GraphContext, mailbox: Mailbox) -> None:
    """Create the IDs of a new mailbox; a closed mailbox with the same address had other IDs."""
    if mailbox.provider == "outlook":
        graph.forget_mailbox(mailbox)
        graph.ids(mailbox)


def _provider(graph: GraphContext, names: set[str]) -> Provider:
    return Provider(
        name="outlook",
        message_id=lambda mailbox, number: graph.ids(mailbox).immutable_message_id(number),
        message_number=partial(_message_number, graph),
        thread_id=lambda mailbox, root: graph.ids(mailbox).conversation_id(root),
        folder_id=lambda mailbox, key: graph.ids(mailbox).folder_id(key),
        error_response=partial(_error_response, graph),
        identify_request=partial(_identify_request, graph),
        subscriptions=partial(_list_subscriptions, graph),
        names=ProviderNames(
            sorted(names),
            {"token_error": ["", *map(str, ERRORS), *(f"AADSTS{code}" for code in ERRORS)]},
            [*_REVOCATION_CODES, *map(str, ERRORS)],
        ),
        prefixes=("/v1.0/", "/beta/", "/api/v2.0/"),
        unsimulated=_OTHER_SIGN_IN,
        revoke=partial(_revoke, graph),
        expire_tokens=partial(_expire_tokens, graph),
        expire_cursors=partial(_expire_cursors, graph),
        lifecycle=partial(_lifecycle, graph),
        controls=MicrosoftControl(graph).endpoints(),
        state=make_state(graph),
    )


def _message_number(graph: GraphContext, mailbox: Mailbox, text: str) -> int | None:
    try:
        return graph.ids(mailbox).parse_message_id(text)
    except MalformedIdError:
        return None


def _error_response(graph: GraphContext, status: int, seconds: int) -> RawResponse:
    """Return the response of a fault in Graph's error format."""
    error = fault_errors.make_fault_error(status, seconds)
    request_id = graph.new_guid()
    body = error_body(error, now=graph.sim.clock.time(), request_id=request_id, client_request_id=request_id)
    headers = {**error.headers, "request-id": request_id, "client-request-id": request_id}
    response = GraphResponse(status, body, headers=headers)
    return RawResponse(status, encode_json(body), tuple(response.list_headers().items()))


def _identify_request(graph: GraphContext, scope: Scope, endpoint: str) -> RequestTarget:
    """Return mailbox and endpoint of a request before anything is validated."""
    if endpoint != "graph":
        return RequestTarget("", endpoint)
    authorization = next((v.decode("latin-1") for n, v in scope["headers"] if n == b"authorization"), "")
    access = graph.entra.grants.find_access_token(authorization.partition(" ")[2].strip())
    try:
        route, names = api.ROUTES.find(scope["method"], api.get_path(scope), api.get_version(scope))
    except GraphError:
        return RequestTarget("", "unknown")
    caller = access.user if access is not None else None
    is_other = route.addresses_user and names[0] != "me"
    user = graph.entra.directory.find_user(names[0]) if is_other else caller
    if user is None or access is None:
        return RequestTarget("", route.endpoint)
    limit_key = api.limit_key(access.application.client_id, user.upn) if route.addresses_user else ""
    scope["mailsim.concurrent"] = graph.sim.meters.concurrent[limit_key] + 1 if limit_key else 1
    return RequestTarget(user.upn, route.endpoint, limit_key)


def _list_subscriptions(graph: GraphContext, mailbox: Mailbox) -> list[dict[str, Any]]:
    return [
        {
            "kind": "subscription",
            "id": subscription.id,
            "application": subscription.application_id,
            "resource": subscription.resource,
            "changes": subscription.change_type,
            "url": subscription.url,
            "lifecycle": subscription.lifecycle_url,
            "expires": format_timestamp(subscription.expires),
            "token_expires": format_timestamp(subscription.token_expires),
            "paused": len(subscription.paused),
        }
        for subscription in _list_active(graph, mailbox)
    ]


def _list_active(graph: GraphContext, mailbox: Mailbox) -> list[GraphSubscription]:
    now = graph.sim.clock.time()
    oid = graph.entra.directory.get_user(mailbox).oid
    return [
        subscription for subscription in graph.subscriptions.list_for_user(oid) if subscription.is_active(now)
    ]


async def _revoke(graph: GraphContext, mailbox: Mailbox, request: RevocationRequest) -> int:
    """Revoke grants and remove subscriptions.

    `reason` is consent (65001), password or session (50173), or an AADSTS code.
    """
    user = graph.entra.directory.get_user(mailbox)
    reason, client = request.reason, request.client_id
    if reason == "consent":
        graph.entra.directory.revoke_consent(user, client)
    code = _REVOCATION_CODES[reason] if reason in _REVOCATION_CODES else int(reason)
    count = graph.entra.grants.revoke(user, code, client)
    for subscription in _list_active(graph, mailbox):
        if subscription.access.user is not None and client in {"", subscription.application_id}:
            notifications.send_lifecycle_event(graph, subscription, "subscriptionRemoved")
    return count


async def _expire_tokens(graph: GraphContext, mailbox: Mailbox) -> int:
    return graph.entra.grants.expire_access_tokens(graph.entra.directory.get_user(mailbox))


async def _expire_cursors(graph: GraphContext, mailbox: Mailbox) -> int:
    """Advance every delta feed so far that no link of any folder is valid."""
    feeds = [key for key in graph.delta_generations if key[0] == mailbox.address]
    for key in feeds:
        graph.delta_generations[key] += max(graph.options.generations, 1)
    if graph.options.generations == 0:
        mailbox.forget_changes()
    return len(feeds)


async def _lifecycle(graph: GraphContext, mailbox: Mailbox, request: LifecycleRequest) -> int:
    chosen = [
        subscription
        for subscription in _list_active(graph, mailbox)
        if request.subscription in {"", subscription.id}
    ]
    return sum(
        notifications.send_lifecycle_event(graph, subscription, request.event, request.shape)
        for subscription in chosen
    )
