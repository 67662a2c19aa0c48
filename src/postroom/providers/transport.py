"""The one way to call a provider: token, pace, retry, Retry-After, status to error. Knows no provider.

Short waits happen here, inside the call; a long one becomes a TransientError that carries it, so that the
work row waits instead of a connection.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, cast

import aiohttp
import msgspec

from postroom.errors import PermanentError, PostroomError, TransientError
from postroom.ports import TokenSource

ATTEMPTS: Final = 4
LONGEST_WAIT_SECONDS: Final = 10.0
LARGEST_ANSWER_BYTES: Final = 200 * 2**20


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `repeatable`: doing it twice does no more than doing it once."""

    method: str
    url: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    json: object = None
    form: Mapping[str, str] | None = None
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The decoded body; an answer cut short or not JSON at all may be whole the next time."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise TransientError("the provider's answer is not JSON") from error

    def told(self) -> dict[str, Any]:
        """The body of a refusal as an object; empty where it is HTML or broken, as front ends may answer."""
        try:
            found = msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


# What a status and body of this provider mean; None for success.
Refusal = Callable[[Answer], PostroomError | None]


class Pace:
    """How many calls of one mailbox may run at the same time."""

    def __init__(self, concurrent: int) -> None:
        self._turns = asyncio.Semaphore(concurrent)

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        async with self._turns:
            yield


class Transport:
    """Calls to one provider over one shared client."""

    def __init__(self, client: aiohttp.ClientSession, refusal: Refusal) -> None:
        self._client = client
        self._refusal = refusal

    async def send(
        self, call: Call, *, tokens: TokenSource | None = None, pace: Pace | None = None
    ) -> Answer:
        """The answer of success, or the error of ours that says who must act."""
        token = await tokens.current() if tokens else None
        refreshed = False
        attempt = 1
        while True:
            headers = dict(call.headers) | (
                {"Authorization": f"Bearer {token.reveal()}"} if token is not None else {}
            )
            try:
                async with pace.turn() if pace else nullcontext():
                    answer = await self._request(call, headers)
                error = self._refusal(answer)
                if error is None:
                    return answer
                if answer.status == 401 and tokens is not None and token is not None and not refreshed:
                    token, refreshed = await tokens.instead_of(token), True
                    continue
            except TransientError as away:
                error = away
            await self._wait_or_raise(call, error, attempt)
            attempt += 1

    async def _request(self, call: Call, headers: Mapping[str, str]) -> Answer:
        if call.json is not None:
            headers = {**headers, "Content-Type": "application/json"}
        try:
            async with self._client.request(
                call.method,
                call.url,
                params=call.query or None,
                headers=headers,
                data=msgspec.json.encode(call.json) if call.json is not None else call.form,
                allow_redirects=False,
            ) as response:
                if (response.content_length or 0) > LARGEST_ANSWER_BYTES:
                    raise PermanentError("the provider's answer is larger than any that can be used")
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TransientError("the provider cannot be reached, or its answer was cut short") from error
        named = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, named, body)

    async def _wait_or_raise(self, call: Call, error: PostroomError, attempt: int) -> None:
        """Wait for another attempt, if one makes sense within this call."""
        if not isinstance(error, TransientError) or not call.repeatable or attempt >= ATTEMPTS:
            raise error
        wait = error.retry_after if error.retry_after is not None else 0.5 * 2 ** (attempt - 1)
        if wait > LONGEST_WAIT_SECONDS:
            raise error
        await asyncio.sleep(wait * random.uniform(1, 1.2))


@asynccontextmanager
async def open_client(*, certificate_authorities: str | None = None) -> AsyncGenerator[aiohttp.ClientSession]:
    """The HTTP client of this process. It follows no redirect and takes nothing from the environment."""
    import ssl

    context = ssl.create_default_context(cafile=certificate_authorities)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=200),
        timeout=aiohttp.ClientTimeout(total=120, sock_connect=10, sock_read=30),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    ) as client:
        yield client
