"""Apply the numbered migration files, check them against `schema_migrations`; drop the schema.

Migrations go forward only, and each is applied once. A file edited after it was applied, an unknown number
and a skipped number are errors; nothing is repaired by guessing. Only the demo drops the schema.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

import psycopg
from psycopg import errors
from psycopg.rows import class_row

from postroom.errors import DatabaseUnavailable, PostroomError, SchemaError, TransientError
from postroom.store import roles
from postroom.store.connection import Connection, connect
from postroom.store.database import Database
from postroom.store.database_errors import to_postroom_error, translate_errors

# The advisory lock of all migrating processes. The value is arbitrary but must never change.
_LOCK = 0x706F7374726F6F6D
# Running processes wait behind a migration that waits for a table, so it gives up soon and tries again.
_TABLE_LOCK_SECONDS: Final = 3
_TABLE_LOCK_ATTEMPTS: Final = 40
_TABLE_LOCK_PAUSE_SECONDS: Final = 1
_WATCH_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    statements: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    version: int
    name: str
    sha256: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The state of the database's schema. `fault` says why migrating is impossible."""

    applied: list[AppliedMigration]
    pending: list[Migration]
    changed: list[Migration]
    missing_roles: list[str]
    fault: str | None

    @property
    def current(self) -> bool:
        return not (self.pending or self.missing_roles or self.fault)


@cache
def list_shipped() -> tuple[Migration, ...]:
    """The migrations shipped with this version, in order."""
    migrations: list[Migration] = []
    for file in files("postroom.store").joinpath("migrations").iterdir():
        match = re.fullmatch(r"(\d{4})_([a-z_]+)\.sql", file.name)
        if match:
            content = file.read_bytes()
            migrations.append(Migration(int(match[1]), match[2], content, sha256(content).hexdigest()))
    return tuple(sorted(migrations, key=lambda migration: migration.version))


async def migrate(url: str, on_progress: Callable[[Migration], None] | None = None) -> list[AppliedMigration]:
    """Apply pending migrations and return them. Safe to call from many processes at once."""
    async with await connect(url) as connection:
        with translate_errors():
            if (await _read_status(connection)).current:
                return []
            await roles.require_owner(connection)
            # A session lock, because each migration is its own transaction. It ends with the connection.
            await connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
            await roles.ensure(connection)
            await roles.assume(connection)
            status = await _read_status(connection)
            if status.fault:
                raise SchemaError(status.fault)
            applied: list[AppliedMigration] = []
            for migration in status.pending:
                if on_progress:
                    on_progress(migration)
                applied.append(await _apply_with_retries(connection, migration))
            return applied


async def drop_schema(url: str) -> None:
    """Drop the schema and disconnect its users. Only the demo does this; it starts empty each time."""
    async with await connect(url) as connection:
        with translate_errors():
            await connection.execute(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND pg_has_role(usesysid, 'USAGE')
                    AND pid <> pg_backend_pid()
                """
            )
            await connection.execute("DROP SCHEMA IF EXISTS postroom CASCADE")


async def read_status(url: str) -> SchemaStatus:
    """Read which migrations are applied and pending, and what is wrong. Changes nothing."""
    async with await connect(url) as connection:
        with translate_errors():
            return await _read_status(connection)


async def raise_when_newer(database: Database) -> None:
    """Raise SchemaError once a newer version has migrated the schema.

    A process that runs on would use statements that were never tested on the newer schema.
    """
    newest = max(migration.version for migration in list_shipped())
    while True:
        with suppress(DatabaseUnavailable, TransientError):
            async with database.engine() as connection:
                cursor = await connection.execute("SELECT max(version) FROM schema_migrations")
                [row] = await cursor.fetchall()
            if row[0] > newest:
                raise SchemaError(
                    f"A newer version of Postroom migrated the database to {row[0]:04}; this version"
                    f" supports {newest:04} at most and has stopped. Start the newer version instead."
                )
        await asyncio.sleep(_WATCH_SECONDS)


async def _read_status(connection: Connection) -> SchemaStatus:
    owner = await roles.find_foreign_owner(connection)
    try:
        async with connection.transaction():
            if owner is not None:
                await roles.assume(connection, roles.ENGINE, local=True)
            applied = await _list_applied(connection)
    except errors.InsufficientPrivilege as error:  # the schema is older than the right to read these rows
        raise SchemaError(
            "The schema is not current. Run `postroom db migrate`; on your own server, with"
            f" POSTROOM_DATABASE_OWNER_URL set to the URL of {owner}."
        ) from error
    ours = {migration.version: migration for migration in list_shipped()}
    by_version = {migration.version: migration for migration in applied}
    changed = [ours[n] for n in ours if n in by_version and by_version[n].sha256 != ours[n].sha256]
    pending = [ours[n] for n in ours if n not in by_version]
    return SchemaStatus(
        applied,
        pending,
        changed,
        await roles.list_missing(connection),
        _find_fault(applied, pending, changed),
    )


def _find_fault(
    applied: Sequence[AppliedMigration], pending: Sequence[Migration], changed: Sequence[Migration]
) -> str | None:
    shipped = {migration.version for migration in list_shipped()}
    newest = max(shipped)
    for migration in applied:
        if migration.version > newest:
            return (
                f"The database has migration {_label(migration)},"
                f" but this version of Postroom ends at {newest:04}."
                " The database is newer: install the version that created it, or restore a backup."
            )
        if migration.version not in shipped:
            return (
                f"The database has migration {_label(migration)},"
                " which this version of Postroom does not know."
                " Install the version that created it, or restore a backup."
            )
    if changed:
        return (
            f"Migration {_label(changed[0])} was edited after it was applied."
            " Restore its file, and put the change into a new migration."
        )
    for migration in pending:
        if applied and migration.version < applied[-1].version:
            return (
                f"Migration {_label(migration)} was skipped: {_label(applied[-1])} is already applied."
                " Give it the next free number."
            )
    return None


def _label(migration: Migration | AppliedMigration) -> str:
    return f"{migration.version:04}_{migration.name}"


async def _list_applied(connection: Connection) -> list[AppliedMigration]:
    cursor = connection.cursor(row_factory=class_row(AppliedMigration))
    exists = await connection.execute("SELECT to_regclass('postroom.schema_migrations') IS NOT NULL")
    if (await exists.fetchone()) != (True,):
        return []
    await cursor.execute(
        "SELECT version, name, sha256, applied_at FROM postroom.schema_migrations ORDER BY version"
    )
    return await cursor.fetchall()


async def _apply_with_retries(connection: Connection, migration: Migration) -> AppliedMigration:
    attempts = 0
    while True:
        attempts += 1
        try:
            return await _apply(connection, migration)
        except psycopg.Error as error:
            is_locked = isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected)
            if not is_locked or attempts >= _TABLE_LOCK_ATTEMPTS:
                raise _to_migration_error(connection, migration, error) from error
        await asyncio.sleep(_TABLE_LOCK_PAUSE_SECONDS)


async def _apply(connection: Connection, migration: Migration) -> AppliedMigration:
    """Apply one migration in one transaction: all of it or nothing."""
    async with connection.transaction(), connection.cursor(row_factory=class_row(AppliedMigration)) as cursor:
        await cursor.execute(
            "SELECT set_config('lock_timeout', %s, true)", [f"{_TABLE_LOCK_SECONDS * 1000:.0f}ms"]
        )
        await cursor.execute(
            """
            CREATE TABLE IF NOT EXISTS schema_migrations (
                version    integer     PRIMARY KEY,
                name       text        NOT NULL,
                sha256     text        NOT NULL,
                applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
            )
            """
        )
        await cursor.execute(migration.statements)
        await cursor.execute(
            """
            INSERT INTO schema_migrations (version, name, sha256) VALUES (%s, %s, %s)
            RETURNING version, name, sha256, applied_at
            """,
            [migration.version, migration.name, migration.sha256],
        )
        rows = await cursor.fetchall()
    return rows[0]


def _to_migration_error(connection: Connection, migration: Migration, error: psycopg.Error) -> PostroomError:
    """Which migration failed, why, and what to do. The class says whether the database is at fault."""
    failed = f"Migration {_label(migration)} failed and was rolled back"
    again = "Earlier migrations are kept. Run `postroom db migrate` again to continue with this one."
    if isinstance(error, errors.InsufficientPrivilege):
        return SchemaError(
            f"{failed}: it needs a privilege that the role {connection.info.user} lacks"
            f" ({error.diag.message_primary}). Ask a database administrator to grant it. {again}"
        )
    if isinstance(error, errors.LockNotAvailable | errors.DeadlockDetected):
        return TransientError(
            f"{failed}: other transactions keep locking its tables. Wait until backups and long queries have"
            f" ended, or stop Postroom's processes. {again}"
        )
    known = to_postroom_error(error)
    if isinstance(known, DatabaseUnavailable | TransientError):
        return type(known)(f"{failed}: {known} {again}")
    # An invalid value (class 22) is named in the message, and may be personal.
    reason = "invalid data" if (error.sqlstate or "").startswith("22") else error.diag.message_primary
    return SchemaError(f"{failed}: {type(error).__name__}, {reason}. Please report it. {again}")
