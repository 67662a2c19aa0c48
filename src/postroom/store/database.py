"""The `Database`: transactions of the engine or of one organization, and LISTEN.

Transactions of the engine role find work across organizations and see nothing else. Transactions of the
application role see the rows of one organization. The first statement of each sets the role, the search path,
the organization and the limits for this transaction only: nothing is kept in a session, so a connection
pooler may give each transaction another one. The statements on tables are in the other modules.
"""

import asyncio
import logging
import math
import select
from collections.abc import AsyncGenerator, Awaitable, Callable, Sized
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, LiteralString
from uuid import UUID

from psycopg import InternalError, OperationalError, errors, sql
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.store import number_source, roles
from postroom.store.connection import (
    COMMAND_LIMITS,
    Connection,
    TransactionLimits,
    build_conninfo,
    connect,
    is_pooled,
)
from postroom.store.database_errors import translate_errors
from postroom.store.entry_macs import EntryMacs
from postroom.store.notifier import Notifier

Pool = AsyncConnectionPool[Connection]

# The driver and its pool warn about each lost connection, without its cause. We raise that error ourselves.
logging.getLogger("psycopg").setLevel(logging.ERROR)

RECONNECT_SECONDS = 1
REPEAT_SECONDS: Final = 3600.0
REPEAT_AFTER_FAILURE_SECONDS: Final = 5.0
POLL_SECONDS = 0.3
_PREPARE_THRESHOLD = 5  # the driver's default
MANY_ROWS = 50


async def repeat_hourly(step: Callable[[], Awaitable[object]]) -> None:
    """Run a step now and every hour, forever; again after seconds if the database was not available."""
    while True:
        pause = REPEAT_SECONDS
        try:
            await step()
        except (DatabaseUnavailable, TransientError):
            pause = REPEAT_AFTER_FAILURE_SECONDS
        await asyncio.sleep(pause)


@dataclass(frozen=True)
class Database:
    name: str
    engine_pool: Pool
    application_pool: Pool
    limits: TransactionLimits
    entry_macs: EntryMacs
    notifier: Notifier
    listen_url: str | None  # None behind a pooler, which may pass notifications to another process

    @asynccontextmanager
    async def engine(self) -> AsyncGenerator[Connection]:
        """A transaction of the engine role."""
        async with self._begin(self.engine_pool, roles.ENGINE) as connection:
            yield connection

    @asynccontextmanager
    async def transaction(self, organization: UUID) -> AsyncGenerator[Connection]:
        """A transaction that sees the rows of this organization and no others."""
        async with self._begin(self.application_pool, roles.APPLICATION, organization) as connection:
            yield connection

    async def fetch_row(self, organization: UUID, select: sql.Composed) -> TupleRow | None:
        """The first row of a SELECT in a transaction of its own: one round trip instead of three."""
        begin = _build_begin(self.limits, roles.APPLICATION, organization)
        try:
            with translate_errors():
                async with self.application_pool.connection() as connection:
                    statements = b"%s; %s; COMMIT" % (begin, select.as_bytes(connection))
                    cursor = await connection.execute(statements, prepare=False)
                    await cursor.set_result(2)  # after BEGIN and the parameters
                    return await cursor.fetchone()
        except DatabaseUnavailable:
            await _drop_dead_connections(self.application_pool)
            raise

    @asynccontextmanager
    async def _begin(
        self, pool: Pool, role: LiteralString, organization: UUID | None = None
    ) -> AsyncGenerator[Connection]:
        begin = _build_begin(self.limits, role, organization)
        notifications: set[tuple[str, str]] = set()
        try:
            with translate_errors():
                async with pool.connection() as connection:  # commits at the end, or rolls back
                    connection.entry_macs, connection.notifications = self.entry_macs, notifications
                    try:
                        await connection.execute(begin, prepare=False)
                    except (errors.InsufficientPrivilege, errors.InvalidParameterValue) as error:
                        raise roles.build_refusal(connection, role) from error
                    yield connection
                    if connection.info.transaction_status is TransactionStatus.INERROR:
                        # The server would answer COMMIT with a silent rollback.
                        raise InternalError("the transaction failed earlier, and its error was suppressed")
        except DatabaseUnavailable:
            await _drop_dead_connections(pool)
            raise
        self.notifier.add(notifications)

    async def listen(self, channel: LiteralString, *, every_seconds: float) -> AsyncGenerator[str | None]:
        """Yield the payloads of a channel's notifications, forever, on a separate connection.

        None means that notifications may have been missed: at the start, after a reconnect, and after
        `every_seconds` without a notification. Without a connection that can listen, it polls.
        """
        if self.listen_url is None:
            async for _ in self._poll(every_seconds=every_seconds):
                yield None
            return
        while True:
            try:
                with translate_errors():
                    async with await connect(self.listen_url, name=f"{self.name} listen") as connection:
                        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                        yield None
                        while True:
                            _raise_if_cancelled()
                            async for notification in connection.notifies(timeout=every_seconds):
                                yield notification.payload
                            yield None
            except (DatabaseUnavailable, TransientError):
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _poll(self, *, every_seconds: float) -> AsyncGenerator[None]:
        """Yield after the server has written something, which a commit does, and after `every_seconds`."""
        loop = asyncio.get_running_loop()
        seen, yielded_at = None, -math.inf
        while True:
            with suppress(DatabaseUnavailable, TransientError):
                async with self.engine() as connection:
                    cursor = await connection.execute(
                        "SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn()::text END"
                    )
                    written = await cursor.fetchone()
                if written != seen or loop.time() - yielded_at >= every_seconds:
                    seen, yielded_at = written, loop.time()
                    yield
            await asyncio.sleep(POLL_SECONDS)


@lru_cache(maxsize=1000)
def _build_begin(limits: TransactionLimits, role: LiteralString, organization: UUID | None) -> bytes:
    """BEGIN, and all parameters of the transaction, for one round trip. The role comes last."""
    values = {
        **limits.parameters,
        "postroom.organization": str(organization or ""),
        "search_path": roles.SEARCH_PATH,
        "role": role,
    }
    begin = sql.SQL("BEGIN; SELECT {}").format(
        sql.SQL(", ").join(
            sql.SQL("set_config({}, {}, true)").format(sql.Literal(name), sql.Literal(value))
            for name, value in values.items()
        )
    )
    return begin.as_bytes(None)


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
    direct_url: str | None = None,
    listeners: int = 1,
    limits: TransactionLimits = COMMAND_LIMITS,
) -> AsyncGenerator[Database]:
    """Open the pools. An unreachable database is an error here, not at the first use.

    Uses at most `pool_size` connections: the listeners, and of the rest a third for the engine's claims.
    `name` appears in the server's list of connections and shows which processes are alive.
    `entry_macs` authenticates the ledger entries that are written through these pools.
    `direct_url` leads past a connection pooler and is for LISTEN.
    """
    engine_size = max(1, (pool_size - listeners) // 3)
    # A plain connection first: its error names the cause, which the pool would hide behind a timeout.
    async with await connect(url, name=name) as connection:
        pooled = await is_pooled(connection)
    application_size = pool_size - listeners - engine_size
    open_pool = partial(_open_pool, url, limits, pooled=pooled, name=name)
    async with (
        open_pool(roles.ENGINE, size=engine_size) as engine,
        open_pool(roles.APPLICATION, size=application_size) as application,
    ):
        listen_url, notifier = direct_url or (None if pooled else url), Notifier(engine)
        try:
            yield Database(name, engine, application, limits, entry_macs, notifier, listen_url)
        finally:
            await notifier.close()


@asynccontextmanager
async def _open_pool(
    url: str, limits: TransactionLimits, role: str, *, pooled: bool, size: int, name: str
) -> AsyncGenerator[Pool]:
    async def configure(connection: Connection) -> None:
        await number_source.move_ahead_on_new_server(connection, _build_begin(limits, roles.ENGINE, None))

    async def check(connection: Connection) -> None:
        await _require_alive(pool, connection)

    pool: Pool = AsyncConnectionPool(
        build_conninfo(url),
        connection_class=Connection,
        # A pooler may run the next transaction on a session that lacks what was prepared.
        kwargs={
            "autocommit": True,
            "application_name": name,
            "prepare_threshold": None if pooled else _PREPARE_THRESHOLD,
        },
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
