"""Slow clients and clients with many connections are dropped, and others are served meanwhile."""

import asyncio
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network

import pytest
import uvicorn

from postroom.web import connection_limits, server
from postroom.web.client_address import group_address
from postroom.web.connection_limits import ConnectionLimits
from postroom.web.push_admission import PushAdmission, build_protocol

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
# Longer than any test may take: a limit that must not be reached.
NEVER = 600.0


async def respond(scope, receive, send):
    """Read the body, then answer with as many bytes as the path says."""
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        pass
    body = b"x" * int(scope["path"].strip("/") or 0)
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer_early(scope, receive, send):
    """Answer without waiting for the body, as every rejection does."""
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


def build_limits(**given) -> ConnectionLimits:
    return ConnectionLimits(
        **({"header_seconds": NEVER, "body_seconds": NEVER, "write_seconds": NEVER} | given)
    )


@asynccontextmanager
async def serve(limits, application=respond):
    """A function that opens connections to a server with these limits."""
    opened = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        configuration = uvicorn.Config(
            application,
            http=build_protocol(PushAdmission(), limits),
            log_config=None,
            lifespan="off",
            ws="none",
            timeout_keep_alive=NEVER,
        )
        serving = uvicorn.Server(configuration)
        running = asyncio.create_task(serving.serve(sockets=[listening]))

        async def connect(source="127.0.0.1", **options):
            opened.append(
                await asyncio.open_connection(*listening.getsockname(), local_addr=(source, 0), **options)
            )
            return opened[-1]

        try:
            yield connect
        finally:
            for _, writer in opened:
                writer.transport.abort()
            serving.should_exit = True
            await running


async def read_end(connection) -> bytes:
    """Everything up to the end of the connection, which the server must cause.

    A reset can destroy a response that is still on its way: it follows if we send to a closed connection.
    """
    found = b""
    async with asyncio.timeout(60):
        with suppress(ConnectionResetError):
            while chunk := await connection[0].read(65_536):
                found += chunk
    return found


async def ask(connection) -> int:
    reader, writer = connection
    writer.write(GET)
    return int((await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).split()[1])


async def drip(connection, data: bytes) -> bytes:
    """Send bytes one by one until the server ends the connection."""
    _, writer = connection
    ending = asyncio.create_task(read_end(connection))
    for byte in data:
        if ending.done():
            break
        writer.write(bytes([byte]))
        await asyncio.wait([ending], timeout=0.01)
    return await ending


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nA: "])
async def test_half_sent_headers_are_dropped_after_a_deadline(sent):
    async with serve(build_limits(header_seconds=0.2)) as connect:
        slow, other = await connect(), await connect()
        assert await ask(other) == 200
        slow[1].write(sent)
        assert (await read_end(slow)).startswith(b"HTTP/1.1 408 ")
        assert await ask(other) == 200, "an idle connection is not half a request"


async def test_pipelined_requests_beyond_the_limit_are_dropped():
    answering = asyncio.Event()

    async def wait(scope, receive, send):
        await answering.wait()
        await respond(scope, receive, send)

    async with serve(build_limits(), wait) as connect:
        greedy, other = await connect(), await connect()
        try:
            greedy[1].write(GET * 5000)
            assert (await read_end(greedy))[:12] in (b"HTTP/1.1 429", b"")
        finally:
            answering.set()
        other[1].write(GET * connection_limits.MAX_PIPELINED)
        for _ in range(connection_limits.MAX_PIPELINED):
            assert (await other[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_headers_that_drip_do_not_extend_their_deadline():
    async with serve(build_limits(header_seconds=0.3)) as connect:
        assert (await drip(await connect(), GET[:-2] + b"X: " + b"x" * 6000))[:12] in (b"HTTP/1.1 408", b"")


async def test_line_breaks_after_a_response_do_not_keep_a_connection():
    async with serve(build_limits(header_seconds=0.3)) as connect:
        connection = await connect()
        assert await ask(connection) == 200
        assert (await drip(connection, b"\r\n" * 3000))[:12] in (b"HTTP/1.1 408", b"")


async def test_body_that_drips_is_dropped():
    async with serve(build_limits(body_seconds=0.3)) as connect:
        connection = await connect()
        connection[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n")
        assert (await drip(connection, b"x" * 9000))[:12] in (b"HTTP/1.1 408", b"")


async def test_body_that_drips_after_its_rejection_is_dropped():
    async with serve(build_limits(body_seconds=0.3), answer_early) as connect:
        connection = await connect()
        connection[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n")
        assert (await drip(connection, b"x" * 9000)).startswith(b"HTTP/1.1 413 ")


async def test_large_body_may_take_many_periods(monkeypatch):
    monkeypatch.setattr(connection_limits, "BODY_BYTES", 100)
    async with serve(build_limits(body_seconds=0.2)) as connect:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\n\r\n")
        for _ in range(50):  # together one second, five periods
            writer.write(b"x" * 400)
            await asyncio.sleep(0.02)
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).startswith(b"HTTP/1.1 200 ")


async def test_endless_headers_are_cut():
    async with serve(build_limits()) as connect:
        connection = await connect()
        connection[1].write(b"GET / HTTP/1.1\r\nX: ")
        ending = asyncio.create_task(read_end(connection))
        for _ in range(1000):
            connection[1].write(b"x" * 16384)
            await asyncio.wait([ending], timeout=0.01)
            if ending.done():
                break
        assert (await ending)[:12] in (b"HTTP/1.1 431", b"")
        assert await ask(await connect()) == 200


async def test_the_web_process_applies_the_limits():
    stop = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stopping = asyncio.create_task(wait_for(stop))
        running = asyncio.create_task(
            server.run_server(respond, listening, stop_seconds=1, stop_after=stopping)
        )
        connection = await asyncio.open_connection(*listening.getsockname())
        connection[1].write(b"GET / HTTP/1.1\r\nX: " + b"x" * 500_000)
        assert (await read_end(connection))[:12] in (b"HTTP/1.1 431", b"")
        connection[1].close()
        stop.set()
        await running


async def wait_for(event: asyncio.Event) -> None:
    await event.wait()


async def test_client_that_does_not_read_its_response_is_dropped():
    limits = build_limits(write_seconds=0.3)
    async with serve(limits) as connect:
        _, writer = await connect(limit=1024)
        writer.transport.pause_reading()
        writer.write(b"GET /50000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(60):
            while limits.connections:  # noqa: ASYNC110  the limits have no event
                await asyncio.sleep(0.02)


async def test_one_client_cannot_take_all_connections():
    async with serve(build_limits(max_per_client=5)) as connect:
        held = [await connect("127.0.0.2") for _ in range(5)]
        for connection in held:
            connection[1].write(b"GET / HT")
        assert (await read_end(await connect("127.0.0.2"))).startswith(b"HTTP/1.1 429 ")
        assert await ask(await connect("127.0.0.3")) == 200
        held[0][1].write(GET[8:])
        assert (await held[0][0].readline()).startswith(b"HTTP/1.1 200 ")
        held[0][1].close()
        async with asyncio.timeout(60):
            while await ask_or_fail(await connect("127.0.0.2")) != 200:
                pass


async def ask_or_fail(connection) -> int:
    try:
        return await ask(connection)
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0


async def test_trusted_proxy_has_no_limit_of_its_own():
    limits = build_limits(max_per_client=1, exempt=(ip_network("127.0.0.2/32"),))
    async with serve(limits) as connect:
        for _ in range(3):
            assert await ask(await connect("127.0.0.2")) == 200


async def test_connections_in_all_leave_room_for_files():
    async with serve(build_limits(max_connections=3)) as connect:
        held = [await connect() for _ in range(3)]
        assert await ask(held[2]) == 200
        assert (await read_end(await connect())).startswith(b"HTTP/1.1 503 ")
    assert 0 < connection_limits.compute_max_connections() < connection_limits.MAX_FILES + 1


def test_serving_raises_the_limit_of_open_files():
    script = (
        "import resource as r; hard = r.getrlimit(r.RLIMIT_NOFILE)[1];"
        "r.setrlimit(r.RLIMIT_NOFILE, (128, hard));"
        "from postroom.web import connection_limits as c; c.raise_file_limit();"
        "print(r.getrlimit(r.RLIMIT_NOFILE)[0] == min(hard if hard > 0 else c.MAX_FILES, c.MAX_FILES))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"True\n"


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("unknown", "unknown", True),
    ],
)
def test_limits_count_ipv4_addresses_and_ipv6_networks(one, other, same):
    assert (group_address(one) == group_address(other)) is same
