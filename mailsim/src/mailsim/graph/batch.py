"""The $batch endpoint: up to twenty requests in one, with dependencies, each with its own response.

It parses, orders and encodes the parts; `api` dispatches each of them.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from mailsim.graph.context import GraphContext
from mailsim.graph.errors import GraphError, bad_request, error_body
from mailsim.graph.request import GraphCall, GraphRequest, GraphResponse, encode_json
from mailsim.request_log import HttpExchange

MAX_PARTS = 20
METHODS = frozenset({"GET", "POST", "PATCH", "PUT", "DELETE"})
# The usual spelling, where it is not that of str.title().
_HEADER_NAMES = {
    "odata-version": "OData-Version",
    "www-authenticate": "WWW-Authenticate",
    "request-id": "request-id",
    "client-request-id": "client-request-id",
}
PartHandler = Callable[[GraphContext, GraphRequest, HttpExchange], Awaitable[GraphResponse]]


@dataclass(frozen=True, slots=True)
class GraphBatchPart:
    id: str
    method: str
    url: str
    headers: Mapping[str, str]
    body: Any
    after: tuple[str, ...]


async def run_batch(call: GraphCall, handle: PartHandler) -> GraphResponse:
    parts = _parse_parts(call.json())
    responses_by_id: dict[str, dict[str, Any]] = {}
    for part in _sort_by_dependency(parts):
        failed = [name for name in part.after if responses_by_id[name]["status"] >= 400]
        responses_by_id[part.id] = _dependency_failed(part) if failed else await _run_part(call, part, handle)
    responses = list(responses_by_id.values())
    call.graph.random.shuffle(responses)  # Graph does not keep the order
    return GraphResponse(200, {"responses": responses}, "application/json")


def _parse_parts(body: dict[str, Any]) -> list[GraphBatchPart]:
    requests = body.get("requests")
    if not isinstance(requests, list):
        raise bad_request("Invalid batch payload format.")
    items = cast("list[Any]", requests)
    if len(items) > MAX_PARTS:
        raise bad_request(
            f"Number of batch request steps exceeds the maximum value of {MAX_PARTS}.", "MaximumValueExceeded"
        )
    parts = [_parse_part(item) for item in items]
    ids = [part.id for part in parts]
    if len(set(ids)) != len(ids):
        raise bad_request("Invalid batch payload format. Request ids must be unique.")
    for part in parts:
        unknown = set(part.after) - set(ids)
        if unknown or part.id in part.after:
            raise bad_request(f"Write request id : {part.id[:50]} has an invalid dependsOn.")
    return parts


def _parse_part(value: Any) -> GraphBatchPart:
    if not isinstance(value, dict):
        raise bad_request("Invalid batch payload format.")
    fields = cast("dict[str, Any]", value)
    name, method, url = fields.get("id"), fields.get("method"), fields.get("url")
    headers: Any = {} if fields.get("headers") is None else fields["headers"]
    after: Any = [] if fields.get("dependsOn") is None else fields["dependsOn"]
    if not (isinstance(name, str) and name and isinstance(url, str) and url and isinstance(method, str)):
        raise bad_request("Invalid batch payload format. Every request needs id, method and url.")
    if method.upper() not in METHODS:
        raise bad_request(f"The method '{method[:20]}' of a batch request is not valid.")
    if not isinstance(headers, dict) or not isinstance(after, list):
        raise bad_request("Invalid batch payload format.")
    lowered = {str(key).lower(): str(text) for key, text in cast("dict[Any, Any]", headers).items()}
    names = tuple(str(other) for other in cast("list[Any]", after))
    return GraphBatchPart(name, method.upper(), url, lowered, fields.get("body"), names)


def _sort_by_dependency(parts: list[GraphBatchPart]) -> list[GraphBatchPart]:
    """Order the parts so that each comes after those it depends on."""
    order: list[GraphBatchPart] = []
    placed: set[str] = set()
    waiting = list(parts)
    while waiting:
        ready = [part for part in waiting if placed.issuperset(part.after)]
        if not ready:
            raise bad_request("Invalid batch payload format. dependsOn goes round in a circle.")
        order += ready
        placed |= {part.id for part in ready}
        waiting = [part for part in waiting if part.id not in placed]
    return order


def _dependency_failed(part: GraphBatchPart) -> dict[str, Any]:
    error = {"code": "FailedDependency", "message": "A request that this one depends on has failed."}
    return {
        "id": part.id,
        "status": 424,
        "headers": {"Content-Type": "application/json"},
        "body": {"error": error},
    }


async def _run_part(call: GraphCall, part: GraphBatchPart, handle: PartHandler) -> dict[str, Any]:
    path, _, query = part.url.partition("?")
    sim = call.graph.sim
    exchange = sim.request_log.open(
        sim.clock.milliseconds(), part.method, f"/{call.version}{path}", query, via=call.exchange.number
    )
    exchange.provider = "outlook"
    try:
        request = GraphRequest(
            method=part.method,
            path=path if path.startswith("/") else f"/{path}",
            query=query,
            headers={"authorization": call.headers.get("authorization", ""), **part.headers},
            body=_decode_body(part),
            base_url=call.base_url,
            is_batch_part=True,
            version=call.version,
        )
        response = await handle(call.graph, request, exchange)
    except GraphError as error:
        refusal = error_body(error, now=sim.clock.time(), request_id="", client_request_id="")
        response = GraphResponse(error.status, refusal)
        exchange.status = error.status
    if exchange.status == 501 and not exchange.fault:
        sim.log_unsimulated(str(response.body))
    meter = sim.meters.get(exchange.mailbox)
    meter.calls[exchange.endpoint] += 1
    meter.statuses[exchange.status] += 1
    if sim.request_log.keep_bodies and not isinstance(response.body, bytes) and response.body is not None:
        exchange.response_body = encode_json(response.body)
        exchange.response_headers = (("content-type", response.content_type),)
    return _to_json(part, response)


def _decode_body(part: GraphBatchPart) -> bytes:
    """Return the body: JSON as it is, anything else decoded from base64."""
    if part.body is None:
        return b""
    kind = part.headers.get("content-type", "")
    if not kind:
        raise bad_request("A batch request with a body needs a Content-Type header.")
    if "json" in kind.lower():
        return encode_json(part.body)
    try:
        return base64.b64decode(str(part.body), validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad_request("The body of a batch request is not valid base64.") from error


def _to_json(part: GraphBatchPart, response: GraphResponse) -> dict[str, Any]:
    headers = {
        _HEADER_NAMES.get(name) or name.title(): text for name, text in response.list_headers().items()
    }
    entry: dict[str, Any] = {"id": part.id, "status": response.status, "headers": headers}
    if response.body is not None:
        binary = isinstance(response.body, bytes)
        entry["body"] = base64.b64encode(response.body).decode() if binary else response.body
    return entry
