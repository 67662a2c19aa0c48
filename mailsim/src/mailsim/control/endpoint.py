"""ControlEndpoint: decodes the requests of one control endpoint, and encodes its results and errors.

Also `change_options`, which sets options by name. Handlers and the route table are elsewhere.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mailsim.control.schemas import Problem
from mailsim.errors import InvalidRequest, SimulatorError
from mailsim.simulator import Simulator

MAX_BODY_BYTES = 96 << 20
JSON = "application/json"
STATE = "application/gzip"
MAIL = "message/rfc822"


@dataclass(frozen=True, slots=True)
class ControlCall:
    """A decoded control request.

    `body` and `query` are instances of the endpoint's structs, or None; `raw` holds a body that is not JSON.
    `origin` is the URL under which the client reached the simulator, without a path.
    """

    sim: Simulator
    path: dict[str, str]
    query: Any = None
    body: Any = None
    raw: bytes = b""
    origin: str = ""


StructT = TypeVar("StructT", bound=msgspec.Struct)
ControlHandler = Callable[[ControlCall], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ControlEndpoint:
    """One method on one path. `gives` None means 204 without a body, bytes means the type `media`."""

    method: str
    path: str  # below /_sim
    summary: str
    function: ControlHandler
    gives: Any = None
    takes: Any = None
    query: type[msgspec.Struct] | None = None
    mail: bool = False  # takes a body of the type `media`, in addition to `takes` if that is set
    media: str = MAIL
    status: int = 200

    @property
    def name(self) -> str:
        return self.function.__name__

    def route(self, sim: Simulator) -> Route:
        async def respond(request: Request) -> Response:
            try:
                call = await self._call(sim, request)
                origin = f"{request.url.scheme}://{request.url.netloc}"
                result = await self.function(replace(call, origin=origin))
            except SimulatorError as error:
                return problem_response(error.status, str(error))
            except _BadRequest as error:
                return problem_response(*error.args)
            if self.gives is None:
                return Response(status_code=204)
            if isinstance(result, bytes):
                return Response(result, self.status, media_type=self.media)
            return Response(msgspec.json.encode(result), self.status, media_type=JSON)

        return Route(f"/_sim{self.path}", respond, methods=[self.method], name=f"control.{self.name}")

    async def _call(self, sim: Simulator, request: Request) -> ControlCall:
        query = _convert_query(dict(request.query_params), self.query) if self.query else None
        if self.takes is None and not self.mail:
            return ControlCall(sim, dict(request.path_params), query)
        raw = await _read_body(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self.mail and (kind == self.media or self.takes is None):
            if kind != self.media or not raw:
                raise _BadRequest(415 if raw else 400, f"send the content as a body of type {self.media}")
            return ControlCall(sim, dict(request.path_params), query, raw=raw)
        return ControlCall(sim, dict(request.path_params), query, body=_decode_body(raw, self.takes))


class _BadRequest(Exception):
    """A request that cannot be decoded, with the status and message of the response."""


def problem_response(status: int, message: str) -> Response:
    return Response(msgspec.json.encode(Problem(message)), status, media_type=JSON)


async def _read_body(request: Request) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise _BadRequest(413, f"the body is larger than {MAX_BODY_BYTES >> 20} MB")
        chunks.append(chunk)
    return b"".join(chunks)


def _decode_body(raw: bytes, type_: Any) -> Any:
    try:
        return msgspec.json.decode(raw or b"{}", type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _BadRequest(400, f"invalid body: {error}") from error


def _convert_query(values: dict[str, str], type_: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        return msgspec.convert(values, type_, strict=False)
    except msgspec.ValidationError as error:
        raise _BadRequest(400, f"invalid query: {error}") from error


def change_options(options: StructT, changes: dict[str, Any]) -> StructT:
    """Apply the named changes in place, because other objects hold a reference to `options`."""
    try:
        changed = msgspec.convert(msgspec.to_builtins(options) | changes, type(options))
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"invalid options: {error}") from error
    for name in options.__struct_fields__:
        setattr(options, name, getattr(changed, name))
    return options
