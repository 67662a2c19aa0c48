"""Apply the numbered migration files, check them against `schema_migrations`; drop the schema.

Migrations go forward only, and each is applied once. A file edited after it was applied, an unknown number
and a skipped number are errors; nothing is repaired by guessing. Only the demo drops the schema.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files

from psycopg import errors
from psycopg.rows import class_row

from postroom.errors import SchemaError
from postroom.store import roles
from postroom.store.connection import Connection, connect
from postroom.store.database_errors import translate_errors

# The advisory lock of all migrating processes. The value is arbitrary but must never change.
_LOCK = 0x706F7374726F6F6D


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
            # A session lock, because each migration is its own transaction. It ends with the connection.
            await connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
            await roles.ensure(connection)
            await roles.assume(connection)
            status = await _read_status(connection)
            if status.fault:
                raise SchemaError(status.fault)
            return [await _apply(connection, migration, on_progress) for migration in status.pending]


async def drop_schema(url: str) -> None:
    """Drop the schema and disconnect its users. Only the demo does this; it starts empty each time."""
    async with await connect(url) as connection:
        with translate_errors():
            await connection.execute(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()
                """
            )
            await connection.execute("DROP SCHEMA IF EXISTS postroom CASCADE")


async def read_status(url: str) -> SchemaStatus:
    """Read which migrations are applied and pending, and what is wrong. Changes nothing."""
    async with await connect(url) as connection:
        with translate_errors():
            return await _read_status(connection)


async def _read_status(connection: Connection) -> SchemaStatus:
    applied = await _list_applied(connection)
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


async def _apply(
    connection: Connection, migration: Migration, on_progress: Callable[[Migration], None] | None
) -> AppliedMigration:
    if on_progress:
        on_progress(migration)
    async with connection.transaction(), connection.cursor(row_factory=class_row(AppliedMigration)) as cursor:
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
        try:
            await cursor.execute(migration.statements)
        except errors.InsufficientPrivilege as error:
            raise SchemaError(
                f"Migration {_label(migration)} needs a privilege that the role {connection.info.user} lacks"
                f" ({error.diag.message_primary}). Ask a database administrator to grant it."
            ) from error
        await cursor.execute(
            """
            INSERT INTO schema_migrations (version, name, sha256) VALUES (%s, %s, %s)
            RETURNING version, name, sha256, applied_at
            """,
            [migration.version, migration.name, migration.sha256],
        )
        rows = await cursor.fetchall()
    return rows[0]
