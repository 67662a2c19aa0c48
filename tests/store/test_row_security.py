"""Row-level security separates organizations in every table, without a WHERE in the queries."""

import pytest
from psycopg import errors

from databases import session
from postroom.store.roles import APPLICATION, ENGINE
from store.catalog_checks import list_crossing_foreign_keys, list_public_grants, list_unguarded_tables
from store.table_filler import SHARED, TableFiller, insert_statement, organization_column, organization_tables

# All that the engine can read besides `work`: what leads from a push, a login or a key to an organization.
LOOKUPS = {
    "api_keys": {
        "id",
        "organization_id",
        "key_sha256",
        "scopes",
        "expires_at",
        "revoked_at",
        "records_calls",
    },
    "blob_location": {"only_row", "location", "set_at"},
    "clock_offset": {"only_row", "ahead"},
    "metric_snapshot": {"only_row", "measured_at", "samples"},
    "mailboxes": {
        "id",
        "organization_id",
        "provider",
        "account_id",
        "address",
        "connected_at",
        "disconnected_at",
        "last_synced_at",
        "last_notified_at",
    },
    "members": {"id", "organization_id", "address", "oidc_issuer", "oidc_subject"},
    "oauth_states": {"state_sha256", "organization_id", "expires_at"},
    "organizations": {"id", "name"},
    "schema_migrations": {"version", "name", "sha256", "applied_at"},
    "sessions": {"token_sha256", "organization_id", "expires_at"},
    "subscriptions": {
        "id",
        "organization_id",
        "mailbox_id",
        "provider_subscription_id",
        "client_state_sha256",
        "status",
        "replaced_at",
        "last_notified_at",
        "reauthorization_requested_at",
        "removal_reported_at",
    },
    "notifications": {"organization_id", "mailbox_id", "message_ids", "missed_from", "missed_until"},
}


@pytest.fixture
async def ours(owner, organization):
    filling = TableFiller(owner, organization)
    await filling.fill()
    return filling


@pytest.fixture
async def theirs(owner, other_organization):
    filling = TableFiller(owner, other_organization)
    await filling.fill()
    return filling


@pytest.fixture
async def us(database_url, organization):
    async with session(database_url, APPLICATION, organization) as connection:
        yield connection


@pytest.fixture
async def unassigned(database_url):
    async with session(database_url, APPLICATION) as connection:
        yield connection


@pytest.fixture
async def engine(database_url):
    async with session(database_url, ENGINE) as connection:
        yield connection


async def may(connection, table, privilege):
    cursor = await connection.execute("SELECT has_table_privilege(%s, %s)", [table, privilege])
    return await cursor.fetchone() == (True,)


async def test_every_table_is_guarded(owner):
    assert await list_unguarded_tables(owner) == []


BADLY_GUARDED = {
    "not at all": "CREATE TABLE newcomer (organization_id uuid)",
    "of no organization": "CREATE TABLE newcomer (note text)",
    "without a policy": """
        CREATE TABLE newcomer (organization_id uuid);
        ALTER TABLE newcomer ENABLE ROW LEVEL SECURITY""",
    "by a policy that compares nothing": """
        CREATE TABLE newcomer (organization_id uuid);
        ALTER TABLE newcomer ENABLE ROW LEVEL SECURITY;
        CREATE POLICY organization ON newcomer TO postroom_application USING (true)""",
    "with a second policy that opens it again": """
        CREATE TABLE newcomer (organization_id uuid);
        CALL belongs_to_organization('newcomer');
        CREATE POLICY too_much ON newcomer FOR SELECT USING (true)""",
    "against the owner too": """
        CREATE TABLE newcomer (organization_id uuid);
        CALL belongs_to_organization('newcomer');
        ALTER TABLE newcomer FORCE ROW LEVEL SECURITY""",
    "by a view, which reads as its owner": "CREATE VIEW newcomer AS SELECT * FROM mailboxes",
}


async def test_a_new_table_without_a_proper_guard_is_found(owner):
    for how, statements in BADLY_GUARDED.items():
        async with owner.transaction(force_rollback=True):
            await owner.execute(statements)
            [fault] = await list_unguarded_tables(owner)
            assert fault.startswith("newcomer: "), how


async def test_a_new_table_under_the_guard_passes(owner):
    await owner.execute("CREATE TABLE newcomer (organization_id uuid)")
    await owner.execute("CALL belongs_to_organization('newcomer')")
    assert await list_unguarded_tables(owner) == []


async def test_no_foreign_key_crosses_organizations(owner):
    assert await list_crossing_foreign_keys(owner) == []


async def test_public_has_no_privileges(owner):
    assert await list_public_grants(owner) == []


async def test_an_organization_reads_its_own_rows_and_no_others(owner, us, ours, theirs):
    for table in await organization_tables(owner):
        cursor = await us.execute(f"SELECT DISTINCT {organization_column(table)} FROM {table}")
        assert await cursor.fetchall() == [(ours.organization,)], table


async def test_an_organization_updates_no_rows_of_another(owner, us, ours, theirs):
    for table in await organization_tables(owner):
        key = organization_column(table)
        if await may(us, table, "UPDATE"):
            change = f"UPDATE {table} SET {key} = {key} WHERE {key} = %s"
            assert (await us.execute(change, [ours.organization])).rowcount == 1, table
            assert (await us.execute(change, [theirs.organization])).rowcount == 0, table
        else:
            with pytest.raises(errors.InsufficientPrivilege):
                await us.execute(f"UPDATE {table} SET {key} = {key}")


async def test_an_organization_moves_no_row_to_another(owner, us, ours, theirs):
    for table in await organization_tables(owner):
        with pytest.raises(errors.InsufficientPrivilege):
            await us.execute(f"UPDATE {table} SET {organization_column(table)} = %s", [theirs.organization])


async def test_an_organization_deletes_no_rows_of_another(owner, us, ours, theirs):
    for table in await organization_tables(owner):
        if await may(us, table, "DELETE"):
            cursor = await us.execute(
                f"DELETE FROM {table} WHERE {organization_column(table)} = %s", [theirs.organization]
            )
            assert cursor.rowcount == 0, table
        else:
            with pytest.raises(errors.InsufficientPrivilege):
                await us.execute(f"DELETE FROM {table}")


async def test_an_organization_truncates_nothing(owner, us):
    for table in await organization_tables(owner):
        with pytest.raises(errors.InsufficientPrivilege):
            await us.execute(f"TRUNCATE {table} CASCADE")


async def test_an_organization_inserts_no_rows_for_another(owner, us, ours, theirs):
    for table in await organization_tables(owner):
        values = theirs.rows[table]
        with pytest.raises(errors.InsufficientPrivilege):
            await us.execute(insert_statement(table, values), list(values.values()))


async def test_an_organization_inserts_rows_for_itself(database_url, owner, organization):
    """The counterpart, so that the refusals above mean something."""
    async with session(database_url, APPLICATION, organization) as connection:
        filling = TableFiller(connection, organization)
        await filling.fill()
        read_only = {"figures", "ledger_boundaries", "resource_uses"}
        assert set(await organization_tables(owner)) - set(filling.rows) == read_only


async def test_without_an_organization_nothing_is_seen_and_nothing_is_written(owner, unassigned, ours):
    for table in await organization_tables(owner):
        cursor = await unassigned.execute(f"SELECT count(*) FROM {table}")
        assert await cursor.fetchone() == (0,), table
        with pytest.raises(errors.InsufficientPrivilege):
            await unassigned.execute(
                insert_statement(table, ours.rows[table]), list(ours.rows[table].values())
            )


async def test_organization_setting_ends_with_its_transaction(database_url, organization):
    async with session(database_url, APPLICATION) as connection:
        async with connection.transaction():
            await connection.execute(
                "SELECT set_config('postroom.organization', %s, true)", [str(organization)]
            )
            cursor = await connection.execute("SELECT count(*) FROM organizations")
            assert await cursor.fetchone() == (1,)
        cursor = await connection.execute("SELECT count(*) FROM organizations")
        assert await cursor.fetchone() == (0,)


async def test_the_engine_reads_work_and_lookup_columns_and_nothing_else(owner, engine):
    cursor = await owner.execute(
        """
        SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'postroom'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') AND attnum > 0
          AND relname NOT IN ('work', 'backlogs', 'resource_uses')
          AND has_column_privilege(%s, attrelid, attnum, 'SELECT')
        """,
        [ENGINE],
    )
    readable: dict[str, set[str]] = {}
    for table, column in await cursor.fetchall():
        readable.setdefault(table, set()).add(column)
    assert readable == LOOKUPS


async def test_the_engine_writes_only_a_few_tables(owner, engine):
    cursor = await owner.execute(
        """
        SELECT DISTINCT relname FROM pg_class, unnest('{INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) AS privilege
        WHERE relnamespace = 'postroom'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
          AND has_table_privilege(%s, pg_class.oid, privilege)
        ORDER BY 1
        """,
        [ENGINE],
    )
    assert await cursor.fetchall() == [
        ("backlogs",),
        ("blob_location",),
        ("metric_snapshot",),
        ("notifications",),
        ("resource_uses",),
        ("work",),
    ]
    cursor = await owner.execute(
        """
        SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'postroom'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') AND attnum > 0
          AND (has_column_privilege(%s, attrelid, attnum, 'UPDATE')
               OR has_column_privilege(%s, attrelid, attnum, 'INSERT'))
          AND relname NOT IN (
              'backlogs', 'blob_location', 'metric_snapshot', 'notifications', 'resource_uses', 'work'
          )
        ORDER BY 1, 2
        """,
        [ENGINE, ENGINE],
    )
    assert await cursor.fetchall() == [
        ("mailboxes", "last_notified_at"),
        ("subscriptions", "last_notified_at"),
        ("subscriptions", "reauthorization_requested_at"),
        ("subscriptions", "removal_reported_at"),
    ]


async def test_the_engine_looks_up_across_organizations(engine, ours, theirs):
    for table, columns in LOOKUPS.items():
        if table not in SHARED:
            cursor = await engine.execute(f"SELECT {', '.join(columns)} FROM {table}")
            assert len(await cursor.fetchall()) == 2, table
    cursor = await engine.execute("SELECT count(*) FROM work")
    assert await cursor.fetchone() == (2,)


async def test_the_owner_changes_rows_of_all_organizations_in_a_data_migration(owner, ours, theirs):
    cursor = await owner.execute("UPDATE mailboxes SET folder = 'Inbox'")
    assert cursor.rowcount == 2


async def test_only_the_owner_moves_the_clock(us, engine, owner, move_clock):
    for connection in (us, engine):
        with pytest.raises(errors.InsufficientPrivilege):
            await connection.execute("UPDATE clock_offset SET ahead = interval '1 day'")
    await move_clock(86400)
    for connection in (us, engine, owner):
        cursor = await connection.execute("SELECT postroom_now() - clock_timestamp() > interval '23 hours'")
        assert await cursor.fetchone() == (True,)


async def test_only_a_few_functions_run_as_the_owner(owner):
    """The application's functions compare the organization themselves; the engine's return ids and counts."""
    cursor = await owner.execute(
        """
        SELECT proname, has_function_privilege(%s, oid, 'EXECUTE'), has_function_privilege(%s, oid, 'EXECUTE')
        FROM pg_proc WHERE pronamespace = 'postroom'::regnamespace AND prosecdef ORDER BY 1
        """,
        [APPLICATION, ENGINE],
    )
    assert await cursor.fetchall() == [
        ("delete_ledger_personal", True, False),
        ("health_metrics", False, True),
        ("labelled_messages", True, False),
        ("metrics", False, True),
        ("move_numbers_ahead", False, True),
        ("needs_archived_copy", False, True),
        ("number_ledger", True, False),
        ("organizations_to_seal", False, True),
        ("quota_and_latency_metrics", False, True),
        ("record_figures", False, True),
        ("some_matching_documents", True, False),
        ("some_matching_messages", True, False),
    ]
