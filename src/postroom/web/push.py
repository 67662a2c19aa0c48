"""Where providers push to: the handshake, the limits, and an answer after one durable write (N1 to N7).

Plain ASGI, without the framework's request objects: this is the one place with a load of its own. Nothing
of a push is logged; what was refused is counted elsewhere.
"""

import asyncio
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
from postroom.flow.mail.push import Arrival, Ingress
from postroom.flow.mail.push_rejections import Refusals
from postroom.logs import Log
from postroom.model import OrganizationId, ProviderName, SubscriptionId
from postroom.ports import Provider, PushReader, PushRequest
from postroom.store.database import Database
from postroom.web.throttle import Throttle

MAX_VALIDATION_TOKEN: Final = 4096
BODY_SECONDS: Final = 5
RETRY_SECONDS: Final = 5
KEY_REFRESH_SECONDS: Final = 3600
KEY_RETRY_SECONDS: Final = 10

log = Log()


@dataclass(frozen=True)
class PushEndpointRules:
    """How one provider is answered."""

    paths: Sequence[str]
    accepted: int
    refused: int
    largest_body: int
    handshake: bool = False


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
        refused=401,
        largest_body=2**20,
        handshake=True,
    ),
    ProviderName.GMAIL: PushEndpointRules(
        ("/webhooks/gmail",), accepted=200, refused=403, largest_body=2**16
    ),
}


class _BodyTooLarge(Exception):  # said within this file alone
    pass


class SigningKeyRefresher:
    """A provider's signing keys: fetched in the background, at first, hourly, and when one is missing."""

    def __init__(self, reader: PushReader) -> None:
        self._reader = reader
        self._missing = asyncio.Event()

    def ask(self) -> None:
        self._missing.set()

    async def keep(self) -> None:
        while True:
            self._missing.clear()
            try:
                await self._reader.refresh_keys()
            except PostroomError as error:
                log.warning("push.keys_not_fetched", error=error)
                self._missing.set()
            await asyncio.sleep(KEY_RETRY_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(KEY_REFRESH_SECONDS):
                    await self._missing.wait()


class PushEndpoint:
    """One provider's pushes, as an ASGI application."""

    def __init__(
        self,
        name: ProviderName,
        reader: PushReader,
        ingress: Ingress,
        throttle: Throttle,
        keys: SigningKeyRefresher,
    ) -> None:
        self._name = name
        self._manner = ENDPOINT_RULES[name]
        self._reader = reader
        self._ingress = ingress
        self._throttle = throttle
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["counted"] = True  # refusals come by the thousand: they get no log line each
        query: bytes = scope["query_string"]
        if self._manner.handshake and b"validationToken=" in query:
            await _echo_validation_token(query, send)
            return
        source: str = scope["client"][0] if scope.get("client") else "unknown"
        if self._throttle.shuts_out(source):
            await _respond(send, 429, retry_after=RETRY_SECONDS)
            return
        try:
            body = await _read_body(receive, scope, self._manner.largest_body)
        except _BodyTooLarge:
            await _respond(send, 413, close=True)
            return
        except TimeoutError:
            await _respond(send, 408, close=True)
            return
        if body is not None:
            with traces.span("receive", {"postroom.provider": self._name}, kind="SERVER"):
                status, wait = await self._status(scope, body, source)
                traces.set_attributes({"http.response.status_code": status})
            await _respond(send, status, retry_after=wait)

    async def _status(self, scope: Scope, body: bytes, source: str) -> tuple[int, float | None]:
        try:
            notices = self._reader.read(_read_push(scope, body))
            arrival = Arrival(
                self._name, _read_subscription_id(scope), source, notices, traces.current_traceparent()
            )
            verdict = await self._ingress.accept(arrival)
        except PushUnverifiable as error:
            self._keys.ask()
            return 503, error.retry_after
        except PushRejected:
            self._throttle.refused(source)
            self._ingress.refused(self._name, source)
            return self._manner.refused, None
        except PostroomError as error:
            wait = error.retry_after if isinstance(error, TransientError) else None
            return 503, wait or RETRY_SECONDS
        if verdict.wrong and not verdict.right:
            self._throttle.refused(source)
            return self._manner.refused, None
        self._throttle.right(source)
        return self._manner.accepted, None


def _read_push(scope: Scope, body: bytes) -> PushRequest:
    authorization = next((value for name, value in scope["headers"] if name == b"authorization"), None)
    query: bytes = scope["query_string"]
    try:
        asked = dict(parse_qsl(query.decode("latin-1"), max_num_fields=20)) if query else {}
    except ValueError as error:
        raise PushRejected("the address of a push asks too much") from error
    return PushRequest(asked, authorization.decode("latin-1") if authorization else None, body)


def _read_subscription_id(scope: Scope) -> SubscriptionId | None:
    named = scope.get("path_params", {}).get("subscription")
    try:
        return SubscriptionId(UUID(named)) if named else None
    except ValueError:
        return None


async def _read_body(receive: Receive, scope: Scope, largest: int) -> bytes | None:
    """The whole body, never more than the limit of it; None when the client is gone."""
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    if length.isdigit() and (len(length) > 18 or int(length) > largest):
        raise _BodyTooLarge
    async with asyncio.timeout(BODY_SECONDS):
        read = bytearray()
        while (message := await receive())["type"] == "http.request":
            read += message.get("body", b"")
            if len(read) > largest:
                raise _BodyTooLarge
            if not message.get("more_body"):
                return bytes(read)
    return None


async def _echo_validation_token(query: bytes, send: Send) -> None:
    """Echo the token, decoded once, as plain text (N2): before any proof, since there is none yet."""
    given = next(part for part in query.split(b"&") if b"validationToken=" in part)
    token = unquote_to_bytes(given.partition(b"=")[2].replace(b"+", b" "))
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
    """The routes of the providers that are configured, and what runs beside them while they are open.

    The operator's organization hears of pushes that concern nobody.
    """
    refusals = Refusals(database, operator)
    ingress, throttle = Ingress(database, refusals), Throttle()
    routes: list[Route] = []
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_run_in_background(refusals.keep()))
        for name, provider in providers.items():
            keys = SigningKeyRefresher(provider.push)
            await stack.enter_async_context(_run_in_background(keys.keep()))
            webhook = PushEndpoint(name, provider.push, ingress, throttle, keys)
            routes += [Route(path, webhook, methods=["POST"]) for path in ENDPOINT_RULES[name].paths]
        yield routes


@asynccontextmanager
async def _run_in_background(work: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
