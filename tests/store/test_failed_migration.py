"""A migration that fails in the middle is rolled back as a whole, and the next run continues."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from databases import session
from postroom.errors import DatabaseUnavailable, SchemaError, TransientError
from postroom.store import schema_migrations
from postroom.store.schema_migrations import list_shipped, migrate, read_status
from store.embedded_homes import ask, until

# The migration that the tests interrupt: it renames `listed` first, and reaches `work` in the middle.
INTERRUPTED = 34
LATER = [migration.version for migration in list_shipped() if migration.version >= INTERRUPTED]
SOURCES = Path(__file__).parents[2] / "src"
WAITING = """
    SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
    AND relation = 'postroom.work'::regclass
"""
MIGRATING = """
    SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE locktype = 'advisory' AND granted AND datname = current_database()
"""
RENAMED = "SELECT to_regclass('postroom.listed') IS NOT NULL, to_regclass('postroom.listed_messages') IS NULL"


@pytest.fixture
async def earlier_url(empty_database_url, monkeypatch):
    """A database before the migration that the tests interrupt, with one work item."""
    earlier = tuple(migration for migration in list_shipped() if migration.version < INTERRUPTED)
    with monkeypatch.context() as patch:
        patch.setattr(schema_migrations, "list_shipped", lambda: earlier)
        await migrate(empty_database_url)
    async with session(empty_database_url) as connection:
        await connection.execute(
            """
            WITH example AS (INSERT INTO organizations (name) VALUES ('example') RETURNING id)
            INSERT INTO work (organization_id, kind, subject) SELECT id, 'collect', 'example' FROM example
            """
        )
    return empty_database_url


async def assert_continues(url):
    """Nothing of the failed migration is left, and a second run applies it and the later ones."""
    assert ask(url, RENAMED) == (True, True)
    assert ask(url, "SELECT max(version) FROM postroom.schema_migrations") == (INTERRUPTED - 1,)
    assert ask(url, "SELECT kind, subject FROM postroom.work") == ("collect", "example")
    assert [applied.version for applied in await migrate(url)] == LATER
    assert ask(url, "SELECT kind, subject FROM postroom.work") == ("collect_garbage", "example")
    assert (await read_status(url)).current


@pytest.mark.parametrize(
    "state, error",
    [("P0001", SchemaError), ("53100", DatabaseUnavailable)],
    ids=["statement", "disk-full"],
)
async def test_statement_error_names_the_migration_and_its_cause(earlier_url, state, error):
    async with session(earlier_url) as connection:
        await connection.execute(
            f"""
            CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '{state}'; END $$;
            CREATE TRIGGER fail BEFORE UPDATE ON work EXECUTE FUNCTION fail();
            """
        )
        with pytest.raises(
            error, match=r"0034_plain_names failed and was rolled back: .*no space left.*again"
        ):
            await migrate(earlier_url)
        await connection.execute("DROP TRIGGER fail ON work; DROP FUNCTION fail")
    await assert_continues(earlier_url)


async def test_killed_process_leaves_nothing_of_its_migration(earlier_url):
    with psycopg.connect(earlier_url) as other:
        other.execute("LOCK TABLE postroom.work IN ACCESS SHARE MODE")
        environment = {**os.environ, "PYTHONPATH": str(SOURCES), "POSTROOM_DATABASE_URL": earlier_url}
        command = [sys.executable, "-m", "postroom", "db", "migrate"]
        process = subprocess.Popen(command, env=environment)  # noqa: ASYNC220
        until(lambda: ask(earlier_url, WAITING) == (1,), "the migration is in its middle")
        process.kill()
        process.wait()
    until(lambda: ask(earlier_url, MIGRATING) is None, "the server has ended the transaction")
    await assert_continues(earlier_url)


async def test_lost_connection_names_the_migration(earlier_url):
    with psycopg.connect(earlier_url) as other:
        other.execute("LOCK TABLE postroom.work IN ACCESS SHARE MODE")
        migrating = asyncio.create_task(migrate(earlier_url))
        await asyncio.to_thread(until, lambda: ask(earlier_url, WAITING) == (1,), "the migration waits")
        ask(earlier_url, f"SELECT pg_terminate_backend(pid) FROM ({MIGRATING}) AS migrating")
        with pytest.raises(DatabaseUnavailable, match="0034_plain_names failed and was rolled back"):
            await migrating
    await assert_continues(earlier_url)


async def test_waiting_migration_lets_running_processes_work(earlier_url):
    """A reader that came after the waiting migration gets its turn before the migration does."""
    with psycopg.connect(earlier_url) as other:
        other.execute("LOCK TABLE postroom.work IN ACCESS SHARE MODE")
        migrating = asyncio.create_task(migrate(earlier_url))
        await asyncio.to_thread(until, lambda: ask(earlier_url, WAITING) == (1,), "the migration waits")
        assert await asyncio.to_thread(ask, earlier_url, "SELECT kind FROM postroom.work") == ("collect",)
        assert not migrating.done()
    assert [applied.version for applied in await migrating] == LATER


async def test_tables_that_stay_locked_are_reported(earlier_url, monkeypatch):
    monkeypatch.setattr(schema_migrations, "_TABLE_LOCK_SECONDS", 0.1)
    monkeypatch.setattr(schema_migrations, "_TABLE_LOCK_ATTEMPTS", 2)
    with psycopg.connect(earlier_url) as other:
        other.execute("LOCK TABLE postroom.work IN ACCESS SHARE MODE")
        with pytest.raises(
            TransientError, match=r"0034_plain_names failed .*other transactions keep locking"
        ):
            await migrate(earlier_url)
    await assert_continues(earlier_url)
