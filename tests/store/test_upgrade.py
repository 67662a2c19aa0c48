"""A database of an earlier schema is upgraded with its data."""

from uuid import uuid4

import pytest

from databases import session
from postroom.store import schema_migrations
from postroom.store.schema_migrations import list_shipped, migrate
from store.table_filler import TableFiller, organization_tables
from upgrades.row_comparison import KINDS, TABLES, assert_kept, read_all_rows

LAST_EARLIER_VERSION = 33


@pytest.fixture
async def earlier_database(empty_database_url, monkeypatch):
    """A database of the schema before plain names, with a row in every table."""
    earlier = tuple(each for each in list_shipped() if each.version <= LAST_EARLIER_VERSION)
    with monkeypatch.context() as patch:
        patch.setattr(schema_migrations, "list_shipped", lambda: earlier)
        await migrate(empty_database_url)
    organization = uuid4()
    async with session(empty_database_url) as connection:
        await connection.execute("INSERT INTO organizations VALUES (%s, 'example')", [organization])
        await TableFiller(connection, organization).fill()
        await connection.execute("DELETE FROM work")
        for kind in (*KINDS, "sync"):
            await connection.execute(
                """
                INSERT INTO work (organization_id, kind, subject, due_at, woken_at, carried_until, lost)
                VALUES (%s, %s, 'example', now(), now(), now(), 3)
                """,
                [organization, kind],
            )
            await connection.execute(
                "INSERT INTO backlogs VALUES (%s, date_trunc('minute', now()), %s, 5)", [organization, kind]
            )
        await connection.execute("UPDATE watched_files SET taken_at = now(), refused = 'too large'")
        await connection.execute("UPDATE subscriptions SET reauthorization_told_at = now()")
        await connection.execute("UPDATE subscriptions SET removal_told_at = now()")
    return empty_database_url


async def test_upgrade_keeps_the_rows_of_every_table(earlier_database):
    async with session(earlier_database) as connection:
        before = await read_all_rows(connection)
        assert set(TABLES) <= set(before)
        assert all(before[table] for table in await organization_tables(connection))
    await migrate(earlier_database)
    async with session(earlier_database) as connection:
        assert_kept(before, await read_all_rows(connection))


async def test_upgrade_enqueues_the_search_index_of_stored_attachments(earlier_database):
    await migrate(earlier_database)
    async with session(earlier_database) as connection:
        cursor = await connection.execute(
            """
            SELECT count(*) = (SELECT count(DISTINCT organization_id) FROM attachments) AND count(*) > 0
            FROM work WHERE kind = 'index_file_names' AND due_at <= postroom_now()
            """
        )
        assert await cursor.fetchone() == (True,)


async def test_upgrade_states_what_was_inferred_about_work(earlier_database):
    async with session(earlier_database) as connection:
        await connection.execute(
            """
            INSERT INTO work (organization_id, kind, subject, due_at, attempts, last_error, lease_token,
                leased_until)
            SELECT id, 'sync', subject, due_at, attempts, error, token, until FROM organizations
            CROSS JOIN (VALUES
                ('leased', now(), 1, NULL, gen_random_uuid(), now()),
                ('leased_before_parked', NULL, 1, 'failed', gen_random_uuid(), now()),
                ('parked', NULL, 3, 'failed', NULL, NULL),
                ('waiting', now(), 0, NULL, NULL, NULL),
                ('waiting_for_operator', now(), 0, 'secret expired', NULL, NULL),
                ('waiting_to_retry', now(), 2, 'failed', NULL, NULL)
            ) AS work (subject, due_at, attempts, error, token, until)
            """
        )
    await migrate(earlier_database)
    async with session(earlier_database) as connection:
        cursor = await connection.execute(
            "SELECT subject, state FROM work WHERE kind = 'sync' AND subject <> 'example' ORDER BY subject"
        )
        assert await cursor.fetchall() == [
            ("leased", "leased"),
            ("leased_before_parked", "leased"),
            ("parked", "parked"),
            ("waiting", "waiting"),
            ("waiting_for_operator", "waiting_for_operator"),
            ("waiting_to_retry", "waiting"),
        ]


async def test_upgrade_renames_constraints_with_their_tables(earlier_database):
    await migrate(earlier_database)
    async with session(earlier_database) as connection:
        cursor = await connection.execute(
            """
            SELECT conrelid::regclass::text, conname FROM pg_constraint
            WHERE connamespace = 'postroom'::regnamespace
                AND NOT starts_with(conname, conrelid::regclass::text || '_')
                AND contype IN ('p', 'u', 'f', 'c')
            """
        )
        assert await cursor.fetchall() == []


async def test_every_table_has_a_comment(database_url):
    async with session(database_url) as connection:
        cursor = await connection.execute(
            """
            SELECT relname FROM pg_class
            WHERE relnamespace = 'postroom'::regnamespace AND relkind IN ('r', 'p')
                AND obj_description(oid, 'pg_class') IS NULL
            """
        )
        assert await cursor.fetchall() == []
