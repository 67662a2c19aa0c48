"""Commits a second that append an event, with the feed's notification and without any, 32 clients.

The third figure is the same with NOTIFY inside the transaction, which lets only one transaction commit at a
time. Turns alternate, so that all three see the same machine. Prints the ratio of ours to the commits without
a notification, which should be at least 0.8.
"""

import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import psycopg

from ledger_key import ENTRY_MACS
from postroom.store import feed, organizations, schema_migrations
from postroom.store.connection import Connection
from postroom.store.database import Database, open_database
from postroom.store.embedded import start_or_join

CLIENTS, COMMITS, TURNS, WANTED = 32, 1600, 5, 0.8
ORGANIZATION = UUID(int=7)


async def ours(connection: Connection) -> None:
    await feed.append_event(connection, "message.created", "message", "x")


async def silent(connection: Connection) -> None:
    await ours(connection)
    connection.notifications = set()


async def inside(connection: Connection) -> None:
    connection.notifications = None
    await ours(connection)


async def measure(database: Database, append: Callable[[Connection], Awaitable[None]]) -> float:
    """Commits a second."""

    async def commit(count: int) -> None:
        for _ in range(count):
            async with database.transaction(ORGANIZATION) as connection:
                await append(connection)

    started = time.perf_counter()
    await asyncio.gather(*(commit(COMMITS // CLIENTS) for _ in range(CLIENTS)))
    return COMMITS / (time.perf_counter() - started)


async def main(url: str) -> float:
    await schema_migrations.migrate(url)
    size = CLIENTS * 3 // 2 + 2
    async with open_database(url, pool_size=size, name="bench", entry_macs=ENTRY_MACS) as database:
        async with database.transaction(ORGANIZATION) as connection:
            await organizations.ensure(connection, ORGANIZATION)
        ways = {"ours": ours, "silent": silent, "inside": inside}
        for way in ways.values():
            await measure(database, way)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as listener:
            await listener.execute("LISTEN postroom_feed")
            found = [{name: await measure(database, way) for name, way in ways.items()} for _ in range(TURNS)]
    middle = {name: statistics.median(turn[name] for turn in found) for name in ways}
    print(
        f"commits a second: {middle['ours']:.0f} with the feed's notification,"
        f" {middle['silent']:.0f} without, {middle['inside']:.0f} with NOTIFY in the transaction"
    )
    return statistics.median(turn["ours"] / turn["silent"] for turn in found)


if __name__ == "__main__":
    home = Path(tempfile.mkdtemp(prefix="postroom-bench-"))
    try:
        with start_or_join(home) as server:
            ratio = asyncio.run(main(server.url))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"ratio {ratio:.2f}; wanted: at least {WANTED}")
    sys.exit(ratio < WANTED)
