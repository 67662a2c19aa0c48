"""The one way to call a provider: token, pace, retry, Retry-After, status to error. Knows no provider.

Short waits happen here, inside the call; a long one becomes a TransientError that carries it, so that the
work row waits instead of a connection.
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
from postroom.errors import InvalidGrant, PostroomError, RateLimited, ResponseTooLarge, TransientError
from postroom.model import Secret
from postroom.ports import TokenSource
from postroom.providers.rate_limit import Clock, MailboxRateLimit

ATTEMPTS: Final = 4
# Instead of a token held here, another process's may be found, which may have ended too: then a fresh one.
REPLACEMENTS: Final = 2
LONGEST_WAIT_SECONDS: Final = 10.0
LARGEST_ANSWER_BYTES: Final = 100 * 2**20
_LARGEST_REFUSAL_BYTES: Final = 2**20
_PIECE_BYTES: Final = 2**16

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One request. `url` is percent-encoded already. `repeatable`: doing it twice does no more than once.

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
    largest: int = LARGEST_ANSWER_BYTES


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The decoded body; an answer cut short or not JSON at all may be whole the next time."""
        return self.read(object)

    def read(self, shape: type[T]) -> T:
        try:
            return msgspec.json.decode(self.body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TransientError("the provider's answer is not the JSON that was expected") from error

    def told(self) -> dict[str, Any]:
        """The body of a refusal as an object; empty where it is HTML or broken, as front ends may answer."""
        try:
            found = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


# What a status and body of this provider mean; None for success.
ErrorMapping = Callable[[HttpAnswer], PostroomError | None]


@dataclass
class _CallAttempts:
    """What one call has tried so far."""

    token: Secret | None
    made: int = 1
    replaced: int = 0


class Transport:
    """Calls to one provider over one shared client."""

    def __init__(
        self, client: aiohttp.ClientSession, refusal: ErrorMapping, clock: Clock | None = None
    ) -> None:
        self._client = client
        self.refusal = refusal
        self._clock = clock or Clock()

    async def send(
        self, call: HttpCall, *, tokens: TokenSource | None = None, pace: MailboxRateLimit | None = None
    ) -> HttpAnswer:
        """The answer of success, or the error of ours that says who must act."""
        return await self.read(call, lambda answer: answer, tokens=tokens, pace=pace)

    async def read(
        self,
        call: HttpCall,
        use: Callable[[HttpAnswer], T],
        *,
        tokens: TokenSource | None = None,
        pace: MailboxRateLimit | None = None,
    ) -> T:
        """What `use` makes of the answer; where it raises TransientError, the call is made again."""
        tried = _CallAttempts(await tokens.get_token() if tokens else None)
        while True:
            try:
                answer = await self._once(call, tried.token, pace)
                error = self.refusal(answer)
                if error is None:
                    used = use(answer)
                    if pace:
                        pace.accepted()
                    return used
            except TransientError as away:
                error = away
            await self._again_or_raise(call, error, tried, tokens, pace)

    async def attempt(
        self, call: HttpCall, *, tokens: TokenSource | None = None, pace: MailboxRateLimit | None = None
    ) -> HttpAnswer:
        """One answer of any status, for who decides about another attempt; a refused token is renewed."""
        token = await tokens.get_token() if tokens else None
        answer = await self._once(call, token, pace)
        for _ in range(REPLACEMENTS):
            if answer.status == 401 and tokens and token:
                token = await tokens.replace_rejected(token)
                answer = await self._once(call, token, pace)
        return answer

    async def _once(self, call: HttpCall, token: Secret | None, pace: MailboxRateLimit | None) -> HttpAnswer:
        async with _rate_limited(pace, call):
            with traces.span("provider call", {"http.request.method": call.method}, kind="CLIENT"):
                async with self._opened(call, token) as response:
                    traces.set_attributes({"http.response.status_code": response.status})
                    return await _read_body(response, call.largest)

    async def stream(
        self, call: HttpCall, *, tokens: TokenSource | None = None, pace: MailboxRateLimit | None = None
    ) -> AsyncGenerator[bytes]:
        """The body piece by piece. Once a piece was handed on, an interruption cannot be mended here."""
        tried = _CallAttempts(await tokens.get_token() if tokens else None)
        while True:
            begun = False
            try:
                async with _rate_limited(pace, call), self._opened(call, tried.token) as response:
                    if response.status < 300:
                        async for piece in response.content.iter_chunked(_PIECE_BYTES):
                            begun = True
                            yield piece
                        return
                    error = self.refusal(await _read_body(response, _LARGEST_REFUSAL_BYTES))
            except TransientError as away:
                error = away
                if begun:
                    raise
            await self._again_or_raise(call, error, tried, tokens, pace)

    @asynccontextmanager
    async def _opened(self, call: HttpCall, token: Secret | None) -> AsyncGenerator[aiohttp.ClientResponse]:
        headers = dict(call.headers)
        if token is not None:
            headers["Authorization"] = f"Bearer {token.reveal()}"
        body: object = call.body if call.body is not None else call.form
        if call.json is not None:
            headers["Content-Type"] = "application/json"
            body = msgspec.json.encode(call.json)
        url = f"{call.url}?{urlencode(call.query)}" if call.query else call.url
        try:
            async with self._client.request(
                call.method, URL(url, encoded=True), headers=headers, data=body, allow_redirects=False
            ) as response:
                yield response
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise TransientError("the provider cannot be reached, or its answer was cut short") from error

    async def _again_or_raise(
        self,
        call: HttpCall,
        error: PostroomError | None,
        tried: _CallAttempts,
        tokens: TokenSource | None,
        pace: MailboxRateLimit | None,
    ) -> None:
        """Wait for another attempt, if one makes sense within this call; a refused token is renewed."""
        if error is None:
            error = TransientError("the provider answered with a redirect")
        if isinstance(error, InvalidGrant) and tokens and tried.token and tried.replaced < REPLACEMENTS:
            tried.token = await tokens.replace_rejected(tried.token)
            tried.replaced += 1
            return
        if pace and isinstance(error, RateLimited):
            pace.refused(error)
        if not isinstance(error, TransientError) or not call.repeatable or tried.made >= ATTEMPTS:
            raise error
        wait = error.retry_after if error.retry_after is not None else 0.5 * 2 ** (tried.made - 1)
        if wait > LONGEST_WAIT_SECONDS:
            raise error
        tried.made += 1
        await self._clock.sleep(wait * random.uniform(1, 1.2))


def _rate_limited(pace: MailboxRateLimit | None, call: HttpCall) -> AbstractAsyncContextManager[None]:
    return pace.turn(call.units, call.width) if pace else nullcontext()


async def _read_body(response: aiohttp.ClientResponse, largest: int) -> HttpAnswer:
    """The answer as one piece; refused before it is read, or while it is, where that would be too large."""
    whole = BytesIO()  # whose value is the bytes it holds: joined pieces would be there twice
    left = largest
    if (response.content_length or 0) <= largest:
        async for piece in response.content.iter_any():
            left -= len(piece)
            if left < 0:
                break
            whole.write(piece)
    if left < 0 or (response.content_length or 0) > largest:
        response.close()
        raise ResponseTooLarge("the provider's answer is larger than any that can be used")
    named = {name.lower(): value for name, value in response.headers.items()}
    return HttpAnswer(response.status, named, whole.getvalue())


@asynccontextmanager
async def open_client(
    *, certificate_authorities: str | None = None, read_seconds: float = 30
) -> AsyncGenerator[aiohttp.ClientSession]:
    """The HTTP client of this process. It follows no redirect and takes nothing from the environment.

    An answer may take its time, but no longer than `read_seconds` between two pieces of it.
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
