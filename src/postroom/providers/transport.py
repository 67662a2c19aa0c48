"""HTTP requests to a provider: access token, rate limit, retries, mapping of responses to our errors.

Also opens the HTTP client of the process. Knows no provider. Short waits happen here; a long one is raised as
a TransientError with `retry_after`, so that the work row waits and not a connection.
"""

import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from postroom import traces
from postroom.errors import (
    AccessDenied,
    InvalidGrant,
    PostroomError,
    ProviderServerError,
    ProviderUnreachable,
    RateLimited,
    ResponseTooLarge,
    TokenRejected,
    TransientError,
)
from postroom.model import Secret
from postroom.ports import TokenSource
from postroom.providers.rate_limit import Clock, MailboxRateLimit

MAX_ATTEMPTS: Final = 4
# The first replacement may be a token of another process, which may have expired as well.
MAX_TOKEN_REPLACEMENTS: Final = 2
MAX_WAIT_SECONDS: Final = 10.0
MAX_RESPONSE_BYTES: Final = 100 * 2**20
_MAX_ERROR_BYTES: Final = 2**20
_CHUNK_BYTES: Final = 2**16

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`url` is already percent-encoded. `repeatable`: sending it twice has the same effect as once.

    `units` and `width` say what it costs and how much of it runs at the same time at the provider.
    """

    method: str
    url: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    json: object = None
    form: Mapping[str, str] | None = None
    body: bytes | None = None
    repeatable: bool = True
    units: float = 1
    width: int = 1
    max_bytes: int = MAX_RESPONSE_BYTES


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The decoded body. A response that is cut off or not JSON is worth a retry."""
        return self.read(object)

    def read(self, shape: type[T]) -> T:
        try:
            return msgspec.json.decode(self.body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProviderServerError("The provider's response is not the expected JSON.") from error

    def error_body(self) -> dict[str, Any]:
        """The body of an error as an object; empty if it is not JSON: proxies return HTML."""
        try:
            found = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


# The error that a response of this provider means; None for success.
ErrorMapping = Callable[[HttpResponse], PostroomError | None]


@dataclass
class _CallAttempts:
    """The attempts of one request so far."""

    token: Secret | None
    made: int = 1
    replaced: int = 0


class Transport:
    """Sends requests to one provider through the shared HTTP client."""

    def __init__(
        self, client: aiohttp.ClientSession, to_error: ErrorMapping, clock: Clock | None = None
    ) -> None:
        self._client = client
        self._to_error = to_error
        self._clock = clock or Clock()

    async def send(
        self,
        request: HttpRequest,
        *,
        tokens: TokenSource | None = None,
        rate_limit: MailboxRateLimit | None = None,
    ) -> HttpResponse:
        """The response if it is a success. Raises the error that its mapping returns otherwise."""
        return await self.read(request, lambda response: response, tokens=tokens, rate_limit=rate_limit)

    async def read(
        self,
        request: HttpRequest,
        use: Callable[[HttpResponse], T],
        *,
        tokens: TokenSource | None = None,
        rate_limit: MailboxRateLimit | None = None,
    ) -> T:
        """The result of `use` for the response. If it raises TransientError, the request is repeated."""
        attempts = _CallAttempts(await tokens.get_token() if tokens else None)
        while True:
            try:
                response = await self._send_once(request, attempts.token, rate_limit)
                error = self._to_error(response)
                if error is None:
                    used = use(response)
                    if rate_limit:
                        rate_limit.record_success()
                    return used
            except TransientError as transient:
                error = transient
            await self._wait_or_raise(request, error, attempts, tokens, rate_limit)

    async def attempt(
        self,
        request: HttpRequest,
        *,
        tokens: TokenSource | None = None,
        rate_limit: MailboxRateLimit | None = None,
    ) -> HttpResponse:
        """A response of any status; the caller decides about retries.

        A rejected token is replaced, and one that covers less than a newer consent.
        """
        token = await tokens.get_token() if tokens else None
        response = await self._send_once(request, token, rate_limit)
        for _ in range(MAX_TOKEN_REPLACEMENTS):
            if response.status == 401 and tokens and token:
                token = await tokens.replace_rejected(token)
                response = await self._send_once(request, token, rate_limit)
        if tokens and token and isinstance(self._to_error(response), AccessDenied):
            newer = await tokens.find_newer(token)
            return await self._send_once(request, newer, rate_limit) if newer else response
        return response

    async def _send_once(
        self, request: HttpRequest, token: Secret | None, rate_limit: MailboxRateLimit | None
    ) -> HttpResponse:
        async with _rate_limited(rate_limit, request):
            with traces.span("provider call", {"http.request.method": request.method}, kind="CLIENT"):
                async with self._open(request, token) as response:
                    traces.set_attributes({"http.response.status_code": response.status})
                    return await _read_body(response, request.max_bytes)

    async def stream(
        self,
        request: HttpRequest,
        *,
        tokens: TokenSource | None = None,
        rate_limit: MailboxRateLimit | None = None,
    ) -> AsyncGenerator[bytes]:
        """The body in chunks. Once a chunk was yielded, an interruption is raised: no retry could resume."""
        attempts = _CallAttempts(await tokens.get_token() if tokens else None)
        while True:
            begun = False
            try:
                async with (
                    _rate_limited(rate_limit, request),
                    self._open(request, attempts.token) as response,
                ):
                    if response.status < 300:
                        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                            begun = True
                            yield chunk
                        return
                    error = self._to_error(await _read_body(response, _MAX_ERROR_BYTES))
            except TransientError as transient:
                error = transient
                if begun:
                    raise
            await self._wait_or_raise(request, error, attempts, tokens, rate_limit)

    @asynccontextmanager
    async def _open(
        self, request: HttpRequest, token: Secret | None
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        headers = dict(request.headers)
        if token is not None:
            headers["Authorization"] = f"Bearer {token.reveal()}"
        body: object = request.body if request.body is not None else request.form
        if request.json is not None:
            headers["Content-Type"] = "application/json"
            body = msgspec.json.encode(request.json)
        url = f"{request.url}?{urlencode(request.query)}" if request.query else request.url
        try:
            async with self._client.request(
                request.method, URL(url, encoded=True), headers=headers, data=body, allow_redirects=False
            ) as response:
                yield response
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise ProviderUnreachable(
                "The provider cannot be reached, or its response was cut off."
            ) from error

    async def _wait_or_raise(
        self,
        request: HttpRequest,
        error: PostroomError | None,
        attempts: _CallAttempts,
        tokens: TokenSource | None,
        rate_limit: MailboxRateLimit | None,
    ) -> None:
        """Wait before the next attempt, or raise if there is none. A rejected token is replaced."""
        if error is None:
            error = ProviderServerError("The provider returned a redirect.")
        if (
            isinstance(error, TokenRejected | InvalidGrant)
            and tokens
            and attempts.token
            and attempts.replaced < MAX_TOKEN_REPLACEMENTS
        ):
            attempts.token = await tokens.replace_rejected(attempts.token)
            attempts.replaced += 1
            return
        if isinstance(error, AccessDenied) and tokens and attempts.token:
            newer = await tokens.find_newer(attempts.token)
            if newer:
                attempts.token = newer
                return
        if rate_limit and isinstance(error, RateLimited):
            rate_limit.record_throttling(error)
        may_repeat = request.repeatable and attempts.made < MAX_ATTEMPTS
        if isinstance(error, TokenRejected) or not isinstance(error, TransientError) or not may_repeat:
            raise error
        wait = error.retry_after if error.retry_after is not None else 0.5 * 2 ** (attempts.made - 1)
        if wait > MAX_WAIT_SECONDS:
            raise error
        attempts.made += 1
        await self._clock.sleep(wait * random.uniform(1, 1.2))


def _rate_limited(
    rate_limit: MailboxRateLimit | None, request: HttpRequest
) -> AbstractAsyncContextManager[None]:
    return rate_limit.acquire(request.units, request.width) if rate_limit else nullcontext()


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> HttpResponse:
    """The whole response. Raises as soon as it turns out to be too large."""
    whole = BytesIO()  # joining a list of chunks would need twice the memory
    left = max_bytes
    if (response.content_length or 0) <= max_bytes:
        async for chunk in response.content.iter_any():
            left -= len(chunk)
            if left < 0:
                break
            whole.write(chunk)
    if left < 0 or (response.content_length or 0) > max_bytes:
        response.close()
        raise ResponseTooLarge("the provider's response exceeds the size limit")
    headers_by_name = {name.lower(): value for name, value in response.headers.items()}
    return HttpResponse(response.status, headers_by_name, whole.getvalue())


@asynccontextmanager
async def open_client(
    *, certificate_authorities: str | None = None, read_seconds: float = 30
) -> AsyncGenerator[aiohttp.ClientSession]:
    """The HTTP client of this process. It follows no redirects and ignores proxy environment variables.

    `read_seconds` limits the time between two chunks of a response.
    """
    import ssl

    context = ssl.create_default_context(cafile=certificate_authorities)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=200),
        timeout=aiohttp.ClientTimeout(total=600, sock_connect=10, sock_read=read_seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    ) as client:
        yield client
