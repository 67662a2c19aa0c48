"""psql, backup and restore: a restore brings back everything or changes nothing."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import databases
from postroom.errors import DatabaseUnavailable, OperatorError, SettingsError
from postroom.model import WorkKind
from postroom.store import pg_programs, schema_migrations, work
from postroom.store.embedded import binaries
from postroom.store.roles import APPLICATION, ENGINE
from store.embedded_homes import ask, environment, until

TABLES = """
    SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE nspname = 'postroom' AND relkind = 'r' ORDER BY relname
"""
RULES = """
    SELECT (SELECT array_agg(format('%s %s %s', tablename, policyname, roles) ORDER BY tablename, policyname)
            FROM pg_policies WHERE schemaname = 'postroom'),
           (SELECT array_agg(format('%s %s', relname, relacl) ORDER BY relname)
            FROM pg_class WHERE relnamespace = 'postroom'::regnamespace),
           (SELECT nspacl::text FROM pg_namespace WHERE nspname = 'postroom')
"""


@pytest.fixture
def empty_url(database_server):
    url = database_server.create("template1")
    yield url
    database_server.drop(url)


@pytest.fixture
async def mailbox(make_mailbox, organization):
    """Something to lose."""
    return await make_mailbox(organization, address="jane@example.org")


def contents(url):
    """Every row of every table, as text."""
    with psycopg.connect(url) as connection:
        names = [name for [name] in connection.execute(TABLES)]
        return {
            name: sorted(str(row) for row in connection.execute(f'SELECT t::text FROM postroom."{name}" t'))
            for name in names
        }


def dump_everything(url, file):
    command = [binaries.find_binaries().program("pg_dump"), "--format=custom", f"--file={file}", url]
    subprocess.run(command, check=True)


async def test_restore_brings_back_rows_and_policies(database_url, empty_url, mailbox, tmp_path):
    await pg_programs.backup(database_url, tmp_path / "backup")
    await pg_programs.restore(empty_url, tmp_path / "backup")
    assert contents(empty_url) == contents(database_url)
    assert len(contents(empty_url)["mailboxes"]) == 1
    assert ask(empty_url, RULES) == ask(database_url, RULES)
    assert (await schema_migrations.read_status(empty_url)).current


async def test_sequences_continue_after_a_restore(database_url, empty_url, owner, organization, tmp_path):
    statement = (
        "INSERT INTO postroom.work (organization_id, kind, subject) VALUES (%s, 'sync', %s) RETURNING id"
    )
    [before] = await (await owner.execute(statement, [organization, "one"])).fetchone()
    await pg_programs.backup(database_url, tmp_path / "backup")
    await pg_programs.restore(empty_url, tmp_path / "backup")
    async with databases.session(empty_url) as restored:
        [after] = await (await restored.execute(statement, [organization, "two"])).fetchone()
    assert after > before


async def test_a_restored_backup_repeats_no_number(database_url, empty_url, owner, organization, tmp_path):
    """What was numbered after the backup was seen by other programs, and must not be numbered again."""
    last_event = "SELECT last_value FROM postroom.events_id_seq"
    async with databases.open_pools(database_url):
        await pg_programs.backup(database_url, tmp_path / "backup")
    await pg_programs.restore(empty_url, tmp_path / "backup")
    async with databases.open_pools(empty_url) as restored, restored.engine() as connection:
        claim = await work.claim(connection, [WorkKind.RECOVER], batch=10, lease_seconds=60)
    assert [lease.organization for lease in claim.leases] == [organization]
    assert ask(empty_url, last_event)[0] > 1_000_000 > ask(database_url, last_event)[0]


async def test_a_backup_of_the_embedded_server_comes_back_on_an_older_one(tmp_path):
    """The way from the embedded database to a server of one's own."""
    if databases.GIVEN:
        pytest.skip("the run has a server of its own, and only that one")
    servers = Path(os.environ["TEST_SERVERS"])
    with databases.server(servers, 18) as new, databases.server(servers, 16) as old:
        source, target = new.create(), old.create("template1")
        try:
            await pg_programs.backup(source, tmp_path / "backup")
            await pg_programs.restore(target, tmp_path / "backup")
            assert (await schema_migrations.read_status(target)).current
        finally:
            new.drop(source)
            old.drop(target)


async def test_backup_is_readable_by_its_owner_only_and_leaves_no_other_file(database_url, tmp_path):
    await pg_programs.backup(database_url, tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]
    assert stat.S_IMODE((tmp_path / "backup").stat().st_mode) == 0o600


async def test_a_backup_overwrites_only_when_asked(database_url, tmp_path):
    file = tmp_path / "backup"
    file.write_text("precious")
    with pytest.raises(OperatorError, match="already exists"):
        await pg_programs.backup(database_url, file)
    assert file.read_text() == "precious"
    await pg_programs.backup(database_url, file, overwrite=True)
    assert file.read_bytes().startswith(b"PGDMP")


async def test_backup_to_an_unwritable_path_is_an_error(database_url, tmp_path):
    with pytest.raises(OperatorError, match="is a directory"):
        await pg_programs.backup(database_url, tmp_path)
    with pytest.raises(OperatorError, match=r"Cannot write .*No such file or directory"):
        await pg_programs.backup(database_url, tmp_path / "missing" / "backup")


async def test_a_backup_that_fails_midway_leaves_no_file(database_url, owner, tmp_path):
    await owner.execute("ALTER TABLE mailboxes FORCE ROW LEVEL SECURITY")
    with pytest.raises(OperatorError, match=r"The backup failed: .*row-level security policy"):
        await pg_programs.backup(database_url, tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []


async def test_a_database_without_postroom_has_nothing_to_back_up(empty_url, tmp_path):
    with pytest.raises(OperatorError, match="postroom db migrate"):
        await pg_programs.backup(empty_url, tmp_path / "backup")


async def test_data_is_replaced_only_when_asked(database_url, mailbox, owner, tmp_path):
    await pg_programs.backup(database_url, tmp_path / "backup")
    before = contents(database_url)
    await owner.execute("UPDATE mailboxes SET address = 'later@example.org'")
    await owner.execute("CREATE TABLE added_since (mailbox uuid)")
    with pytest.raises(OperatorError, match="already holds data"):
        await pg_programs.restore(database_url, tmp_path / "backup")
    assert ask(database_url, "SELECT address FROM postroom.mailboxes") == ("later@example.org",)
    await pg_programs.restore(database_url, tmp_path / "backup", replace=True)
    assert contents(database_url) == before


async def test_a_schema_without_an_organization_is_no_data(database_url, database_server, tmp_path):
    fresh = database_server.create()
    try:
        await pg_programs.backup(database_url, tmp_path / "backup")
        await pg_programs.restore(fresh, tmp_path / "backup")
        assert (await schema_migrations.read_status(fresh)).current
    finally:
        database_server.drop(fresh)


async def test_truncated_backup_changes_nothing(database_url, mailbox, tmp_path):
    await pg_programs.backup(database_url, tmp_path / "backup")
    whole = (tmp_path / "backup").read_bytes()
    before = contents(database_url)
    for share in (0.0005, 0.3, 0.9, 0.999):
        (tmp_path / "cut").write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(OperatorError, match="damaged or truncated"):
            await pg_programs.restore(database_url, tmp_path / "cut", replace=True)
    assert contents(database_url) == before


async def test_file_that_is_not_a_postroom_backup_is_rejected(empty_url, tmp_path):
    (tmp_path / "notes").write_text("Dear Sir or Madam")
    with pytest.raises(OperatorError, match="was not written by"):
        await pg_programs.restore(empty_url, tmp_path / "notes")
    with pytest.raises(OperatorError, match=r"Cannot read .*No such file"):
        await pg_programs.restore(empty_url, tmp_path / "missing")
    dump_everything(empty_url, tmp_path / "foreign")
    with pytest.raises(OperatorError, match="is not a backup of Postroom"):
        await pg_programs.restore(empty_url, tmp_path / "foreign")


async def test_restore_that_times_out_on_a_lock_changes_nothing(database_url, mailbox, owner, tmp_path):
    """Another client holds a lock: the restore gives up instead of waiting forever."""
    await pg_programs.backup(database_url, tmp_path / "backup")
    before = contents(database_url)
    async with owner.transaction():
        await owner.execute("SELECT FROM mailboxes")
        with pytest.raises(OperatorError, match=r"nothing was changed.*stop Postroom's other processes"):
            await pg_programs.restore(database_url, tmp_path / "backup", replace=True, wait_seconds=1)
    assert contents(database_url) == before


async def test_an_unreachable_database_and_a_malformed_url_are_named(tmp_path):
    with pytest.raises(DatabaseUnavailable):
        await pg_programs.backup(f"postgresql://nobody@/none?host={tmp_path}", tmp_path / "backup")
    with pytest.raises(SettingsError, match="not a PostgreSQL URL"):
        pg_programs.run_psql("postgresql://%zz", [])
    assert list(tmp_path.iterdir()) == []


SHARED = "SELECT array_agg(s::text ORDER BY id) FROM bo_airflow.email_ingestion_state s"
SHARED_RULES = """
    SELECT (SELECT array_agg(format('%s %s %s %s', policyname, permissive, roles, qual) ORDER BY policyname)
            FROM pg_policies WHERE schemaname = 'bo_airflow'),
           (SELECT array_agg(format('%s %s %s', relname, relrowsecurity, relacl) ORDER BY relname)
            FROM pg_class WHERE relnamespace = 'bo_airflow'::regnamespace),
           (SELECT nspacl::text FROM pg_namespace WHERE nspname = 'bo_airflow')
"""
SHARE = """
    INSERT INTO bo_airflow.email_ingestion_state (app_name, message_id, mailbox_email)
    VALUES ('notes', %s, 'jane@example.org')
"""


# Replaces a role of another owner: the role of the tests may not create roles.
SCHEDULER = ENGINE


async def give_away(owner):
    await owner.execute(f"GRANT USAGE, CREATE ON SCHEMA bo_airflow TO {SCHEDULER}")
    await owner.execute(f"ALTER TABLE bo_airflow.email_ingestion_state OWNER TO {SCHEDULER}")


async def test_shared_table_is_restored_too(database_url, empty_url, mailbox, owner, organization, tmp_path):
    await owner.execute(SHARE, ["m1"])
    await owner.execute(f"GRANT USAGE ON SCHEMA bo_airflow TO {SCHEDULER}")
    await owner.execute(f"GRANT SELECT, DELETE ON bo_airflow.email_ingestion_state TO {SCHEDULER}")
    await pg_programs.backup(database_url, tmp_path / "backup")
    await pg_programs.restore(empty_url, tmp_path / "backup")
    assert ask(empty_url, SHARED) == ask(database_url, SHARED) != (None,)
    assert ask(empty_url, SHARED_RULES) == ask(database_url, SHARED_RULES)
    async with databases.session(empty_url, APPLICATION, organization) as us:
        await us.execute(SHARE, ["m2"])
    assert len(ask(empty_url, SHARED)[0]) == 2


async def test_the_shared_table_is_replaced_with_the_rest(database_url, mailbox, owner, tmp_path):
    await owner.execute(SHARE, ["kept"])
    rows, rules = ask(database_url, SHARED), ask(database_url, SHARED_RULES)
    await pg_programs.backup(database_url, tmp_path / "backup")
    await owner.execute(SHARE, ["lost"])
    await pg_programs.restore(database_url, tmp_path / "backup", replace=True)
    assert (ask(database_url, SHARED), ask(database_url, SHARED_RULES)) == (rows, rules)


async def test_rows_in_the_shared_table_are_data(database_url, owner, tmp_path):
    await pg_programs.backup(database_url, tmp_path / "backup")
    await owner.execute(SHARE, ["m1"])
    with pytest.raises(OperatorError, match="already holds data"):
        await pg_programs.restore(database_url, tmp_path / "backup")


async def test_shared_table_of_another_owner_is_left_alone(database_url, mailbox, owner, tmp_path):
    await pg_programs.backup(database_url, tmp_path / "while-ours")
    await owner.execute(SHARE, ["theirs"])
    await give_away(owner)
    await pg_programs.backup(database_url, tmp_path / "while-theirs")
    rows = ask(database_url, SHARED)
    for name in ("while-ours", "while-theirs"):
        await pg_programs.restore(database_url, tmp_path / name, replace=True)
        assert ask(database_url, SHARED) == rows


async def test_a_backup_without_the_shared_table_brings_an_empty_one(
    database_url, empty_url, mailbox, owner, tmp_path
):
    rules = ask(database_url, SHARED_RULES)
    await owner.execute(SHARE, ["theirs"])
    await give_away(owner)
    await pg_programs.backup(database_url, tmp_path / "backup")
    await pg_programs.restore(empty_url, tmp_path / "backup")
    assert ask(empty_url, SHARED) == (None,)
    assert ask(empty_url, SHARED_RULES) == rules


async def test_other_tables_of_the_schedulers_schema_are_left_alone(
    database_url, empty_url, mailbox, owner, tmp_path
):
    await owner.execute(f"GRANT USAGE, CREATE ON SCHEMA bo_airflow TO {SCHEDULER}")
    await owner.execute(f"SET ROLE {SCHEDULER}")
    await owner.execute('CREATE TABLE bo_airflow."Dag *Run" (id bigserial, said text)')
    await owner.execute("INSERT INTO bo_airflow.\"Dag *Run\" (said) VALUES ('theirs')")
    await owner.execute("CREATE TYPE bo_airflow.mood AS ENUM ('well')")
    await owner.execute("CREATE FUNCTION bo_airflow.one() RETURNS integer LANGUAGE sql RETURN 1")
    await owner.execute("REVOKE ALL ON FUNCTION bo_airflow.one() FROM PUBLIC")
    await owner.execute("RESET ROLE")
    await owner.execute(SHARE, ["m1"])
    await pg_programs.backup(database_url, tmp_path / "backup")
    await pg_programs.restore(database_url, tmp_path / "backup", replace=True)
    await pg_programs.restore(empty_url, tmp_path / "backup")
    await owner.execute(f"SET ROLE {SCHEDULER}")
    cursor = await owner.execute('SELECT id, said, bo_airflow.one() FROM bo_airflow."Dag *Run"')
    assert await cursor.fetchall() == [(1, "theirs", 1)]
    assert ask(empty_url, SHARED) == ask(database_url, SHARED)
    others = "SELECT to_regclass('bo_airflow.\"Dag *Run\"'), to_regproc('bo_airflow.one')"
    assert ask(empty_url, others) == (None, None)


PSQL = """
import sys
from postroom.store import pg_programs
sys.exit(pg_programs.run_psql(sys.argv[1], sys.argv[2:]))
"""


def test_psql_sees_the_tables_and_returns_its_exit_code(database_url):
    def psql(*arguments):
        command = [sys.executable, "-c", PSQL, database_url, *arguments]
        return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)

    result = psql("-Atc", "SELECT count(*) FROM mailboxes")
    assert (result.returncode, result.stdout, result.stderr) == (0, "0\n", "")
    assert psql("-c", "SELECT FROM nowhere").returncode == 1


def test_ctrl_c_cancels_the_psql_query_but_not_postroom(database_url):
    command = [sys.executable, "-c", PSQL, database_url, "-c", "SELECT pg_sleep(600)"]
    running = """
        SELECT count(*) FROM pg_stat_activity
        WHERE query = 'SELECT pg_sleep(600)' AND datname = current_database()
    """
    with subprocess.Popen(
        command, env=environment(), stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        until(lambda: ask(database_url, running) == (1,), "the query runs")
        os.killpg(process.pid, signal.SIGINT)
        errors = process.stderr.read()
    assert "canceling statement due to user request" in errors
    assert process.returncode == 1


def test_password_is_never_on_a_command_line_and_tls_uses_system_programs(tmp_path, monkeypatch):
    url = "postgresql://jane:hunter2@db.example.org:5433/post?sslmode=verify-full"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperatorError, match="postgresql-client"):
        pg_programs.run_psql(url, [])
    fake = tmp_path / "psql"
    fake.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nexport > {tmp_path}/variables\n')
    fake.chmod(0o755)
    assert pg_programs.run_psql(url, ["-l"]) == 0
    assert (tmp_path / "arguments").read_text() == "-l\n"
    variables = (tmp_path / "variables").read_text()
    for variable in ("PGPASSWORD='hunter2'", "PGHOST='db.example.org'", "PGPORT='5433'", "PGUSER='jane'"):
        assert variable in variables
