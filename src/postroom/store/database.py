"""The way to the database: two pools, one for each role, and the channel that wakes.

The engine's connections find work across organizations and can see nothing else. The application's see the
rows of one organization, named when the transaction begins, and outside of a transaction see nothing.
"""

import asyncio
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
from postroom.store.connection import Connection, connect
from postroom.store.database_errors import translate_errors

Pool = AsyncConnectionPool[Connection]

RECONNECT_SECONDS = 1
MANY_ROWS = 50


@dataclass(frozen=True)
class Database:
    url: str
    name: str
    engine_pool: Pool
    application_pool: Pool

    @asynccontextmanager
    async def engine(self) -> AsyncGenerator[Connection]:
        """A connection of the engine's role; each statement commits by itself."""
        try:
            with translate_errors():
                async with self.engine_pool.connection() as connection:
                    yield connection
        except DatabaseUnavailable:
            await _drop_dead_connections(self.engine_pool)
            raise

    @asynccontextmanager
    async def transaction(self, organization: UUID) -> AsyncGenerator[Connection]:
        """A transaction that reaches the rows of this organization and no others."""
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
        """The payloads of a channel's notifications, for ever, on a connection of its own.

        None says that something may have been missed: at first, when the connection was lost and is back, and
        when nothing was heard for so long.
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
    """When a server goes away, all its connections die: one failure is enough to look at the idle ones too.

    Else each would fail another piece of work, long after the server is back.
    """
    await pool.check()


async def _require_alive(pool: Pool, connection: Connection) -> None:
    """No connection that has ended is handed out, as all have when the server was restarted.

    An idle one is silent; from one that has ended, its end can be read. So the server is asked only where
    there is something to read, and else this costs a system call of some microseconds.
    """
    line = select.poll()
    line.register(connection.fileno(), select.POLLIN)
    if line.poll(0):
        try:
            await pool.check_connection(connection)
        except OperationalError:
            await _drop_dead_connections(pool)
            raise


def _raise_if_cancelled() -> None:
    """Python 3.11's `wait_for`, on which the driver waits, loses a cancellation that comes with its result.

    Whoever then waits for ever would never end.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def prepare_mode(rows: Sized) -> bool | None:
    """For `prepare`, where rows are looked up: many of them are planned for what the tables hold now. A plan
    that was kept from when they were empty would read a whole table for each row.
    """
    return False if len(rows) >= MANY_ROWS else None


@asynccontextmanager
async def open_database(
    url: str, *, pool_size: int, name: str, listeners: int = 1
) -> AsyncGenerator[Database]:
    """Connect, at once: a database that cannot be reached is an error here, not at the first use.

    No more than `pool_size` connections in all: those that listen, and of the rest a third for the
    engine's claims.
    The name is what the server's list of connections shows; it says which processes are alive.
    """
    engine_size = max(1, (pool_size - listeners) // 3)
    # One plain connection first: its error says the cause, which the pool's would hide behind a time-out.
    await (await connect(url, name=name)).close()
    async with (
        _open_pool(url, roles.ENGINE, size=engine_size, name=name) as engine,
        _open_pool(
            url, roles.APPLICATION, size=pool_size - listeners - engine_size, name=name
        ) as application,
    ):
        yield Database(url, name, engine, application)


@asynccontextmanager
async def _open_pool(url: str, role: str, *, size: int, name: str) -> AsyncGenerator[Pool]:
    async def become(connection: Connection) -> None:
        await roles.assume(connection, role)

    async def check(connection: Connection) -> None:
        await _require_alive(pool, connection)

    pool: Pool = AsyncConnectionPool(
        url,
        connection_class=Connection,
        kwargs={"autocommit": True, "application_name": name},
        configure=become,
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
