"""Run an API operation: authentication, parsing, idempotency keys, ETags, problem responses.

The operations and their definition are in the other modules.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from postroom.api_types import FailedCheck
from postroom.documents.sandbox.file_limits import FILE_BYTES
from postroom.errors import (
    ChecksFailed,
    DatabaseUnavailable,
    InvalidGrant,
    OperatorError,
    PermanentError,
    PostroomError,
    TransientError,
)
from postroom.flow.access import api_keys
from postroom.logs import Log
from postroom.store import idempotency_keys
from postroom.vault import Sealer, sealed_values
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
MAX_RECORDED_CHARACTERS: Final = 1000


@dataclass(frozen=True)
class ApiHandler:
    """Runs operations and turns every error into a problem response."""

    context: ApiContext
    authenticator: ApiAuthenticator

    async def serve(self, operation: Operation, request: Request) -> Response:
        try:
            caller = await self.authenticator.identify(request)
            call, body = await self._admit(operation, request, caller)
            if caller.records_calls:
                await self._record_call(operation, request, caller)
            key = request.headers.get("idempotency-key") if operation.writes else None
            if key is not None:
                return await self._run_once(operation, call, key, body)
            return await _respond(operation, call)
        except ApiProblem as problem:
            return to_problem_response(problem)
        except PostroomError as error:
            return _to_error_response(error)
        except Exception as error:  # noqa: BLE001  clients get a problem document for every error
            log.error("request.failed", error=error)  # noqa: TRY400  our log takes the error itself, without its message
            return to_problem_response(
                ApiProblem(500, "internal-error", "Internal error. The server's log has the details.")
            )

    async def _admit(
        self, operation: Operation, request: Request, caller: ApiCaller
    ) -> tuple[ApiCall[Any, Any, Any], bytes]:
        """Check and parse a call. The rejection of a recorded key is recorded too."""
        was_over_limit = self.authenticator.is_over_limit(caller)
        try:
            self.authenticator.admit(caller, operation.scope)
            body = await _read_body(request, operation) if operation.writes else b""
            return _parse_call(self.context, caller, operation, request, body), body
        except ApiProblem as problem:
            # Of rate-limited calls in a row only the first, or a loop would fill the ledger.
            if caller.records_calls and not (was_over_limit and problem.status == 429):
                await self._record_call(operation, request, caller, rejection=problem.kind)
            raise

    async def _record_call(
        self, operation: Operation, request: Request, caller: ApiCaller, *, rejection: str | None = None
    ) -> None:
        """Record the call in the ledger. Without the record, it is not executed."""
        await api_keys.record_call(
            self.context.connect.database,
            caller.organization,
            caller.actor,
            f"{operation.method} {operation.path}",
            path=_to_recorded_values(request.path_params),
            query=_to_recorded_values(request.query_params),
            rejection=rejection,
        )

    async def _run_once(
        self, operation: Operation, call: ApiCall[Any, Any, Any], key: str, body: bytes
    ) -> Response:
        """Run a write once: the same key with the same request gets the stored response."""
        if not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY_LENGTH or not key.isprintable():
            raise ApiProblem(400, "bad-request", "Idempotency-Key must have 1 to 200 printable characters.")
        actor = call.caller.actor
        target = f"{call.request.method} {call.request.url.path}?{call.request.url.query}\n"
        digest = sha256(target.encode() + (b"" if operation.secret_body else body)).digest()
        async with call.transaction() as connection:
            stored = await idempotency_keys.begin(connection, actor, key, digest)
        sealer, purpose = call.context.connect.sealer, f"idempotency/{call.caller.organization}/{actor}/{key}"
        if stored is not None:
            return _replay_response(stored, digest, sealer, purpose)
        try:
            response = await _respond(operation, call)
        except (ApiProblem, PostroomError) as refusal:
            # After a lost database connection the write may have been committed, so the key stays in use.
            if not isinstance(refusal, DatabaseUnavailable):
                async with call.transaction() as connection:
                    await idempotency_keys.release(connection, actor, key)
            raise
        # Sealed, because a response may contain a secret that is shown only once.
        kept = sealed_values.seal(sealer, purpose, bytes(response.body), idempotency_keys.KEPT_HOURS * 3600)
        async with call.transaction() as connection:
            await idempotency_keys.store_response(connection, actor, key, response.status_code, kept.encode())
        return response


def _replay_response(
    stored: idempotency_keys.IdempotentRequest, digest: bytes, sealer: Sealer, purpose: str
) -> Response:
    if stored.request_sha256 != digest:
        raise ApiProblem(
            422, "key-reused", "This idempotency key was used with a different request. Use a new key."
        )
    if stored.is_abandoned:
        raise ApiProblem(
            409,
            "outcome-unknown",
            "The first request with this idempotency key was interrupted, so its outcome is unknown. Check "
            "whether it took effect; if not, send it again with a new key.",
        )
    if stored.status is None:
        raise ApiProblem(
            409,
            "in-progress",
            "The first request with this idempotency key is still running.",
            retry_after="1",
        )
    body = sealed_values.unseal(sealer, purpose, (stored.body or b"").decode())
    if body is None:
        raise ApiProblem(
            409, "completed", "This request already succeeded, but its response is no longer stored."
        )
    headers = {"idempotent-replay": "true"}
    return Response(body, stored.status, headers, media_type="application/json" if body else None)


def _to_recorded_values(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Values of limited length, without NUL, which the database cannot store."""
    return {
        name.replace("\0", " ")[:MAX_RECORDED_CHARACTERS]: str(value).replace("\0", " ")[
            :MAX_RECORDED_CHARACTERS
        ]
        for name, value in parameters.items()
    }


async def _respond(operation: Operation, call: ApiCall[Any, Any, Any]) -> Response:
    result = await operation.call(call)
    if isinstance(result, Response):
        return result
    if result is None:
        return Response(status_code=204)
    body = msgspec.json.encode(result)
    etag = http_content.compute_etag(result, body)
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
        # A malformed ID cannot belong to anything.
        raise ApiProblem(404, "not-found", "Not found. The ID is malformed.") from None
    try:
        query = msgspec.convert(dict(request.query_params), query_type, strict=False)
        parsed_body = _parse_body(body, body_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiProblem(400, "bad-request", f"Invalid request: {_to_ascii(str(error))}") from None
    return ApiCall(context, caller, request, path, query, parsed_body)


def _parse_body(body: bytes, kind: type[Any]) -> Any:
    if kind is type(None):
        return None
    return body if kind is bytes else msgspec.json.decode(body or b"{}", type=kind)


async def _read_body(request: Request, operation: Operation) -> bytes:
    max_bytes = MAX_FILE_BYTES if operation.body == "file" else MAX_BODY_BYTES
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise ApiProblem(413, "too-large", f"The request body exceeds {max_bytes:,} bytes.")
    return bytes(body)


def _to_ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()[:300]


def to_problem_response(problem: ApiProblem) -> Response:
    """Build a problem document (RFC 9457)."""
    body: dict[str, Any] = {
        "type": f"urn:postroom:problem:{problem.kind}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
    }
    if problem.failed_checks:
        body["checks"] = [FailedCheck(name, words) for name, words in problem.failed_checks]
    headers = {name.replace("_", "-"): value for name, value in problem.headers.items()}
    return Response(msgspec.json.encode(body), problem.status, headers, media_type="application/problem+json")


def _to_error_response(error: PostroomError) -> Response:
    """Map an operation's error to a response. Only permanent errors show their message to the caller."""
    match error:
        case DatabaseUnavailable() | TransientError():
            wait = error.retry_after if isinstance(error, TransientError) else None
            detail = "The database or the mail provider is busy or temporarily unavailable. Retry later."
            return to_problem_response(
                ApiProblem(503, "try-again", detail, retry_after=str(max(1, round(wait or 1))))
            )
        case InvalidGrant():
            detail = "The mailbox's grant has expired or was revoked. Its owner must reconnect it."
            return to_problem_response(ApiProblem(409, "connection-lost", detail))
        case OperatorError():
            log.warning("request.failed", error=error)
            detail = "The operator of this Postroom must act. The server's log says how."
            return to_problem_response(ApiProblem(500, "operator", detail))
        case ChecksFailed():
            detail = f"{error} To override a check, put its name in `override`."
            return to_problem_response(ApiProblem(409, "checks-failed", detail, failed_checks=error.checks))
        case PermanentError():
            return to_problem_response(ApiProblem(409, "refused", _to_ascii(str(error))))
        case _:
            log.warning("request.failed", error=error)
            return to_problem_response(
                ApiProblem(500, "internal-error", "Internal error. The server's log has the details.")
            )
