"""The class of connections, the limits of their transactions, and `connect`, which opens a single one.

Single connections have the URL's role and are for migrations, backup and health checks; everything else uses
the pools of `database`. `connect` checks the URL and the version of the server.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, LiteralString

from psycopg import AsyncConnection, OperationalError, ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import PipelineAborted
from psycopg.pq import PGconn, Ping
from psycopg.rows import TupleRow

from postroom.errors import DatabaseTooOld, DatabaseUnavailable, DatabaseUnreachable, SettingsError
from postroom.model import has_ambiguous_credentials
from postroom.store.database_errors import first_line, translate_errors
from postroom.store.entry_macs import EntryMacs

OLDEST_SERVER_VERSION = 15
# Find out within half a minute that the server's machine is gone. The URL may set other values.
_NETWORK_DEFAULTS: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_PING_EVERY_SECONDS: Final = 0.5
_PING_TIMEOUT: Final = 3
_WAITING_FOR: Final = {
    Ping.REJECT: "The database is starting or recovering",
    Ping.NO_RESPONSE: "The database does not respond",
}


class Connection(AsyncConnection[TupleRow]):
    """A connection. Those of a `Database` can append ledger entries, because they know `entry_macs`."""

    entry_macs: EntryMacs | None = None
    # Only with a `Database`: sent after the commit, see `Notifier`.
    notifications: set[tuple[str, str]] | None = None

    async def notify(self, channel: LiteralString, payload: str = "") -> None:
        """Notify the listeners of a channel once this transaction has committed."""
        if self.notifications is None:
            await self.execute("SELECT pg_notify(%s, %s)", [channel, payload])
        else:
            self.notifications.add((channel, payload))

    @asynccontextmanager
    async def in_one_round_trip(self) -> AsyncGenerator[asyncio.TaskGroup]:
        """Tasks whose first statements are sent together. None may depend on the result of another."""
        try:
            async with self.pipeline(), asyncio.TaskGroup() as tasks:
                yield tasks
        except BaseExceptionGroup as group:
            # The statements after the failed one are aborted.
            causes = [error for error in group.exceptions if not isinstance(error, PipelineAborted)]
            raise (causes or group.exceptions)[0] from None


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """How long a transaction may wait for a lock, run one statement, and be idle.

    The server enforces them, so they also end the transaction of a process that is frozen or cut off: no lock
    is held or waited for without limit. Statements of `None` seconds may take any time.
    """

    lock_seconds: float
    idle_seconds: float
    statement_seconds: float | None = 600

    @property
    def parameters(self) -> dict[str, str]:
        """The server's parameters and their values."""
        return {
            "lock_timeout": _milliseconds(self.lock_seconds),
            "statement_timeout": _milliseconds(self.statement_seconds or 0),
            "idle_in_transaction_session_timeout": _milliseconds(self.idle_seconds),
            # For a server that is sending a result which a frozen process does not read.
            "tcp_user_timeout": _milliseconds(self.idle_seconds),
        }


# For commands that end by themselves.
COMMAND_LIMITS: Final = TransactionLimits(lock_seconds=30, idle_seconds=60, statement_seconds=None)


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def build_conninfo(url: str) -> str:
    """The URL with our defaults for what it does not set. Of several hosts, the primary is used."""
    check_url(url)
    given = conninfo_to_dict(url)
    several = {"target_session_attrs": "read-write"} if "," in str(given.get("host", "")) else {}
    return make_conninfo("", **{**_NETWORK_DEFAULTS, **several, **given})


async def connect(url: str, *, name: str = "postroom") -> Connection:
    """Connect in autocommit mode. Raises DatabaseTooOld for an old server."""
    conninfo = build_conninfo(url)
    with translate_errors():
        connection = await _log_in(conninfo, name) or await _log_in(conninfo, name, is_last=True)
    assert connection is not None, "the last attempt raises its error"
    version = connection.info.server_version
    if version < OLDEST_SERVER_VERSION * 10_000:
        await connection.close()
        raise DatabaseTooOld(
            f"The database is PostgreSQL {version // 10_000};"
            f" Postroom needs {OLDEST_SERVER_VERSION} or newer."
            " Upgrade the server, or point POSTROOM_DATABASE_URL to another one."
        )
    return connection


async def _log_in(conninfo: str, name: str, *, is_last: bool = False) -> Connection | None:
    """Open a connection. Return None if the server rejects it but responds; the last attempt raises instead.

    The driver drops the server's error code, and the text may be in any language. So a wrong password looks
    like a session that an administrator ends during its login: only a repeated rejection counts.
    """
    try:
        return await Connection.connect(conninfo, autocommit=True, application_name=name)
    except OperationalError as error:
        state = await _ping(conninfo)
        if state is Ping.REJECT:
            raise DatabaseUnreachable(
                "The database is starting, stopping or recovering. Wait, or see the server's log."
            ) from error
        if state is not Ping.OK or "FATAL:" not in str(error):
            raise
        if not is_last:
            return None
        raise DatabaseUnavailable(
            f"The database refused the connection ({first_line(error)})."
            " Correct the role, password or database name in POSTROOM_DATABASE_URL, or see the server's log."
        ) from error


async def is_pooled(connection: Connection) -> bool:
    """Whether a connection pooler is in between: it hands out process ids of its own."""
    cursor = await connection.execute("SELECT pg_backend_pid()", prepare=False)
    return await cursor.fetchone() != (connection.info.backend_pid,)


async def wait_until_ready(url: str, *, seconds: float, say: Callable[[str], None]) -> None:
    """Wait while the server starts or does not respond. `connect` then reports what is still wrong."""
    conninfo = build_conninfo(url)
    deadline = time.monotonic() + seconds
    said: Ping | None = None
    while (state := await _ping(conninfo)) in _WAITING_FOR and time.monotonic() < deadline:
        if state is not said:
            left = max(1, round(deadline - time.monotonic()))
            say(f"{_WAITING_FOR[state]}. Waiting for up to {left} seconds …")
            said = state
        await asyncio.sleep(_PING_EVERY_SECONDS)
    if said is not None and state is Ping.OK:
        say("The database is ready.")


async def _ping(conninfo: str) -> Ping:
    """Whether the server accepts connections, rejects all of them for now, or does not respond."""
    probe = make_conninfo(conninfo, connect_timeout=_PING_TIMEOUT)
    return Ping(await asyncio.to_thread(PGconn.ping, probe.encode()))


def check_url(url: str) -> None:
    if has_ambiguous_credentials(url):
        # The driver's error would show part of the password as the host it cannot find.
        raise SettingsError(
            "POSTROOM_DATABASE_URL has an @ or a / in its user or password."
            " Write them percent-encoded: @ as %40, / as %2F."
        )
    try:
        conninfo_to_dict(url)
    except ProgrammingError:
        # Raised without the driver's message and cause: both repeat the URL with its password.
        raise SettingsError(
            "POSTROOM_DATABASE_URL is not a PostgreSQL URL."
            " Write it as postgresql://ROLE:PASSWORD@HOST:PORT/DATABASE, special characters percent-encoded."
        ) from None
