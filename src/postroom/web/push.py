"""Endpoints for the providers' pushes: validation handshake, limits, response after one durable write.

Also refreshes the providers' signing keys in the background.

Plain ASGI without the framework's request objects, because this is the hot path. The content of a push is
never logged. It is verified and parsed by the provider's adapter and stored by `flow.mail.push`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes
from uuid import UUID

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from postroom import traces
from postroom.errors import PostroomError, PushRejected, PushUnverifiable, TransientError
from postroom.flow.mail.push import PushReceiver, ReceivedPush
from postroom.flow.mail.push_rejections import PushRejections
from postroom.logs import Log
from postroom.model import OrganizationId, ProviderName, SubscriptionId
from postroom.ports import Provider, PushReader, PushRequest
from postroom.store.database import Database
from postroom.web.push_admission import MAX_WAIT_SECONDS, WAITING_SINCE
from postroom.web.throttle import Throttle

MAX_VALIDATION_TOKEN: Final = 4096
BODY_SECONDS: Final = 5
RETRY_SECONDS: Final = 5
KEY_REFRESH_SECONDS: Final = 3600
KEY_RETRY_SECONDS: Final = 10
# Pushes with at least this many commas, and so perhaps as many items, are verified one at a time: the source
# of a flood is blocked after the first, and other requests are answered in between.
LARGE_PUSH_COMMAS: Final = 100
# Each item of a real push has more commas. A push that cannot be read is charged by them.
COMMAS_PER_ITEM: Final = 10

log = Log()


@dataclass(frozen=True)
class PushEndpointRules:
    """Paths, status codes and limits of one provider's endpoint."""

    paths: Sequence[str]
    accepted: int
    rejected: int
    max_body: int
    has_handshake: bool = False


ENDPOINT_RULES: Final[Mapping[ProviderName, PushEndpointRules]] = {
    ProviderName.OUTLOOK: PushEndpointRules(
        (
            "/webhooks/outlook",
            "/webhooks/outlook/{subscription}",
            "/api/graph/notifications",
            "/api/graph/notifications/{subscription}",
            "/api/graph/lifecycle",
            "/api/graph/lifecycle/{subscription}",
        ),
        accepted=202,
        rejected=401,
        max_body=2**20,
        has_handshake=True,
    ),
    ProviderName.GMAIL: PushEndpointRules(("/webhooks/gmail",), accepted=200, rejected=403, max_body=2**16),
}


class _BodyTooLarge(Exception):  # raised and caught in this module only
    pass


class SigningKeyRefresher:
    """Refreshes a provider's signing keys in the background: at start, hourly, and when one is missing."""

    def __init__(self, reader: PushReader) -> None:
        self._reader = reader
        self._missing = asyncio.Event()

    def request_refresh(self) -> None:
        self._missing.set()

    async def run(self) -> None:
        while True:
            self._missing.clear()
            try:
                await self._reader.refresh_keys()
            except PostroomError as error:
                log.warning("push.key_refresh_failed", error=error)
                self._missing.set()
            await asyncio.sleep(KEY_RETRY_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(KEY_REFRESH_SECONDS):
                    await self._missing.wait()


class PushEndpoint:
    """The push endpoint of one provider, as an ASGI application."""

    def __init__(
        self,
        name: ProviderName,
        reader: PushReader,
        receiver: PushReceiver,
        throttle: Throttle,
        keys: SigningKeyRefresher,
    ) -> None:
        self._name = name
        self._rules = ENDPOINT_RULES[name]
        self._reader = reader
        self._receiver = receiver
        self._throttle = throttle
        self._keys = keys
        self._large_push = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["log_as_debug"] = True  # a flood of rejected pushes must not flood the log
        query: bytes = scope["query_string"]
        if self._rules.has_handshake and b"validationToken=" in query:
            await _echo_validation_token(query, send)
            return
        source: str = scope["client"][0] if scope.get("client") else "unknown"
        if self._throttle.is_blocked(source):
            await _respond(send, 429, retry_after=RETRY_SECONDS)
            return
        try:
            body = await _read_body(receive, scope, self._rules.max_body)
        except _BodyTooLarge:
            await _respond(send, 413, close=True)
            return
        except TimeoutError:
            await _respond(send, 408, close=True)
            return
        if body is not None:
            with traces.span("receive", {"postroom.provider": self._name}, kind="SERVER"):
                status, wait = await self._take_turn(scope, body, source)
                traces.set_attributes({"http.response.status_code": status})
            await _respond(send, status, retry_after=wait)

    async def _take_turn(self, scope: Scope, body: bytes, source: str) -> tuple[int, float | None]:
        if body.count(b",") < LARGE_PUSH_COMMAS:
            return await self._receive(scope, body, source)
        try:
            await asyncio.wait_for(self._large_push.acquire(), MAX_WAIT_SECONDS)
        except TimeoutError:
            return 503, RETRY_SECONDS
        try:
            return await self._receive(scope, body, source)
        finally:
            self._large_push.release()

    async def _receive(self, scope: Scope, body: bytes, source: str) -> tuple[int, float | None]:
        waiting_since: float = scope.get("state", {}).get(WAITING_SINCE) or time.monotonic()
        if waiting_since < time.monotonic() - MAX_WAIT_SECONDS:
            return 503, RETRY_SECONDS
        if self._throttle.is_blocked(source):  # by now: another push of this source was rejected meanwhile
            return 429, RETRY_SECONDS
        try:
            notifications = self._reader.read(_read_push(scope, body))
            push = ReceivedPush(
                self._name,
                _read_subscription_id(scope),
                source,
                notifications,
                traces.current_traceparent(),
                waiting_since,
            )
            verdict = await self._receiver.accept(push)
        except PushUnverifiable as error:
            # Charged as well: anyone can name a key that we do not know. Verified pushes restore the credit.
            self._throttle.record_rejection(source)
            self._keys.request_refresh()
            return 503, error.retry_after
        except PushRejected:
            self._throttle.record_rejection(source, 1 + body.count(b",") // COMMAS_PER_ITEM)
            self._receiver.count_rejected(self._name, source)
            return self._rules.rejected, None
        except PostroomError as error:
            wait = error.retry_after if isinstance(error, TransientError) else None
            return 503, wait or RETRY_SECONDS
        if verdict.rejected and not verdict.accepted:
            self._throttle.record_rejection(source, verdict.rejected)
            return self._rules.rejected, None
        self._throttle.record_success(source, verdict.accepted or 1)
        self._throttle.record_rejection(source, verdict.rejected)
        return self._rules.accepted, None


def _read_push(scope: Scope, body: bytes) -> PushRequest:
    authorization = next((value for name, value in scope["headers"] if name == b"authorization"), None)
    query: bytes = scope["query_string"]
    try:
        parameters = dict(parse_qsl(query.decode("latin-1"), max_num_fields=20)) if query else {}
    except ValueError as error:
        raise PushRejected("push URL has too many query parameters") from error
    return PushRequest(parameters, authorization.decode("latin-1") if authorization else None, body)


def _read_subscription_id(scope: Scope) -> SubscriptionId | None:
    segment = scope.get("path_params", {}).get("subscription")
    try:
        return SubscriptionId(UUID(segment)) if segment else None
    except ValueError:
        return None


async def _read_body(receive: Receive, scope: Scope, max_bytes: int) -> bytes | None:
    """Read the whole body up to the limit; None if the client disconnected."""
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    if length.isdigit() and (len(length) > 18 or int(length) > max_bytes):
        raise _BodyTooLarge
    async with asyncio.timeout(BODY_SECONDS):
        body = bytearray()
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if len(body) > max_bytes:
                raise _BodyTooLarge
            if not message.get("more_body"):
                return bytes(body)
    return None


async def _echo_validation_token(query: bytes, send: Send) -> None:
    """Echo the validation token as plain text. Graph sends no proof yet at this point."""
    parameter = next(part for part in query.split(b"&") if b"validationToken=" in part)
    token = unquote_to_bytes(parameter.partition(b"=")[2].replace(b"+", b" "))
    if len(token) > MAX_VALIDATION_TOKEN:
        await _respond(send, 414)
        return
    await _respond(send, 200, body=token)


async def _respond(
    send: Send,
    status: int,
    *,
    body: bytes = b"",
    retry_after: float | None = None,
    close: bool = False,
) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    if body:
        headers.append((b"content-type", b"text/plain; charset=utf-8"))
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, round(retry_after))))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def open_endpoints(
    database: Database, providers: Mapping[ProviderName, Provider], operator: OrganizationId
) -> AsyncGenerator[list[Route]]:
    """Open the push routes of the configured providers, with their background tasks.

    Rejected pushes that match no mailbox are recorded for the operator's organization.
    """
    rejections = PushRejections(database, operator)
    receiver, throttle = PushReceiver(database, rejections), Throttle()
    routes: list[Route] = []
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_run_in_background(rejections.run()))
        for name, provider in providers.items():
            keys = SigningKeyRefresher(provider.push)
            await stack.enter_async_context(_run_in_background(keys.run()))
            endpoint = PushEndpoint(name, provider.push, receiver, throttle, keys)
            routes += [Route(path, endpoint, methods=["POST"]) for path in ENDPOINT_RULES[name].paths]
        yield routes


@asynccontextmanager
async def _run_in_background(coroutine: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    task = asyncio.create_task(coroutine)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
