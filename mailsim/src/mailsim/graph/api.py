"""Graph's front: finds the place of a request, checks token, permission and limits, and writes the answer.

The same way serves whole requests and the parts of a batch.
"""

from dataclasses import replace

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from mailsim.graph import (
    access,
    attachments,
    batch,
    delta,
    folders,
    messages,
    odata,
    subscriptions,
    users,
    writes,
)
from mailsim.graph.context import JSON, Answer, Call, Graph, Wanted, encode
from mailsim.graph.errors import GraphError, bad_request, body
from mailsim.graph.routing import Map, Place, place
from mailsim.log import Exchange

LONGEST_BODY = 4 * 1024 * 1024

_MESSAGES = (
    place("GET", "M", "messages.list", "read", messages.page),
    place("POST", "M", "messages.create", "write", writes.create),
    place("GET", "M/$count", "messages.count", "read", messages.count),
    place("GET", "M/*", "messages.get", "read", messages.get),
    place("PATCH", "M/*", "messages.update", "write", writes.update),
    place("DELETE", "M/*", "messages.delete", "write", writes.delete),
    place("GET", "M/*/$value", "messages.value", "full", messages.value),
    place("POST", "M/*/move", "messages.move", "write", writes.move),
    place("POST", "M/*/copy", "messages.copy", "write", writes.copy),
    place("POST", "M/*/send", "messages.send", "send", writes.send),
    place("POST", "M/*/permanentdelete", "messages.permanentDelete", "write", writes.delete),
    place("GET", "M/*/attachments", "attachments.list", "full", attachments.page),
    place("GET", "M/*/attachments/$count", "attachments.count", "full", attachments.count),
    place("GET", "M/*/attachments/*", "attachments.get", "full", attachments.get),
    place("GET", "M/*/attachments/*/$value", "attachments.value", "full", attachments.value),
)
_OTHERS = (
    place("GET", "users/*/mailfolders/*/messages/delta", "messages.delta", "read", delta.messages_delta),
    place("GET", "users/*", "users.get", "user", users.get),
    place("POST", "users/*/translateexchangeids", "users.translate", "read", users.translate),
    place("POST", "users/*/sendmail", "users.sendMail", "send", writes.send_mail),
    place("GET", "users/*/mailfolders", "folders.list", "read", folders.page),
    place("POST", "users/*/mailfolders", "folders.create", "write", folders.create),
    place("GET", "users/*/mailfolders/$count", "folders.count", "read", folders.count),
    place("GET", "users/*/mailfolders/delta", "folders.delta", "read", delta.folders_delta),
    place("GET", "users/*/mailfolders/*", "folders.get", "read", folders.get),
    place("PATCH", "users/*/mailfolders/*", "folders.update", "write", folders.update),
    place("DELETE", "users/*/mailfolders/*", "folders.delete", "write", folders.delete),
    place("POST", "users/*/mailfolders/*/move", "folders.move", "write", folders.move),
    place("GET", "users/*/mailfolders/*/childfolders", "folders.children", "read", folders.children),
    place("POST", "users/*/mailfolders/*/childfolders", "folders.create", "write", folders.create),
    place("GET", "users/*/mailfolders/*/childfolders/$count", "folders.count", "read", folders.count),
    place("GET", "subscriptions", "subscriptions.list", "nothing", subscriptions.page),
    place("POST", "subscriptions", "subscriptions.create", "nothing", subscriptions.create),
    place("GET", "subscriptions/*", "subscriptions.get", "nothing", subscriptions.get),
    place("PATCH", "subscriptions/*", "subscriptions.update", "nothing", subscriptions.update),
    place("DELETE", "subscriptions/*", "subscriptions.delete", "nothing", subscriptions.delete),
    place("POST", "subscriptions/*/reauthorize", "subscriptions.reauthorize", "nothing", subscriptions.renew),
)


async def _batch(call: Call) -> Answer:
    return await batch.run(call, answer)


def _under(one: Place, prefix: str) -> Place:
    return replace(one, pattern=(*prefix.split("/"), *one.pattern[1:]))


MAP = Map(
    (
        *(_under(one, "users/*/messages") for one in _MESSAGES),
        *(_under(one, "users/*/mailfolders/*/messages") for one in _MESSAGES),
        *_OTHERS,
        place("POST", "$batch", "batch", "nothing", _batch),
    )
)


def budget(client_id: str, address: str) -> str:
    """What shares Exchange's limits: one application on one mailbox."""
    return f"{client_id} {address.lower()}"


async def answer(graph: Graph, wanted: Wanted, exchange: Exchange) -> Answer:
    """The answer to a request, refusals included. Raises nothing that a client can cause."""
    request_id = graph.guid()
    client_id = wanted.headers.get("client-request-id") or request_id
    try:
        given = await _given(graph, wanted, exchange)
    except GraphError as error:
        if error.status == 429:
            graph.sim.meters.of(exchange.mailbox).rejections += 1
        now = graph.sim.clock.time()
        refusal = body(error, now=now, request_id=request_id, client_request_id=client_id)
        given = Answer(error.status, refusal, headers=error.headers)
    exchange.status = given.status
    return replace(given, headers={**given.headers, "request-id": request_id, "client-request-id": client_id})


async def _given(graph: Graph, wanted: Wanted, exchange: Exchange) -> Answer:
    token = access.authenticate(graph, wanted.headers.get("authorization", ""))
    found, names = MAP.find(wanted.method, wanted.path)
    exchange.endpoint = found.endpoint
    if wanted.part and found.endpoint == "batch":
        raise bad_request("A batch cannot hold another batch.")
    raw = odata.pairs(wanted.query)
    if wanted.body is None:
        raise GraphError(413, "RequestEntityTooLarge", "The request payload is too large.")
    call = Call(
        graph,
        exchange,
        wanted.method,
        wanted.path,
        names,
        raw,
        wanted.headers,
        wanted.body,
        wanted.base_url,
        token,
    )
    now = graph.sim.clock.time()
    if found.pattern[0] == "users":
        user = access.owner(graph, token, names[0], mail=len(found.pattern) > 2)
        exchange.mailbox = user.upn
        if wanted.part:
            _fault(graph, exchange)
        if graph.sim.options.quota != "off" and found.need != "user":
            shared = budget(token.application.client_id, user.upn)
            width = graph.sim.meters.flying[shared] + 1 if wanted.part else wanted.width
            graph.throttle.mailbox(shared, width, now, graph.options.retry_after)
        call = replace(call, user=user, basic=access.permit(graph, token, user, found.need), names=names[1:])
    elif found.pattern[0] == "subscriptions" and graph.sim.options.quota != "off":
        key = f"{token.application.client_id} {token.tid}"
        graph.throttle.subscription(found.endpoint, key, now, graph.options.retry_after)
    return await found.work(call)


def _fault(graph: Graph, exchange: Exchange) -> None:
    """The gate sees only the batch; what shall go wrong with one part of it happens here."""
    reply = graph.sim.refused("outlook", exchange.mailbox, exchange.endpoint, exchange)
    if reply is not None:
        told = msgspec.json.decode(reply.body)["error"]
        headers = {name: text for name, text in reply.headers if name == "retry-after"}
        raise GraphError(reply.status, told["code"], told["message"], headers=headers)


class Endpoint:
    """The ASGI side: reads the request, writes the answer."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        prefer = [value.decode("latin-1") for name, value in scope["headers"] if name == b"prefer"]
        if len(prefer) > 1:
            headers["prefer"] = ", ".join(prefer)
        content = await _read(receive)
        wanted = Wanted(
            method=scope["method"],
            path=path_of(scope),
            query=scope["query_string"].decode("latin-1"),
            headers=headers,
            body=content,
            base_url=f"{scope['scheme']}://{headers.get('host', 'localhost')}",
            width=scope.get("mailsim.width", 1),
        )
        await _write(send, await answer(self._graph, wanted, scope["mailsim.exchange"]))


def path_of(scope: Scope) -> str:
    """The path after the version, still percent-encoded."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.decode("latin-1").partition("?")[0].removeprefix("/v1.0")


async def _read(receive: Receive) -> bytes | None:
    """The whole body; None when it is longer than Graph takes."""
    content = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if len(content) <= LONGEST_BODY:
            content += message.get("body", b"")
        more = message.get("more_body", False)
    return content if len(content) <= LONGEST_BODY else None


async def _write(send: Send, given: Answer) -> None:
    content = (
        given.body if isinstance(given.body, bytes) else b"" if given.body is None else encode(given.body)
    )
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in given.headers.items()]
    if given.body is not None:
        headers.append((b"content-type", given.content_type.encode("latin-1", "replace")))
        if given.content_type == JSON:
            headers.append((b"odata-version", b"4.0"))
    headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": given.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
