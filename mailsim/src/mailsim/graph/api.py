"""The entry point of Graph: the route table, and the dispatch of requests and of the parts of a batch.

Dispatch checks token, permission and throttling, calls the route's handler and formats errors. The handlers
are in other modules.
"""

from dataclasses import replace

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from mailsim.graph import (
    attachment_writes,
    attachments,
    authorization,
    batch,
    delta,
    extensions,
    fault_errors,
    folders,
    groups,
    inference_overrides,
    mailbox_settings,
    master_categories,
    message_rules,
    message_writes,
    messages,
    odata,
    replies,
    subscriptions,
    users,
)
from mailsim.graph.context import GraphContext
from mailsim.graph.errors import GraphError, bad_request, error_body
from mailsim.graph.request import GraphCall, GraphRequest, GraphResponse, encode_json
from mailsim.graph.routing import GraphRoute, RouteTable, make_route
from mailsim.request_log import HttpExchange

MAX_BODY_SIZE = 4 * 1024 * 1024
BETA = "/beta/"

_MESSAGE_ROUTES = (
    make_route("GET", "M", "messages.list", "read", messages.list_page),
    make_route("POST", "M", "messages.create", "write", message_writes.create),
    make_route("GET", "M/$count", "messages.count", "read", messages.count),
    make_route("GET", "M/*", "messages.get", "read", messages.get),
    make_route("PATCH", "M/*", "messages.update", "write", message_writes.update),
    make_route("DELETE", "M/*", "messages.delete", "write", message_writes.delete),
    make_route("GET", "M/*/$value", "messages.value", "full", messages.get_mime),
    make_route("POST", "M/*/move", "messages.move", "write", message_writes.move),
    make_route("POST", "M/*/copy", "messages.copy", "write", message_writes.copy),
    make_route("POST", "M/*/send", "messages.send", "send", message_writes.send),
    make_route(
        "POST", "M/*/permanentdelete", "messages.permanentDelete", "write", message_writes.permanent_delete
    ),
    make_route("POST", "M/*/createreply", "messages.createReply", "write", replies.create_draft("reply")),
    make_route(
        "POST", "M/*/createreplyall", "messages.createReplyAll", "write", replies.create_draft("replyAll")
    ),
    make_route(
        "POST", "M/*/createforward", "messages.createForward", "write", replies.create_draft("forward")
    ),
    make_route("POST", "M/*/reply", "messages.reply", "send", replies.send("reply")),
    make_route("POST", "M/*/replyall", "messages.replyAll", "send", replies.send("replyAll")),
    make_route("POST", "M/*/forward", "messages.forward", "send", replies.send("forward")),
    make_route("GET", "M/*/attachments", "attachments.list", "full", attachments.list_page),
    make_route("POST", "M/*/attachments", "attachments.create", "write", attachment_writes.add),
    make_route(
        "POST",
        "M/*/attachments/createuploadsession",
        "attachments.createUploadSession",
        "write",
        attachment_writes.create_upload_session,
    ),
    make_route("DELETE", "M/*/attachments/*", "attachments.delete", "write", attachment_writes.delete),
    make_route("GET", "M/*/attachments/$count", "attachments.count", "full", attachments.count),
    make_route("GET", "M/*/attachments/*", "attachments.get", "full", attachments.get),
    make_route("GET", "M/*/attachments/*/$value", "attachments.value", "full", attachments.get_content),
    make_route("GET", "M/*/extensions", "extensions.list", "full", extensions.list_page),
    make_route("POST", "M/*/extensions", "extensions.create", "write", extensions.create),
    make_route("GET", "M/*/extensions/$count", "extensions.count", "full", extensions.count),
    make_route("GET", "M/*/extensions/*", "extensions.get", "full", extensions.get),
    make_route("PATCH", "M/*/extensions/*", "extensions.update", "write", extensions.update),
    make_route("DELETE", "M/*/extensions/*", "extensions.delete", "write", extensions.delete),
)
_OVERRIDE_ROUTES = (
    make_route("GET", "M", "overrides.container", "read", inference_overrides.get_container),
    make_route("PATCH", "M", "overrides.container", "write", inference_overrides.update_container),
    make_route("GET", "M/overrides", "overrides.list", "read", inference_overrides.list_page),
    make_route("POST", "M/overrides", "overrides.create", "write", inference_overrides.create),
    make_route("GET", "M/overrides/$count", "overrides.count", "read", inference_overrides.count),
    make_route("GET", "M/overrides/*", "overrides.get", "read", inference_overrides.get),
    make_route("PATCH", "M/overrides/*", "overrides.update", "write", inference_overrides.update),
    make_route("DELETE", "M/overrides/*", "overrides.delete", "write", inference_overrides.delete),
)
_SETTINGS_ROUTES = (
    make_route("GET", "M", "mailboxSettings.get", "settings", mailbox_settings.get),
    make_route("PATCH", "M", "mailboxSettings.update", "settings write", mailbox_settings.update),
    make_route("GET", "M/*", "mailboxSettings.get", "settings", mailbox_settings.get_one),
)
_CATEGORY_ROUTES = (
    make_route("GET", "M", "masterCategories.list", "settings", master_categories.list_page),
    make_route("POST", "M", "masterCategories.create", "settings write", master_categories.create),
    make_route("GET", "M/$count", "masterCategories.count", "settings", master_categories.count),
    make_route("GET", "M/*", "masterCategories.get", "settings", master_categories.get),
    make_route("PATCH", "M/*", "masterCategories.update", "settings write", master_categories.update),
    make_route("DELETE", "M/*", "masterCategories.delete", "settings write", master_categories.delete),
)
_RULE_ROUTES = (
    make_route("GET", "M", "messageRules.list", "settings", message_rules.list_page),
    make_route("POST", "M", "messageRules.create", "settings write", message_rules.create),
    make_route("GET", "M/$count", "messageRules.count", "settings", message_rules.count),
    make_route("GET", "M/*", "messageRules.get", "settings", message_rules.get),
    make_route("PATCH", "M/*", "messageRules.update", "settings write", message_rules.update),
    make_route("DELETE", "M/*", "messageRules.delete", "settings write", message_rules.delete),
)
_GROUP_ROUTES = (
    make_route("GET", "M", "groups.list", "nothing", groups.list_page),
    make_route("GET", "M/*", "groups.get", "nothing", groups.get),
    make_route("GET", "M/*/members", "groups.members", "nothing", groups.list_members),
    make_route("GET", "M/*/members/user", "groups.members", "nothing", groups.list_members),
    make_route(
        "GET", "M/*/transitivemembers", "groups.transitiveMembers", "nothing", groups.list_all_members
    ),
    make_route(
        "GET", "M/*/transitivemembers/user", "groups.transitiveMembers", "nothing", groups.list_all_members
    ),
)
_OTHER_ROUTES = (
    make_route("GET", "users/*/mailfolders/*/messages/delta", "messages.delta", "read", delta.messages_delta),
    make_route("GET", "users/*/messages/delta", "messages.delta", "read", delta.messages_delta),
    make_route("GET", "users", "users.list", "nothing", users.list_page),
    make_route("GET", "users/$count", "users.count", "nothing", users.count),
    make_route("GET", "users/*", "users.get", "user", users.get),
    make_route("POST", "users/*/translateexchangeids", "users.translate", "read", users.translate_ids),
    make_route("POST", "users/*/sendmail", "users.sendMail", "send", message_writes.send_mail),
    make_route("GET", "users/*/mailfolders", "folders.list", "read", folders.list_page),
    make_route("POST", "users/*/mailfolders", "folders.create", "write", folders.create),
    make_route("GET", "users/*/mailfolders/$count", "folders.count", "read", folders.count),
    make_route("GET", "users/*/mailfolders/delta", "folders.delta", "read", delta.folders_delta),
    make_route("GET", "users/*/mailfolders/*", "folders.get", "read", folders.get),
    make_route("PATCH", "users/*/mailfolders/*", "folders.update", "write", folders.update),
    make_route("DELETE", "users/*/mailfolders/*", "folders.delete", "write", folders.delete),
    make_route("POST", "users/*/mailfolders/*/move", "folders.move", "write", folders.move),
    make_route("POST", "users/*/mailfolders/*/copy", "folders.copy", "write", folders.copy),
    make_route(
        "POST", "users/*/mailfolders/*/permanentdelete", "folders.permanentDelete", "write", folders.delete
    ),
    make_route(
        "GET", "users/*/mailfolders/*/childfolders", "folders.children", "read", folders.list_children
    ),
    make_route("POST", "users/*/mailfolders/*/childfolders", "folders.create", "write", folders.create),
    make_route("GET", "users/*/mailfolders/*/childfolders/$count", "folders.count", "read", folders.count),
    make_route("GET", "subscriptions", "subscriptions.list", "nothing", subscriptions.list_page),
    make_route("POST", "subscriptions", "subscriptions.create", "nothing", subscriptions.create),
    make_route("GET", "subscriptions/*", "subscriptions.get", "nothing", subscriptions.get),
    make_route("PATCH", "subscriptions/*", "subscriptions.update", "nothing", subscriptions.update),
    make_route("DELETE", "subscriptions/*", "subscriptions.delete", "nothing", subscriptions.delete),
    make_route(
        "POST",
        "subscriptions/*/reauthorize",
        "subscriptions.reauthorize",
        "nothing",
        subscriptions.reauthorize,
    ),
)


async def _batch(call: GraphCall) -> GraphResponse:
    return await batch.run_batch(call, handle)


def _prefix_route(route: GraphRoute, prefix: str) -> GraphRoute:
    return replace(route, pattern=(*prefix.split("/"), *route.pattern[1:]))


ROUTES = RouteTable(
    (
        *(_prefix_route(route, "users/*/messages") for route in _MESSAGE_ROUTES),
        *(_prefix_route(route, "users/*/mailfolders/*/messages") for route in _MESSAGE_ROUTES),
        *(_prefix_route(route, "users/*/mailboxsettings") for route in _SETTINGS_ROUTES),
        *(_prefix_route(route, "users/*/outlook/mastercategories") for route in _CATEGORY_ROUTES),
        *(_prefix_route(route, "users/*/mailfolders/*/messagerules") for route in _RULE_ROUTES),
        *(_prefix_route(route, "users/*/inferenceclassification") for route in _OVERRIDE_ROUTES),
        *(_prefix_route(route, "groups") for route in _GROUP_ROUTES),
        *_OTHER_ROUTES,
        make_route("POST", "$batch", "batch", "nothing", _batch),
    )
)


def limit_key(client_id: str, address: str) -> str:
    """Return the key of Exchange's limits, which apply per application and mailbox."""
    return f"{client_id} {address.lower()}"


async def handle(graph: GraphContext, request: GraphRequest, exchange: HttpExchange) -> GraphResponse:
    """Return the response to a request, errors included. No client error escapes as an exception."""
    request_id = graph.new_guid()
    client_id = request.headers.get("client-request-id") or request_id
    try:
        response = await _dispatch(graph, request, exchange)
    except GraphError as error:
        if error.status == 429:
            graph.sim.meters.get(exchange.mailbox).rejections += 1
        now = graph.sim.clock.time()
        refusal = error_body(error, now=now, request_id=request_id, client_request_id=client_id)
        response = GraphResponse(error.status, refusal, headers=error.headers)
    exchange.status = response.status
    return replace(
        response, headers={**response.headers, "request-id": request_id, "client-request-id": client_id}
    )


async def _dispatch(graph: GraphContext, request: GraphRequest, exchange: HttpExchange) -> GraphResponse:
    token = authorization.authenticate(graph, request.headers.get("authorization", ""))
    route, names = ROUTES.find(request.method, request.path, request.version)
    exchange.endpoint = route.endpoint
    if request.is_batch_part and route.endpoint == "batch":
        raise bad_request("A batch cannot hold another batch.")
    raw = odata.parse_options(request.query)
    if request.body is None:
        raise GraphError(413, "RequestEntityTooLarge", "The request payload is too large.")
    call = GraphCall(
        graph,
        exchange,
        request.method,
        request.path,
        names,
        raw,
        request.headers,
        request.body,
        request.base_url,
        token,
        version=request.version,
    )
    now = graph.sim.clock.time()
    if route.addresses_user:
        user = authorization.resolve_user(graph, token, names[0], mail=len(route.pattern) > 2)
        exchange.mailbox = user.upn
        if request.is_batch_part:
            _raise_planned_fault(graph, exchange)
        if graph.sim.options.quota != "off" and route.permission != "user":
            key = limit_key(token.application.client_id, user.upn)
            concurrent = graph.sim.meters.concurrent[key] + 1 if request.is_batch_part else request.concurrent
            graph.throttle.check_mailbox(key, concurrent, now, graph.options.retry_after)
        call = replace(
            call,
            user=user,
            basic=authorization.check_permission(graph, token, user, route.permission),
            names=names[1:],
        )
    elif route.pattern[0] == "subscriptions" and graph.sim.options.quota != "off":
        key = f"{token.application.client_id} {token.tid}"
        graph.throttle.check_subscription(route.endpoint, key, now, graph.options.retry_after)
    return await route.handler(call)


def _raise_planned_fault(graph: GraphContext, exchange: HttpExchange) -> None:
    """Raise a scheduled fault of one batch part; the middleware sees only the whole batch."""
    fault = graph.sim.take_part_fault("outlook", exchange.mailbox, exchange.endpoint, exchange)
    if fault is not None:
        raise fault_errors.make_fault_error(*fault.refusal)


class GraphApp:
    """The ASGI app: reads the request and sends the response."""

    def __init__(self, graph: GraphContext) -> None:
        self._graph = graph

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        prefer = [value.decode("latin-1") for name, value in scope["headers"] if name == b"prefer"]
        if len(prefer) > 1:
            headers["prefer"] = ", ".join(prefer)
        content = await _read_body(receive)
        request = GraphRequest(
            method=scope["method"],
            path=get_path(scope),
            query=scope["query_string"].decode("latin-1"),
            headers=headers,
            body=content,
            base_url=f"{scope['scheme']}://{headers.get('host', 'localhost')}",
            concurrent=scope.get("mailsim.concurrent", 1),
            version=get_version(scope),
        )
        await _send_response(send, await handle(self._graph, request, scope["mailsim.exchange"]))


def get_path(scope: Scope) -> str:
    """Return the path after the version, still percent-encoded."""
    return _get_raw_path(scope).removeprefix("/v1.0").removeprefix("/beta")


def get_version(scope: Scope) -> str:
    return "beta" if _get_raw_path(scope).startswith(BETA) else "v1.0"


def _get_raw_path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("latin-1").partition("?")[0]


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body, or None if it is larger than Graph accepts."""
    content = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if len(content) <= MAX_BODY_SIZE:
            content += message.get("body", b"")
        more = message.get("more_body", False)
    return content if len(content) <= MAX_BODY_SIZE else None


async def _send_response(send: Send, response: GraphResponse) -> None:
    content = (
        response.body
        if isinstance(response.body, bytes)
        else b""
        if response.body is None
        else encode_json(response.body)
    )
    headers = [
        (name.encode(), value.encode("latin-1", "replace")) for name, value in response.list_headers().items()
    ]
    headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
