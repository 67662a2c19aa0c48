"""Migrations are applied once, in order, and faults are reported clearly."""

import asyncio
from urllib.parse import urlsplit

import pytest

from databases import session
from postroom.errors import DatabaseUnavailable, SchemaError
from postroom.store import schema_migrations as migrations
from postroom.store.schema_migrations import list_shipped, migrate, read_status
from rules.test_vocabulary import find_avoided

VERSIONS = [migration.version for migration in list_shipped()]


def test_migrations_are_numbered_without_a_gap():
    assert list(range(1, len(VERSIONS) + 1)) == VERSIONS


async def test_names_in_the_schema_keep_to_the_glossary(owner):
    """The rule for files skips the first migrations, which cannot be changed; later ones renamed things."""
    cursor = await owner.execute(
        """
        SELECT relname FROM pg_class WHERE relnamespace = 'postroom'::regnamespace
        UNION SELECT attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
          WHERE relnamespace = 'postroom'::regnamespace AND NOT attisdropped
        UNION SELECT proname FROM pg_proc WHERE pronamespace = 'postroom'::regnamespace
        UNION SELECT conname FROM pg_constraint WHERE connamespace = 'postroom'::regnamespace
        """
    )
    names = [row[0] for row in await cursor.fetchall()]
    assert "work" in names
    assert [name for name in names if find_avoided(name)] == []


async def test_migrate_reports_progress_and_returns_applied_migrations(empty_database_url):
    names: list[str] = []
    applied = await migrate(empty_database_url, lambda migration: names.append(migration.name))
    assert [migration.version for migration in applied] == VERSIONS
    assert names == [migration.name for migration in list_shipped()]
    assert await migrate(empty_database_url) == []


async def test_status_of_an_empty_database_lists_everything_as_pending(empty_database_url):
    found = await read_status(empty_database_url)
    assert [migration.version for migration in found.pending] == VERSIONS
    assert found.applied == []
    assert not found.current
    assert found.fault is None


async def test_a_start_on_a_current_schema_does_not_wait_for_the_lock(database_url, owner):
    await owner.execute("SELECT pg_advisory_lock(%s)", [migrations._LOCK])
    assert await asyncio.wait_for(migrate(database_url), timeout=60) == []


async def test_edited_migration_is_an_error(database_url, owner):
    await owner.execute("UPDATE schema_migrations SET sha256 = 'something else' WHERE version = 1")
    with pytest.raises(SchemaError, match=r"0001_ground was edited after .* new migration"):
        await migrate(database_url)
    found = await read_status(database_url)
    assert [migration.name for migration in found.changed] == ["ground"]
    assert not found.current


async def test_newer_database_is_an_error(database_url, owner):
    await owner.execute("INSERT INTO schema_migrations VALUES (9001, 'of_tomorrow', '', now())")
    with pytest.raises(SchemaError, match=r"9001_of_tomorrow.*newer: install"):
        await migrate(database_url)


async def test_unknown_migration_is_an_error(database_url, owner):
    await owner.execute("INSERT INTO schema_migrations VALUES (0, 'of_elsewhere', '', now())")
    with pytest.raises(SchemaError, match="0000_of_elsewhere, which this version of Postroom does not know"):
        await migrate(database_url)


async def test_skipped_migration_is_an_error(database_url, owner):
    await owner.execute("DELETE FROM schema_migrations WHERE version = 2")
    with pytest.raises(SchemaError, match=r"0002_work was skipped.*next free number"):
        await migrate(database_url)


async def test_failed_migration_leaves_nothing_and_the_next_attempt_continues(empty_database_url):
    async with session(empty_database_url) as connection:
        await connection.execute("CREATE SCHEMA postroom")
        await connection.execute("CREATE TABLE failures ()")
        with pytest.raises(SchemaError, match=r"0003_mailboxes failed .*DuplicateTable.*already exists"):
            await migrate(empty_database_url)
        assert [applied.version for applied in (await read_status(empty_database_url)).applied] == [1, 2]
        cursor = await connection.execute("SELECT to_regclass('mailboxes')")
        assert await cursor.fetchone() == (None,)
        await connection.execute("DROP TABLE failures")
    assert [applied.version for applied in await migrate(empty_database_url)] == VERSIONS[2:]


async def test_a_read_only_database_is_a_clear_error(empty_database_url, database_server):
    name = urlsplit(empty_database_url).path[1:]
    database_server.connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        await migrate(empty_database_url)
