"""The shared table (K6) has the scheduler's columns and separates organizations."""

import pytest
from psycopg import errors

from databases import session
from postroom.store.roles import APPLICATION
from postroom.store.schema_migrations import migrate

# As the scheduler's own statements name and expect them.
COLUMNS = [
    ("id", "bigint", True),
    ("app_name", "character varying(100)", True),
    ("message_id", "character varying(255)", True),
    ("mailbox_email", "character varying(255)", True),
    ("sender_email", "character varying(255)", False),
    ("received_at", "timestamp with time zone", False),
    ("subject", "text", False),
    ("status", "character varying(20)", True),
    ("error_message", "text", False),
    ("attachments_processed", "integer", True),
    ("trades_extracted", "integer", True),
    ("archive_gcs_paths", "jsonb", False),
    ("worker_id", "character varying(255)", False),
    ("created_at", "timestamp with time zone", True),
    ("updated_at", "timestamp with time zone", True),
]
CLAIM = """
    INSERT INTO bo_airflow.email_ingestion_state (app_name, message_id, mailbox_email, worker_id)
    VALUES ('notes', %s, %s, 'us')
    ON CONFLICT (app_name, message_id) DO UPDATE SET worker_id = excluded.worker_id RETURNING status
"""


async def test_the_columns_are_the_schedulers(owner):
    cursor = await owner.execute(
        """
        SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute
        WHERE attrelid = 'bo_airflow.email_ingestion_state'::regclass AND attnum > 0 ORDER BY attnum
        """
    )
    assert await cursor.fetchall() == COLUMNS


async def test_an_organization_claims_for_its_own_mailboxes(database_url, organization, make_mailbox):
    await make_mailbox(organization, address="notes@example.org")
    async with session(database_url, APPLICATION, organization) as us:
        for _ in range(2):
            cursor = await us.execute(CLAIM, ["m1", "Notes@Example.org"])
            assert await cursor.fetchall() == [("processing",)]


async def test_an_organization_neither_sees_nor_claims_for_anothers_mailboxes(
    database_url, organization, other_organization, make_mailbox
):
    await make_mailbox(other_organization, address="notes@example.org")
    async with session(database_url, APPLICATION, other_organization) as they:
        await they.execute(CLAIM, ["m1", "notes@example.org"])
    async with session(database_url, APPLICATION, organization) as us:
        cursor = await us.execute("SELECT count(*) FROM bo_airflow.email_ingestion_state")
        assert await cursor.fetchone() == (0,)
        for message in ("m1", "m2"):
            with pytest.raises(errors.InsufficientPrivilege):
                await us.execute(CLAIM, [message, "notes@example.org"])


async def test_a_table_that_the_other_side_made_is_left_as_it_is(empty_database_url):
    async with session(empty_database_url) as connection:
        await connection.execute("CREATE SCHEMA bo_airflow")
        await connection.execute("CREATE TABLE bo_airflow.email_ingestion_state (theirs text)")
        await migrate(empty_database_url)
        cursor = await connection.execute("SELECT theirs FROM bo_airflow.email_ingestion_state")
        assert await cursor.fetchall() == []
