"""One control endpoint: what it takes, what it gives, and the way between request and function."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mailsim.control.shapes import Problem
from mailsim.errors import Invalid, SimulatorError
from mailsim.simulator import Simulator

LARGEST = 96 << 20
JSON = "application/json"
MAIL = "message/rfc822"


@dataclass(frozen=True, slots=True)
class Call:
    """`body` and `query` are instances of the endpoint's structs, or None; mail comes as bytes in `raw`."""

    sim: Simulator
    path: dict[str, str]
    query: Any = None
    body: Any = None
    raw: bytes = b""


StructT = TypeVar("StructT", bound=msgspec.Struct)
Function = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`gives` None: 204 without a body; bytes: mail."""

    method: str
    path: str  # below /_sim
    summary: str
    function: Function
    gives: Any = None
    takes: Any = None
    query: type[msgspec.Struct] | None = None
    mail: bool = False  # takes message/rfc822, besides `takes` if that is set
    status: int = 200

    @property
    def name(self) -> str:
        return self.function.__name__

    def route(self, sim: Simulator) -> Route:
        async def answer(request: Request) -> Response:
            try:
                call = await self._call(sim, request)
                result = await self.function(call)
            except SimulatorError as error:
                return problem(error.status, str(error))
            except _Refusal as error:
                return problem(*error.args)
            if self.gives is None:
                return Response(status_code=204)
            if isinstance(result, bytes):
                return Response(result, self.status, media_type=MAIL)
            return Response(msgspec.json.encode(result), self.status, media_type=JSON)

        return Route(f"/_sim{self.path}", answer, methods=[self.method], name=f"control.{self.name}")

    async def _call(self, sim: Simulator, request: Request) -> Call:
        query = _converted(dict(request.query_params), self.query) if self.query else None
        if self.takes is None and not self.mail:
            return Call(sim, dict(request.path_params), query)
        raw = await _body(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self.mail and (kind == MAIL or self.takes is None):
            if kind != MAIL or not raw:
                raise _Refusal(415 if raw else 400, f"send the message as a body of type {MAIL}")
            return Call(sim, dict(request.path_params), query, raw=raw)
        return Call(sim, dict(request.path_params), query, body=_decoded(raw, self.takes))


class _Refusal(Exception):
    """Status and words of a request that cannot be read."""


def problem(status: int, words: str) -> Response:
    return Response(msgspec.json.encode(Problem(words)), status, media_type=JSON)


async def _body(request: Request) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > LARGEST:
            raise _Refusal(413, f"a body may have {LARGEST >> 20} MB at most")
        pieces.append(piece)
    return b"".join(pieces)


def _decoded(raw: bytes, shape: Any) -> Any:
    try:
        return msgspec.json.decode(raw or b"{}", type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Refusal(400, f"the body is not right: {error}") from error


def _converted(values: dict[str, str], shape: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as error:
        raise _Refusal(400, f"the query is not right: {error}") from error


def change_options(options: StructT, named: dict[str, Any]) -> StructT:
    """Only what is named changes. The object stays the same: everybody holds it."""
    try:
        wanted = msgspec.convert(msgspec.to_builtins(options) | named, type(options))
    except msgspec.ValidationError as error:
        raise Invalid(f"the options are not right: {error}") from error
    for name in options.__struct_fields__:
        setattr(options, name, getattr(wanted, name))
    return options
