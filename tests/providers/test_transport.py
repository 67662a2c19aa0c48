"""Y8: a wait that a provider requests is respected, also where no rate limit knows the mailbox."""

from contextlib import asynccontextmanager

import pytest

from postroom.errors import ProviderServerError, ProviderUnreachable, RateLimited, TransientError
from postroom.providers.gmail import wire as gmail_wire
from postroom.providers.graph import wire as graph_wire
from postroom.providers.rate_limit import Clock
from postroom.providers.transport import HttpRequest, Transport, open_client
from stream_server import listen


@asynccontextmanager
async def answering(*answers: bytes):
    """The URL of a server that gives these answers, one per connection, and repeats the last one."""
    left = list(answers)

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    async with listen(answer) as port:
        yield f"http://127.0.0.1:{port}"


def response(status: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Length: 2", "Connection: close", *headers, "", "{}"]
    return "\r\n".join(lines).encode()


async def send(url: str, to_error, waits: list[float]):
    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with open_client() as client:
        return await Transport(client, to_error, Clock(sleep=sleep)).send(HttpRequest("GET", url))


MAPPINGS = pytest.mark.parametrize(
    "to_error",
    [graph_wire.to_error, graph_wire.to_token_error, gmail_wire.to_error],
    ids=["Graph", "Entra", "Gmail"],
)


@MAPPINGS
async def test_the_requested_wait_is_respected(to_error):
    waits: list[float] = []
    throttled = response("429 Too Many Requests", "Retry-After: 7")
    async with answering(throttled, response("200 OK")) as url:
        assert (await send(url, to_error, waits)).status == 200
    assert len(waits) == 1
    assert 7 <= waits[0] <= 8.4


@MAPPINGS
async def test_a_long_requested_wait_is_left_to_the_caller(to_error):
    waits: list[float] = []
    async with answering(response("429 Too Many Requests", "Retry-After: 60")) as url:
        with pytest.raises(RateLimited) as caught:
            await send(url, to_error, waits)
    assert (caught.value.retry_after, waits) == (60, [])


@pytest.mark.parametrize("to_error", [graph_wire.to_error, gmail_wire.to_error], ids=["Graph", "Gmail"])
@pytest.mark.parametrize(
    "answer, error",
    [(response("500 Oops"), ProviderServerError), (b"HTTP/1.1 200 OK\r\nContent-Le", ProviderUnreachable)],
    ids=["server error", "cut off"],
)
async def test_trouble_of_the_provider_is_distinguished(to_error, answer, error):
    async with answering(answer) as url:
        with pytest.raises(TransientError) as caught:
            await send(url, to_error, [])
    assert type(caught.value) is error
