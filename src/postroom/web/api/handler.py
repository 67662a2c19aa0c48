"""Serves operations: who calls, what came in, what goes out; problems, ETags and idempotency keys."""

from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from postroom.documents.sandbox.file_limits import FILE_BYTES
from postroom.errors import (
    DatabaseUnavailable,
    InvalidGrant,
    OperatorError,
    PermanentError,
    PostroomError,
    TransientError,
)
from postroom.logs import Log
from postroom.store import idempotency_keys
from postroom.vault import Sealer, sealed_tokens
from postroom.web.api import http_content
from postroom.web.api.authentication import ApiAuthenticator
from postroom.web.api.operations import (
    MAX_IDEMPOTENCY_KEY_LENGTH,
    ApiCall,
    ApiCaller,
    ApiContext,
    ApiProblem,
    Operation,
)

log = Log()

MAX_BODY_BYTES: Final = 2**20
MAX_FILE_BYTES: Final = FILE_BYTES


@dataclass(frozen=True)
class ApiHandler:
    context: ApiContext
    callers: ApiAuthenticator

    async def serve(self, operation: Operation, request: Request) -> Response:
        try:
            caller = await self.callers.of(request, operation.scope)
            body = await _read_body(request, operation) if operation.writes else b""
            call = _parse_call(self.context, caller, operation, request, body)
            key = request.headers.get("idempotency-key") if operation.writes else None
            if key is not None:
                return await self._once(operation, call, key, body)
            return await _respond(operation, call)
        except ApiProblem as problem:
            return to_problem_response(problem)
        except PostroomError as error:
            return _to_error_response(error)
        except Exception as error:  # noqa: BLE001  a program is told in the words of the API
            log.error("request.failed", error=error)  # noqa: TRY400  ours takes the error, and no words of it
            return to_problem_response(ApiProblem(500, "failed", "It is in the log."))

    async def _once(
        self, operation: Operation, call: ApiCall[Any, Any, Any], key: str, body: bytes
    ) -> Response:
        """The same key with the same request gets the same answer, and the thing is done once."""
        if not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY_LENGTH or not key.isprintable():
            raise ApiProblem(400, "bad-request", "An idempotency key has 1 to 200 printable characters.")
        actor = call.caller.actor
        asked = f"{call.request.method} {call.request.url.path}?{call.request.url.query}\n"
        digest = sha256(asked.encode() + body).digest()
        async with call.transaction() as connection:
            known = await idempotency_keys.begin(connection, actor, key, digest)
        sealer, purpose = call.context.desk.sealer, f"idempotency/{call.caller.organization}/{actor}/{key}"
        if known is not None:
            return _replay_response(known, digest, sealer, purpose)
        try:
            response = await _respond(operation, call)
        except (ApiProblem, PostroomError) as refusal:
            # Where the database went away, or anything else happened, it may be done: the key stays taken.
            if not isinstance(refusal, DatabaseUnavailable):
                async with call.transaction() as connection:
                    await idempotency_keys.forget(connection, actor, key)
            raise
        # Sealed: an answer may hold a secret that is shown this once.
        kept = sealed_tokens.issue(sealer, purpose, bytes(response.body), idempotency_keys.KEPT_HOURS * 3600)
        async with call.transaction() as connection:
            await idempotency_keys.end(connection, actor, key, response.status_code, kept.encode())
        return response


def _replay_response(known: idempotency_keys.Known, digest: bytes, sealer: Sealer, purpose: str) -> Response:
    if known.request_sha256 != digest:
        raise ApiProblem(422, "key-reused", "This idempotency key came with another request before.")
    if known.cut_off:
        raise ApiProblem(
            409,
            "outcome-unknown",
            "The first request with this idempotency key was cut off, and may have been done or not. Look, "
            "and if it was not, send it with another key.",
        )
    if known.status is None:
        raise ApiProblem(
            409, "under-way", "The first request with this idempotency key is under way.", retry_after="1"
        )
    body = sealed_tokens.redeem(sealer, purpose, (known.body or b"").decode())
    if body is None:
        raise ApiProblem(409, "done", "This was done before; its answer is no longer kept.")
    headers = {"idempotent-replay": "true"}
    return Response(body, known.status, headers, media_type="application/json" if body else None)


async def _respond(operation: Operation, call: ApiCall[Any, Any, Any]) -> Response:
    found = await operation.call(call)
    if isinstance(found, Response):
        return found
    if found is None:
        return Response(status_code=204)
    body = msgspec.json.encode(found)
    etag = http_content.compute_etag(found, body)
    if not operation.writes and http_content.matches_etag(
        call.request.headers.get("if-none-match", ""), etag
    ):
        return Response(status_code=304, headers={"etag": etag})
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    return Response(body, operation.status, headers, media_type="application/json")


def _parse_call(
    context: ApiContext, caller: ApiCaller, operation: Operation, request: Request, body: bytes
) -> ApiCall[Any, Any, Any]:
    path_type, query_type, body_type = operation.types
    try:
        path = msgspec.convert(dict(request.path_params), path_type, strict=False)
    except msgspec.ValidationError:
        # An id that cannot be one is the id of nothing.
        raise ApiProblem(404, "not-found", "There is nothing by that id.") from None
    try:
        query = msgspec.convert(dict(request.query_params), query_type, strict=False)
        wanted = _parse_body(body, body_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiProblem(400, "bad-request", f"What was sent does not fit: {_to_ascii(str(error))}") from None
    return ApiCall(context, caller, request, path, query, wanted)


def _parse_body(body: bytes, kind: type[Any]) -> Any:
    if kind is type(None):
        return None
    return body if kind is bytes else msgspec.json.decode(body or b"{}", type=kind)


async def _read_body(request: Request, operation: Operation) -> bytes:
    largest = MAX_FILE_BYTES if operation.body == "file" else MAX_BODY_BYTES
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > largest:
            raise ApiProblem(413, "too-large", f"The body is larger than {largest:,} bytes.")
    return bytes(read)


def _to_ascii(words: str) -> str:
    return words.encode("ascii", "replace").decode()[:300]


def to_problem_response(problem: ApiProblem) -> Response:
    """RFC 9457."""
    body = {
        "type": f"urn:postroom:problem:{problem.kind}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
    }
    headers = {name.replace("_", "-"): value for name, value in problem.headers.items()}
    return Response(msgspec.json.encode(body), problem.status, headers, media_type="application/problem+json")


def _to_error_response(error: PostroomError) -> Response:
    """What operations raise on their way. The words of a permanent error are for the caller."""
    match error:
        case DatabaseUnavailable() | TransientError():
            wait = error.retry_after if isinstance(error, TransientError) else None
            detail = "Something that is needed does not answer now. Try again."
            return to_problem_response(
                ApiProblem(503, "try-again", detail, retry_after=str(max(1, round(wait or 1))))
            )
        case InvalidGrant():
            detail = "The mailbox must be connected again by its owner."
            return to_problem_response(ApiProblem(409, "connection-lost", detail))
        case OperatorError():
            log.warning("request.failed", error=error)
            detail = "Whoever runs this Postroom must act; the log says how."
            return to_problem_response(ApiProblem(500, "operator", detail))
        case PermanentError():
            return to_problem_response(ApiProblem(409, "refused", _to_ascii(str(error))))
        case _:
            log.warning("request.failed", error=error)
            return to_problem_response(ApiProblem(500, "failed", "It is in the log."))
