import json
import re
from pathlib import Path

import pytest

import databases
from postroom.store import embedded
from postroom.store.embedded.server import SUPERUSER
from scenarios.postroom_process import PostroomProcess
from store.embedded_homes import ask, quick_home

HOW_TO = Path(__file__).parents[2] / "docs/how-to/database.md"


def test_migrate_makes_the_schema_current(postroom):
    before = postroom("db", "status")
    assert before.returncode == 1
    assert "pending" in before.stdout
    first, second = postroom("db", "migrate"), postroom("db", "migrate")
    assert (first.returncode, second.returncode) == (0, 0)
    assert "Applying migration 0001" in first.stderr
    assert second.stdout == "The schema is current; migrations applied: 0.\n"
    status = json.loads(postroom("db", "status", "--json").stdout)
    assert status["current"] is True
    assert all(each["applied_at"] for each in status["migrations"])


def test_psql_receives_its_arguments_and_returns_its_exit_code(postroom, database_url):
    settings = {"POSTROOM_DATABASE_URL": database_url}
    done = postroom("db", "psql", "-A", "-t", "-c", "SELECT count(*) FROM work", **settings)
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert postroom("db", "psql", "-c", "SELECT nonsense", **settings).returncode == 1


async def test_restore_brings_back_a_backup(postroom, database_url, owner, make_organization, tmp_path):
    settings = {"POSTROOM_DATABASE_URL": database_url}
    await make_organization("Kept")
    assert postroom("db", "backup", "kept.dump", **settings).stdout == "Backed up to kept.dump.\n"
    again = postroom("db", "backup", "kept.dump", **settings)
    assert again.returncode == 1
    assert "already exists" in again.stderr
    assert postroom("db", "backup", "--overwrite", "kept.dump", **settings).returncode == 0
    await make_organization("Lost")
    assert postroom("db", "restore", "kept.dump", **settings).returncode == 1
    assert postroom("db", "restore", "--replace", "kept.dump", **settings).returncode == 0
    cursor = await owner.execute("SELECT name FROM organizations")
    assert await cursor.fetchall() == [("Kept",)]


def test_restore_rejects_files_that_are_no_backup(complaint, database_url, tmp_path):
    (tmp_path / "text").write_text("Dear all")
    for name in ("text", "missing"):
        line = complaint(1, "db", "restore", name, POSTROOM_DATABASE_URL=database_url)
        assert name in line


@pytest.mark.skipif(bool(databases.GIVEN), reason="needs an administrator of the server")
def test_commands_run_with_the_login_that_the_how_to_creates(postroom):
    [statements] = re.findall(r"```sql\n(CREATE ROLE postroom_service.*?)```", HOW_TO.read_text(), re.DOTALL)
    with quick_home() as home, embedded.start_or_join(home.path) as handle:
        ask(superuser := handle.url.replace("//postroom@", f"//{SUPERUSER}@"), "DROP ROLE postroom_service")
        owner = {"POSTROOM_DATABASE_URL": handle.url, "POSTROOM_PORT": "0"}
        assert postroom("db", "migrate", **owner).returncode == 0
        assert find_login(postroom("doctor", "--json", **owner))["state"] == "warn"
        ask(superuser, statements)
        service = owner | {"POSTROOM_DATABASE_URL": handle.service_url}
        assert find_login(postroom("doctor", "--json", **service))["state"] == "ok"
        assert postroom("members", "list", **service).returncode == 0
        refused = postroom("db", "backup", "file", **service)
        assert "Set POSTROOM_DATABASE_OWNER_URL to the URL of postroom." in refused.stderr
        both = service | {"POSTROOM_DATABASE_OWNER_URL": handle.url}
        assert postroom("db", "backup", "file", **both).returncode == 0
        assert postroom("db", "restore", "--replace", "file", **both).returncode == 0


async def test_recovered_moves_positions_ahead_and_enqueues_the_recovery(
    postroom, database_url, owner, organization
):
    await owner.execute("INSERT INTO feeds (organization_id, last_position) VALUES (%s, 7)", (organization,))
    done = postroom("db", "recovered", POSTROOM_DATABASE_URL=database_url)
    assert done.returncode == 0
    assert done.stdout.startswith("IDs and feed positions moved ahead.")
    cursor = await owner.execute("SELECT last_position, reset_position FROM feeds")
    assert await cursor.fetchall() == [(1_000_000_007, 1_000_000_007)]
    cursor = await owner.execute("SELECT kind, subject FROM work WHERE kind = 'recover'")
    assert await cursor.fetchall() == [("recover", str(organization))]


@pytest.mark.skipif(bool(databases.GIVEN), reason="needs an administrator of the server")
def test_doctor_warns_if_processes_cannot_notice_a_failover(postroom):
    with quick_home() as home, embedded.start_or_join(home.path) as handle:
        settings = {"POSTROOM_DATABASE_URL": handle.url, "POSTROOM_PORT": "0"}
        assert postroom("db", "migrate", **settings).returncode == 0
        assert "failover" not in postroom("doctor", **settings).stdout
        superuser = handle.url.replace("//postroom@", f"//{SUPERUSER}@")
        ask(superuser, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        [check] = [
            each
            for each in json.loads(postroom("doctor", "--json", **settings).stdout)
            if each["name"] == "failover"
        ]
        assert check["state"] == "warn"
        assert "postroom db recovered" in check["remedy"]


def test_processes_of_an_embedded_database_do_not_log_in_as_its_owner(tmp_path):
    with (
        quick_home() as home,
        PostroomProcess(tmp_path, "up", "--port", "0", POSTROOM_HOME=str(home.path)) as up,
        embedded.start_or_join(home.path) as handle,
    ):
        up.line("Postroom: ")
        logins = "SELECT array_agg(DISTINCT usename::text) FROM pg_stat_activity WHERE application_name"
        assert ask(handle.url, f"{logins} ~ '^postroom (web|worker)'") == (["postroom_service"],)
        assert up.end() == 0


def find_login(done):
    [check] = [each for each in json.loads(done.stdout) if each["name"] == "login"]
    return check
