"""From a commit to a client: 1,000 server-sent event streams at 50 events a second, beside a bare server.

The bare server is the least that could do it: Starlette, a queue for each client, fed by the payload of the
same kind of NOTIFY, with no feed behind it: nothing is numbered, kept or resumed. Each server runs
in a process of its own; the clients are another process, the writer is this one. Prints the 99th percentiles
and their ratio, ours to the bare one's, which should be at most 1.5.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import uvloop

CLIENTS, PER_SECOND, SECONDS, WARM_SECONDS = 1000, 50, 15, 3
ORGANIZATION = UUID(int=7)


# The servers.


def serve_ours(url: str, announce: Connection) -> None:
    from ledger_key import ENTRY_MACS
    from postroom import logs
    from postroom.flow.access import members, sign_in
    from postroom.model import OrganizationId, Role, parse_sealing_keys
    from postroom.store.database import open_database
    from postroom.vault import ConfiguredKeys, Sealer
    from postroom.web import app, event_stream, server
    from postroom.web.sessions import SiteContext

    async def run() -> None:
        async with open_database(url, pool_size=10, name="postroom web", entry_macs=ENTRY_MACS) as database:
            organization = OrganizationId(ORGANIZATION)
            member = await members.add(database, organization, "ann@example.org", role=Role.READER)
            token = await sign_in.create_link(database, member)
            session = await sign_in.sign_in_by_link(database, token, seconds=3600)
            sealer = Sealer(ConfiguredKeys(parse_sealing_keys(["one:" + "A" * 43 + "="])))
            async with event_stream.open_streams(database) as streams:
                site = SiteContext(database, organization, "http://127.0.0.1", sealer)
                application = app.create(site, routes=event_stream.routes(site, streams))
                with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
                    announce.send((listening.getsockname()[1], session.session.reveal()))
                    await server.run_server(application, listening, stop_seconds=1, on_stop=streams.close)

    _many_files()
    logs.configure("web")
    uvloop.run(run())


def serve_bare(url: str, announce: Connection) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import StreamingResponse
    from starlette.routing import Route

    queues: set[asyncio.Queue[bytes]] = set()

    async def events(_request: Request) -> StreamingResponse:
        async def stream() -> AsyncGenerator[bytes]:
            queue: asyncio.Queue[bytes] = asyncio.Queue()
            queues.add(queue)
            try:
                yield b"id: 0\n\n"
                while True:
                    yield await queue.get()
            finally:
                queues.discard(queue)

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def listen() -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute("LISTEN bare")
            async for notification in connection.notifies():
                chunk = f"data: {notification.payload}\n\n".encode()
                for queue in queues:
                    queue.put_nowait(chunk)

    async def run() -> None:
        listening_task = asyncio.create_task(listen())
        with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
            announce.send((listening.getsockname()[1], ""))
            configuration = uvicorn.Config(
                Starlette(routes=[Route("/events", events)]), log_config=None, lifespan="off"
            )
            await uvicorn.Server(configuration).serve(sockets=[listening])
        listening_task.cancel()

    _many_files()
    uvloop.run(run())


# The clients.


def follow(port: int, session: str, ready: Event, go: Event, results: Connection) -> None:
    async def run() -> None:
        latencies: list[float] = []
        since = [float("inf")]
        began = asyncio.Semaphore(0)
        request = (
            f"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: postroom_session={session}\r\n\r\n"
        ).encode()
        loop = asyncio.get_running_loop()
        for number in range(CLIENTS):
            await loop.create_connection(lambda: Marked(request, latencies, since, began), "127.0.0.1", port)
            if number % 50 == 49:
                for _ in range(50):
                    await began.acquire()
        ready.set()
        await loop.run_in_executor(None, go.wait)
        latencies.clear()
        since[0] = time.time()
        expected = CLIENTS * PER_SECOND * SECONDS
        deadline = time.monotonic() + SECONDS + 60
        while len(latencies) < expected and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        results.send((expected, sorted(latencies)))

    _many_files()
    uvloop.run(run())


class Marked(asyncio.Protocol):
    """Finds the times between marks in the stream, however it is cut into pieces."""

    def __init__(
        self, request: bytes, latencies: list[float], since: list[float], began: asyncio.Semaphore
    ) -> None:
        self._request, self._latencies, self._since, self._rest = request, latencies, since, b""
        self._began: asyncio.Semaphore | None = began

    def connection_made(self, transport: asyncio.Transport) -> None:
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.time()
        if self._began is not None and b"id: " in data:
            self._began.release()
            self._began = None
        pieces = (self._rest + data).split(b"<t>")
        self._rest = b""
        for piece in pieces[1:]:
            stamp, closed, _ = piece.partition(b"</t>")
            if closed:
                if float(stamp) >= self._since[0]:
                    self._latencies.append(now - float(stamp))
            else:
                self._rest = b"<t>" + piece
        if not self._rest and pieces[-1][-2:].count(b"<"):
            self._rest = pieces[-1][-2:]


# The writers.


async def write_ours(url: str, seconds: float) -> None:
    from ledger_key import ENTRY_MACS
    from postroom.store import feed
    from postroom.store.database import open_database

    async with open_database(url, pool_size=4, name="postroom bench", entry_macs=ENTRY_MACS) as database:

        async def one() -> None:
            async with database.transaction(ORGANIZATION) as connection:
                stamp = f"<t>{time.time():.6f}</t>"
                await feed.append_event(connection, "document.changed", "document", "d", {"at": stamp})

        await _paced(one, seconds)


async def write_bare(url: str, seconds: float) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def one() -> None:
            payload = json.dumps({"kind": "document.changed", "id": "d", "at": f"<t>{time.time():.6f}</t>"})
            await connection.execute("SELECT pg_notify('bare', %s)", [payload])

        await _paced(one, seconds)


async def _paced(one: Callable[[], Awaitable[None]], seconds: float) -> None:
    start = time.perf_counter()
    for number in range(int(seconds * PER_SECOND)):
        await asyncio.sleep(max(0, start + number / PER_SECOND - time.perf_counter()))
        await one()


def _many_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def measure(
    url: str,
    serve: Callable[[str, Connection], None],
    write: Callable[[str, float], Coroutine[Any, Any, None]],
) -> list[float]:
    context = multiprocessing.get_context("spawn")
    receiver, announce = context.Pipe(duplex=False)
    server = context.Process(target=serve, args=(url, announce), daemon=True)
    server.start()
    port, session = receiver.recv()
    ready, go = context.Event(), context.Event()
    results, send = context.Pipe(duplex=False)
    clients = context.Process(target=follow, args=(port, session, ready, go, send), daemon=True)
    clients.start()
    ready.wait()
    asyncio.run(write(url, WARM_SECONDS))
    time.sleep(1)
    go.set()
    time.sleep(0.3)
    asyncio.run(write(url, SECONDS))
    expected, latencies = results.recv()
    for process in (clients, server):
        process.terminate()
        process.join()
    assert len(latencies) == expected, f"{expected - len(latencies)} of {expected} never arrived"
    return latencies


def shown(name: str, latencies: list[float]) -> float:
    cuts = statistics.quantiles(latencies, n=100)
    print(f"{name:>8}: median {cuts[49] * 1000:7.1f} ms   p99 {cuts[98] * 1000:7.1f} ms")
    return cuts[98]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    from postroom.store.embedded import start_or_join
    from postroom.store.schema_migrations import migrate

    ratios = []
    for _ in range(given.rounds):
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
            start_or_join(Path(home)) as attached,
        ):
            asyncio.run(migrate(attached.url))
            bare = shown("bare", measure(attached.url, serve_bare, write_bare))
            ours = shown("postroom", measure(attached.url, serve_ours, write_ours))
            ratios.append(ours / bare)
    print(f"{CLIENTS} clients, {PER_SECOND} events/s on {os.cpu_count()} cores")
    print(f"ratio of p99, ours to bare: {statistics.median(ratios):.2f}")
    sys.exit(statistics.median(ratios) > 1.5)


if __name__ == "__main__":
    main()
