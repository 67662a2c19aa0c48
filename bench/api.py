"""The API beside the bare SQL: pages of 50 messages and single messages, per second.

Bare is what an application would do by itself: the same statements through psycopg, one process, as many at a
time, rows to tuples, no organization set, no key, no JSON, no HTTP. Ours is the whole way: HTTP, key, the
organization's transaction, types, JSON, ETag. Prints both and their ratio, which should be 0.3 or better.
"""

import argparse
import asyncio
import multiprocessing
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID

import psycopg
import uvloop
from psycopg_pool import AsyncConnectionPool

MESSAGES, AT_A_TIME, SECONDS = 5000, 8, 4.0
ORGANIZATION, MAILBOX = UUID(int=7), UUID(int=8)
# What the API reads for a page and for one message, as anybody would write it.
COLUMNS = """
    SELECT id, mailbox_id, thread_id, folder_id, provider_message_id, internet_message_id, from_name,
        from_address, to_recipients, cc_recipients, bcc_recipients, subject, snippet, sent_at, received_at,
        size, labels, categories, importance, is_read, is_flagged, is_draft, is_newsletter, is_automated,
        has_attachments, created_at, updated_at, deleted_at
    FROM postroom.messages
"""
LISTING = COLUMNS + " WHERE mailbox_id = %s ORDER BY received_at DESC, id DESC LIMIT 51"
SINGLE = (
    COLUMNS + " WHERE organization_id = %s AND id = %s",
    """
    SELECT headers, body_plain, body_html FROM postroom.message_contents
    WHERE organization_id = %s AND message_id = %s
    """,
    "SELECT * FROM postroom.attachments WHERE organization_id = %s AND message_id = %s ORDER BY part",
)


def fill(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = postroom")
        connection.execute("INSERT INTO organizations (id, name) VALUES (%s, 'bench')", [ORGANIZATION])
        connection.execute(
            """
            INSERT INTO mailboxes (organization_id, id, provider, account_id, provider_user_id, address,
                content_policy) VALUES (%s, %s, 'gmail', 'a', 'a', 'a@example.org', 'full')
            """,
            [ORGANIZATION, MAILBOX],
        )
        connection.execute(
            "INSERT INTO threads (organization_id, mailbox_id, provider_thread_id) VALUES (%s, %s, 't')",
            [ORGANIZATION, MAILBOX],
        )
        connection.execute(
            """
            INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id, subject,
                snippet, from_name, from_address, to_recipients, received_at, size)
            SELECT %s, %s, (SELECT id FROM threads), 'm' || n, 'Invoice number ' || n, repeat('words ', 20),
                'Ann Example', 'ann@example.org', '[{"name": "Bob", "address": "bob@example.org"}]',
                now() - n * interval '1 minute', 10000
            FROM generate_series(1, %s) AS n
            """,
            [ORGANIZATION, MAILBOX, MESSAGES],
        )
        connection.execute("ANALYZE")


def serve(url: str, home: str, announce: Connection) -> None:
    from postroom import logs
    from postroom.config import Settings
    from postroom.flow.access import api_keys
    from postroom.model import OrganizationId, Scope
    from postroom.store.database import open_database
    from postroom.web import api, app, event_stream, server
    from postroom.web.api.operations import ApiContext
    from postroom.web.sessions import SiteContext
    from postroom.wiring import secrets
    from postroom.wiring.engine import open_engine

    async def run() -> None:
        settings = Settings(home=Path(home), vault_keys="one:" + "A" * 43 + "=")
        async with (
            open_database(
                url, pool_size=16, name="postroom web", entry_macs=secrets.build_entry_macs(settings)
            ) as database,
            open_engine(settings, database, url="http://127.0.0.1") as engine,
            event_stream.open_streams(database) as streams,
        ):
            organization = OrganizationId(ORGANIZATION)
            _, key = await api_keys.create(database, organization, "bench", frozenset({Scope.READ}))
            site = SiteContext(database, organization, engine.url, engine.sealer)
            context = ApiContext(
                engine.connect, engine.blobs, streams, engine.remote, engine.deliver, engine.review
            )
            application = app.create(site, routes=api.routes(site, context, per_minute=10**9))
            with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
                announce.send((listening.getsockname()[1], key.reveal()))
                await server.run_server(application, listening, stop_seconds=1)

    logs.configure("web")
    uvloop.run(run())


async def ask(port: int, key: str, path: str) -> float:
    """Answers per second, over connections that stay open."""
    request = f"GET /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    count, until = 0, time.perf_counter() + SECONDS

    async def one() -> None:
        nonlocal count
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < until:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head[:200]
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            count += 1
        writer.close()

    await asyncio.gather(*(one() for _ in range(AT_A_TIME)))
    return count / SECONDS


def load(port: int, key: str, path: str, results: Connection) -> None:
    results.send(uvloop.run(ask(port, key, path)))


def bare(url: str, which: str, results: Connection) -> None:
    async def run() -> float:
        async with AsyncConnectionPool(
            url, min_size=AT_A_TIME, max_size=AT_A_TIME, open=False, kwargs={"autocommit": True}
        ) as pool:
            count, until = 0, time.perf_counter() + SECONDS

            async def one(act: Callable[[psycopg.AsyncConnection], Awaitable[object]]) -> None:
                nonlocal count
                while time.perf_counter() < until:
                    async with pool.connection() as connection:
                        await act(connection)
                    count += 1

            async def list_them(connection: psycopg.AsyncConnection) -> None:
                await (await connection.execute(LISTING, [MAILBOX])).fetchall()

            async def get_one(connection: psycopg.AsyncConnection) -> None:
                for statement in SINGLE:
                    await (await connection.execute(statement, [ORGANIZATION, MESSAGES // 2])).fetchall()

            act = list_them if which == "list" else get_one
            await asyncio.gather(*(one(act) for _ in range(AT_A_TIME)))
            return count / SECONDS

    results.send(uvloop.run(run()))


def in_process(target: Callable[..., None], *arguments: object) -> float:
    context = multiprocessing.get_context("spawn")
    results, send = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(*arguments, send))
    process.start()
    found = results.recv()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    from postroom.store.embedded import start_or_join
    from postroom.store.schema_migrations import migrate

    paths = {"list": f"/mailboxes/{MAILBOX}/messages", "get": f"/messages/{MESSAGES // 2}"}
    ratios: dict[str, list[float]] = {"list": [], "get": []}
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        start_or_join(Path(home)) as attached,
    ):
        asyncio.run(migrate(attached.url))
        fill(attached.url)
        context = multiprocessing.get_context("spawn")
        receiver, announce = context.Pipe(duplex=False)
        server = context.Process(target=serve, args=(attached.url, home, announce), daemon=True)
        server.start()
        port, key = receiver.recv()
        for _ in range(given.rounds):
            for which, path in paths.items():
                ours, theirs = in_process(load, port, key, path), in_process(bare, attached.url, which)
                ratios[which].append(ours / theirs)
                print(f"{which:>5}: API {ours:7.0f}/s   bare SQL {theirs:7.0f}/s   ratio {ours / theirs:.2f}")
        server.terminate()
        server.join()
    worst = min(statistics.median(each) for each in ratios.values())
    print(f"ratio of answers per second, API to bare SQL, the lower of list and get: {worst:.2f}")
    sys.exit(worst < 0.3)


if __name__ == "__main__":
    main()
