"""System health for the health page and `doctor`: the server, connected processes, work by kind.

Reads only. Live processes are derived from the server's list of connections, so a killed process disappears
from it. The health of mailboxes is in `mailboxes`.
"""

import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from os import getpid
from typing import Final

from psycopg.rows import class_row

from postroom.errors import DatabaseUnavailable
from postroom.store.connection import Connection, connect
from postroom.store.database import Database
from postroom.store.database_errors import translate_errors

_NAME: Final = re.compile(r"postroom (?P<role>[a-z]+) (?P<pid>[0-9]+) (?P<host>\S+)")


@dataclass(frozen=True)
class DatabaseServer:
    version: str
    size_bytes: int
    connections: int
    max_connections: int
    now: datetime
    read_only: bool
    response_seconds: float


@dataclass(frozen=True)
class ConnectedProcess:
    role: str
    pid: int
    host: str
    connections: int


@dataclass(frozen=True)
class WorkKindCounts:
    kind: str
    due: int
    leased: int
    waiting: int
    failing: int
    parked: int
    oldest_due_seconds: float | None
    error: str | None  # the most frequent error


@dataclass(frozen=True)
class SystemHealth:
    server: DatabaseServer
    processes: Sequence[ConnectedProcess]
    work: Sequence[WorkKindCounts]

    def list_processes(self, role: str) -> list[ConnectedProcess]:
        return [process for process in self.processes if process.role == role]


def process_name(role: str) -> str:
    """The name of this process in the server's list of connections."""
    return f"postroom {role} {getpid()} {socket.gethostname()[:30]}"


async def read_health(database: Database) -> SystemHealth:
    async with database.engine() as connection:
        server = await _read_server(connection)
        return SystemHealth(server, await _list_processes(connection), await count_work(connection))


async def require_writable(url: str) -> None:
    async with await connect(url) as connection:
        with translate_errors():
            cursor = await connection.execute(
                "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool"
            )
            if await cursor.fetchone() == (True,):
                raise DatabaseUnavailable(
                    "The database is read-only."
                    " Point POSTROOM_DATABASE_URL to the primary, or end its read-only mode."
                )


async def _read_server(connection: Connection) -> DatabaseServer:
    started = time.perf_counter()
    cursor = await connection.execute(
        """
        SELECT current_setting('server_version'), pg_database_size(current_database()),
            (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
            current_setting('max_connections')::int, clock_timestamp(),
            pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool
        """
    )
    row = await cursor.fetchone()
    assert row is not None, "a SELECT without FROM has one row"
    version, size, connections, most, now, read_only = row
    return DatabaseServer(version, size, connections, most, now, read_only, time.perf_counter() - started)


async def _list_processes(connection: Connection) -> list[ConnectedProcess]:
    # The server shows connection names only to the user who opened them, not to our assumed role.
    async with connection.transaction(force_rollback=True):  # which restores the role
        await connection.execute("SET LOCAL ROLE NONE")
        cursor = await connection.execute(
            """
            SELECT application_name, count(*)::int FROM pg_stat_activity
            WHERE datname = current_database() AND application_name LIKE 'postroom %'
            GROUP BY application_name ORDER BY application_name
            """
        )
        rows: list[tuple[str, int]] = await cursor.fetchall()
    counts: dict[tuple[str, int, str], int] = {}
    for name, connections in rows:
        if match := _NAME.match(name):
            key = (match["role"], int(match["pid"]), match["host"])
            counts[key] = counts.get(key, 0) + connections
    return [
        ConnectedProcess(role, pid, host, connections)
        for (role, pid, host), connections in sorted(counts.items())
    ]


async def count_work(connection: Connection) -> list[WorkKindCounts]:
    """Count work by kind: of all organizations as the engine role, else of the transaction's."""
    cursor = connection.cursor(row_factory=class_row(WorkKindCounts))
    await cursor.execute(
        """
        SELECT kind,
            count(*) FILTER (WHERE claimable_at <= now) AS due,
            count(*) FILTER (WHERE leased_until > now) AS leased,
            count(*) FILTER (WHERE leased_until IS NULL AND claimable_at > now) AS waiting,
            count(*) FILTER (WHERE last_error IS NOT NULL AND claimable_at IS NOT NULL) AS failing,
            count(*) FILTER (WHERE state = 'parked') AS parked,
            extract(epoch FROM max(now - claimable_at) FILTER (WHERE claimable_at <= now))::float8
                AS oldest_due_seconds,
            mode() WITHIN GROUP (ORDER BY last_error) FILTER (WHERE claimable_at IS NOT NULL) AS error
        FROM (
            SELECT kind, state, leased_until, last_error, coalesce(leased_until, due_at) AS claimable_at,
                (SELECT postroom_now()) AS now
            FROM work
        ) AS row
        GROUP BY kind ORDER BY kind
        """
    )
    return await cursor.fetchall()
