"""Serves operations: who calls, what came in, what goes out; problems, ETags and idempotency keys."""

from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from postroom.documents.limits import FILE_BYTES
from postroom.errors import (
    DatabaseUnavailable,
    GrantLost,
    OperatorError,
    PermanentError,
    PostroomError,
    TransientError,
)
from postroom.logs import Log
from postroom.store import idempotency
from postroom.vault import Sealer, sealed_tokens
from postroom.web.api import contents
from postroom.web.api.callers import Callers
from postroom.web.api.operations import LONGEST_KEY, Call, Caller, Operation, Parts, Problem

log = Log()

LARGEST_BODY: Final = 2**20
LARGEST_FILE: Final = FILE_BYTES


@dataclass(frozen=True)
class Api:
    parts: Parts
    callers: Callers

    async def serve(self, operation: Operation, request: Request) -> Response:
        try:
            caller = await self.callers.of(request, operation.scope)
            body = await _body(request, operation) if operation.writes else b""
            call = _call(self.parts, caller, operation, request, body)
            key = request.headers.get("idempotency-key") if operation.writes else None
            if key is not None:
                return await self._once(operation, call, key, body)
            return await _answer(operation, call)
        except Problem as problem:
            return problem_of(problem)
        except PostroomError as error:
            return _failed(error)
        except Exception as error:  # noqa: BLE001  a program is told in the words of the API
            log.error("request.failed", error=error)  # noqa: TRY400  ours takes the error, and no words of it
            return problem_of(Problem(500, "failed", "It is in the log."))

    async def _once(self, operation: Operation, call: Call[Any, Any, Any], key: str, body: bytes) -> Response:
        """The same key with the same request gets the same answer, and the thing is done once."""
        if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
            raise Problem(400, "bad-request", "An idempotency key has 1 to 200 printable characters.")
        actor = call.caller.actor
        asked = f"{call.request.method} {call.request.url.path}?{call.request.url.query}\n"
        digest = sha256(asked.encode() + body).digest()
        async with call.transaction() as connection:
            known = await idempotency.begin(connection, actor, key, digest)
        sealer, purpose = call.parts.desk.sealer, f"idempotency/{call.caller.organization}/{actor}/{key}"
        if known is not None:
            return _again(known, digest, sealer, purpose)
        try:
            response = await _answer(operation, call)
        except (Problem, PostroomError) as refusal:
            # Where the database went away, or anything else happened, it may be done: the key stays taken.
            if not isinstance(refusal, DatabaseUnavailable):
                async with call.transaction() as connection:
                    await idempotency.forget(connection, actor, key)
            raise
        # Sealed: an answer may hold a secret that is shown this once.
        kept = sealed_tokens.write(sealer, purpose, bytes(response.body), idempotency.KEPT_HOURS * 3600)
        async with call.transaction() as connection:
            await idempotency.end(connection, actor, key, response.status_code, kept.encode())
        return response


def _again(known: idempotency.Known, digest: bytes, sealer: Sealer, purpose: str) -> Response:
    if known.request_sha256 != digest:
        raise Problem(422, "key-reused", "This idempotency key came with another request before.")
    if known.cut_off:
        raise Problem(
            409,
            "outcome-unknown",
            "The first request with this idempotency key was cut off, and may have been done or not. Look, "
            "and if it was not, send it with another key.",
        )
    if known.status is None:
        raise Problem(
            409, "under-way", "The first request with this idempotency key is under way.", retry_after="1"
        )
    body = sealed_tokens.read(sealer, purpose, (known.body or b"").decode())
    if body is None:
        raise Problem(409, "done", "This was done before; its answer is no longer kept.")
    headers = {"idempotent-replay": "true"}
    return Response(body, known.status, headers, media_type="application/json" if body else None)


async def _answer(operation: Operation, call: Call[Any, Any, Any]) -> Response:
    found = await operation.call(call)
    if isinstance(found, Response):
        return found
    if found is None:
        return Response(status_code=204)
    body = msgspec.json.encode(found)
    etag = contents.etag_of(found, body)
    if not operation.writes and contents.matches(call.request.headers.get("if-none-match", ""), etag):
        return Response(status_code=304, headers={"etag": etag})
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    return Response(body, operation.status, headers, media_type="application/json")


def _call(
    parts: Parts, caller: Caller, operation: Operation, request: Request, body: bytes
) -> Call[Any, Any, Any]:
    path_type, query_type, body_type = operation.types
    try:
        path = msgspec.convert(dict(request.path_params), path_type, strict=False)
    except msgspec.ValidationError:
        # An id that cannot be one is the id of nothing.
        raise Problem(404, "not-found", "There is nothing by that id.") from None
    try:
        query = msgspec.convert(dict(request.query_params), query_type, strict=False)
        wanted = _wanted(body, body_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "bad-request", f"What was sent does not fit: {_plain(str(error))}") from None
    return Call(parts, caller, request, path, query, wanted)


def _wanted(body: bytes, kind: type[Any]) -> Any:
    if kind is type(None):
        return None
    return body if kind is bytes else msgspec.json.decode(body or b"{}", type=kind)


async def _body(request: Request, operation: Operation) -> bytes:
    largest = LARGEST_FILE if operation.body == "file" else LARGEST_BODY
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > largest:
            raise Problem(413, "too-large", f"The body is larger than {largest:,} bytes.")
    return bytes(read)


def _plain(words: str) -> str:
    return words.encode("ascii", "replace").decode()[:300]


def problem_of(problem: Problem) -> Response:
    """RFC 9457."""
    body = {
        "type": f"urn:postroom:problem:{problem.kind}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
    }
    headers = {name.replace("_", "-"): value for name, value in problem.headers.items()}
    return Response(msgspec.json.encode(body), problem.status, headers, media_type="application/problem+json")


def _failed(error: PostroomError) -> Response:
    """What operations raise on their way. The words of a permanent error are for the caller."""
    match error:
        case DatabaseUnavailable() | TransientError():
            wait = error.retry_after if isinstance(error, TransientError) else None
            detail = "Something that is needed does not answer now. Try again."
            return problem_of(Problem(503, "try-again", detail, retry_after=str(max(1, round(wait or 1)))))
        case GrantLost():
            detail = "The mailbox must be connected again by its owner."
            return problem_of(Problem(409, "connection-lost", detail))
        case OperatorError():
            log.warning("request.failed", error=error)
            detail = "Whoever runs this Postroom must act; the log says how."
            return problem_of(Problem(500, "operator", detail))
        case PermanentError():
            return problem_of(Problem(409, "refused", _plain(str(error))))
        case _:
            log.warning("request.failed", error=error)
            return problem_of(Problem(500, "failed", "It is in the log."))
