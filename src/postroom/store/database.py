"""The `Database`: one connection pool per role, transactions of one organization, and LISTEN.

Connections of the engine role find work across organizations and see nothing else. Connections of the
application role see the rows of one organization, set when the transaction begins; outside a transaction
they see nothing. The statements on tables are in the other modules.
"""

import asyncio
import logging
import select
from collections.abc import AsyncGenerator, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from psycopg import OperationalError, sql
from psycopg_pool import AsyncConnectionPool

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.store import roles
from postroom.store.connection import COMMAND_LIMITS, Connection, SessionLimits, build_conninfo, connect
from postroom.store.database_errors import translate_errors
from postroom.store.entry_macs import EntryMacs

Pool = AsyncConnectionPool[Connection]

# The driver and its pool warn about each lost connection, without its cause. We raise that error ourselves.
logging.getLogger("psycopg").setLevel(logging.ERROR)

RECONNECT_SECONDS = 1
MANY_ROWS = 50


@dataclass(frozen=True)
class Database:
    url: str
    name: str
    engine_pool: Pool
    application_pool: Pool
    entry_macs: EntryMacs

    @asynccontextmanager
    async def engine(self) -> AsyncGenerator[Connection]:
        """A connection of the engine role, in autocommit mode."""
        try:
            with translate_errors():
                async with self.engine_pool.connection() as connection:
                    yield connection
        except DatabaseUnavailable:
            await _drop_dead_connections(self.engine_pool)
            raise

    @asynccontextmanager
    async def transaction(self, organization: UUID) -> AsyncGenerator[Connection]:
        """A transaction that sees the rows of this organization and no others."""
        try:
            with translate_errors():
                async with self.application_pool.connection() as connection, connection.transaction():
                    await connection.execute(
                        "SELECT set_config('postroom.organization', %s, true)", [str(organization)]
                    )
                    yield connection
        except DatabaseUnavailable:
            await _drop_dead_connections(self.application_pool)
            raise

    async def listen(self, channel: LiteralString, *, every_seconds: float) -> AsyncGenerator[str | None]:
        """Yield the payloads of a channel's notifications, forever, on a separate connection.

        None means that notifications may have been missed: at the start, after a reconnect, and after
        `every_seconds` without a notification.
        """
        while True:
            try:
                with translate_errors():
                    async with await connect(self.url, name=f"{self.name} listen") as connection:
                        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                        yield None
                        while True:
                            _raise_if_cancelled()
                            async for notification in connection.notifies(timeout=every_seconds):
                                yield notification.payload
                            yield None
            except (DatabaseUnavailable, TransientError):
                await asyncio.sleep(RECONNECT_SECONDS)


async def _drop_dead_connections(pool: Pool) -> None:
    """Check all idle connections after one failed: when a server goes away, all of them die.

    Otherwise each dead connection would fail another work item, long after the server is back.
    """
    await pool.check()


async def _require_alive(pool: Pool, connection: Connection) -> None:
    """Refuse to hand out a dead connection, as all are after a server restart.

    An idle connection has nothing to read; a closed one has its end of file. So the server is queried only
    if there is something to read, and otherwise the check costs one system call of a few microseconds.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        try:
            await pool.check_connection(connection)
        except OperationalError:
            await _drop_dead_connections(pool)
            raise


def _raise_if_cancelled() -> None:
    """Raise a cancellation that the driver swallowed.

    Python 3.11's `wait_for`, which the driver uses, loses a cancellation that arrives together with its
    result. The endless loop would then never stop.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def prepare_mode(rows: Sized) -> bool | None:
    """The `prepare` argument for a lookup of these rows: plan afresh when there are many.

    A cached plan from when the tables were empty would scan a whole table for each row.
    """
    return False if len(rows) >= MANY_ROWS else None


@asynccontextmanager
async def open_database(
    url: str,
    *,
    pool_size: int,
    name: str,
    entry_macs: EntryMacs,
    listeners: int = 1,
    limits: SessionLimits = COMMAND_LIMITS,
) -> AsyncGenerator[Database]:
    """Open the pools. An unreachable database is an error here, not at the first use.

    Uses at most `pool_size` connections: the listeners, and of the rest a third for the engine's claims.
    `name` appears in the server's list of connections and shows which processes are alive.
    `entry_macs` authenticates the ledger entries that are written through these pools.
    """
    engine_size = max(1, (pool_size - listeners) // 3)
    # A plain connection first: its error names the cause, which the pool would hide behind a timeout.
    await (await connect(url, name=name)).close()
    async with (
        _open_pool(url, roles.ENGINE, limits, entry_macs, size=engine_size, name=name) as engine,
        _open_pool(
            url, roles.APPLICATION, limits, entry_macs, size=pool_size - listeners - engine_size, name=name
        ) as application,
    ):
        yield Database(url, name, engine, application, entry_macs)


@asynccontextmanager
async def _open_pool(
    url: str, role: str, limits: SessionLimits, entry_macs: EntryMacs, *, size: int, name: str
) -> AsyncGenerator[Pool]:
    async def configure(connection: Connection) -> None:
        connection.entry_macs = entry_macs
        await limits.apply(connection)
        await roles.assume(connection, role)

    async def check(connection: Connection) -> None:
        await _require_alive(pool, connection)

    pool: Pool = AsyncConnectionPool(
        build_conninfo(url),
        connection_class=Connection,
        kwargs={"autocommit": True, "application_name": name},
        configure=configure,
        check=check,
        min_size=1,
        max_size=size,
        open=False,
        timeout=30,
        name=role,
    )
    with translate_errors():
        await pool.open(wait=True)
    try:
        yield pool
    finally:
        await pool.close()
