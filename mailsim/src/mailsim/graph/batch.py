"""$batch: up to twenty requests in one, some after others, each with an answer of its own."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from mailsim.graph.context import JSON, Answer, Call, Graph, Wanted, encode
from mailsim.graph.errors import GraphError, bad_request
from mailsim.graph.errors import body as error_body
from mailsim.log import Exchange

MOST = 20
METHODS = frozenset({"GET", "POST", "PATCH", "PUT", "DELETE"})
Serve = Callable[[Graph, Wanted, Exchange], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Part:
    id: str
    method: str
    url: str
    headers: Mapping[str, str]
    body: Any
    after: tuple[str, ...]


async def run(call: Call, serve: Serve) -> Answer:
    parts = _parts(call.json())
    done: dict[str, dict[str, Any]] = {}
    for part in _in_order(parts):
        failed = [name for name in part.after if done[name]["status"] >= 400]
        done[part.id] = _dependency_failed(part) if failed else await _served(call, part, serve)
    responses = list(done.values())
    call.graph.random.shuffle(responses)  # the order of answers means nothing
    return Answer(200, {"responses": responses}, "application/json")


def _parts(wanted: dict[str, Any]) -> list[Part]:
    given = wanted.get("requests")
    if not isinstance(given, list):
        raise bad_request("Invalid batch payload format.")
    items = cast("list[Any]", given)
    if len(items) > MOST:
        raise bad_request(
            f"Number of batch request steps exceeds the maximum value of {MOST}.", "MaximumValueExceeded"
        )
    parts = [_part(one) for one in items]
    ids = [part.id for part in parts]
    if len(set(ids)) != len(ids):
        raise bad_request("Invalid batch payload format. Request ids must be unique.")
    for part in parts:
        unknown = set(part.after) - set(ids)
        if unknown or part.id in part.after:
            raise bad_request(f"Write request id : {part.id[:50]} has an invalid dependsOn.")
    return parts


def _part(value: Any) -> Part:
    if not isinstance(value, dict):
        raise bad_request("Invalid batch payload format.")
    one = cast("dict[str, Any]", value)
    name, method, url = one.get("id"), one.get("method"), one.get("url")
    headers: Any = {} if one.get("headers") is None else one["headers"]
    after: Any = [] if one.get("dependsOn") is None else one["dependsOn"]
    if not (isinstance(name, str) and name and isinstance(url, str) and url and isinstance(method, str)):
        raise bad_request("Invalid batch payload format. Every request needs id, method and url.")
    if method.upper() not in METHODS:
        raise bad_request(f"The method '{method[:20]}' of a batch request is not valid.")
    if not isinstance(headers, dict) or not isinstance(after, list):
        raise bad_request("Invalid batch payload format.")
    known = {str(key).lower(): str(text) for key, text in cast("dict[Any, Any]", headers).items()}
    names = tuple(str(other) for other in cast("list[Any]", after))
    return Part(name, method.upper(), url, known, one.get("body"), names)


def _in_order(parts: list[Part]) -> list[Part]:
    """Each after those it depends on."""
    order: list[Part] = []
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


def _dependency_failed(part: Part) -> dict[str, Any]:
    error = {"code": "FailedDependency", "message": "A request that this one depends on has failed."}
    return {
        "id": part.id,
        "status": 424,
        "headers": {"Content-Type": "application/json"},
        "body": {"error": error},
    }


async def _served(call: Call, part: Part, serve: Serve) -> dict[str, Any]:
    path, _, query = part.url.partition("?")
    sim = call.graph.sim
    exchange = sim.log.open(
        sim.clock.milliseconds(), part.method, f"/v1.0{path}", query, via=call.exchange.number
    )
    exchange.provider = "outlook"
    try:
        wanted = Wanted(
            method=part.method,
            path=path if path.startswith("/") else f"/{path}",
            query=query,
            headers={"authorization": call.headers.get("authorization", ""), **part.headers},
            body=_body(part),
            base_url=call.base_url,
            part=True,
        )
        given = await serve(call.graph, wanted, exchange)
    except GraphError as error:
        refusal = error_body(error, now=sim.clock.time(), request_id="", client_request_id="")
        given = Answer(error.status, refusal)
        exchange.status = error.status
    meter = sim.meters.of(exchange.mailbox)
    meter.calls[exchange.endpoint] += 1
    meter.statuses[exchange.status] += 1
    if sim.log.bodies and not isinstance(given.body, bytes) and given.body is not None:
        exchange.response_body = encode(given.body)
        exchange.response_headers = (("content-type", given.content_type),)
    return _response(part, given)


def _body(part: Part) -> bytes:
    """JSON as it is; anything else as base64."""
    if part.body is None:
        return b""
    kind = part.headers.get("content-type", "")
    if not kind:
        raise bad_request("A batch request with a body needs a Content-Type header.")
    if "json" in kind.lower():
        return encode(part.body)
    try:
        return base64.b64decode(str(part.body), validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad_request("The body of a batch request is not valid base64.") from error


def _response(part: Part, given: Answer) -> dict[str, Any]:
    shown = {
        name.title(): text
        for name, text in given.headers.items()
        if name not in {"request-id", "client-request-id"}
    }
    answer: dict[str, Any] = {"id": part.id, "status": given.status, "headers": shown}
    if given.body is not None:
        shown["Content-Type"] = "application/json" if given.content_type == JSON else given.content_type
        binary = isinstance(given.body, bytes)
        answer["body"] = base64.b64encode(given.body).decode() if binary else given.body
    return answer
