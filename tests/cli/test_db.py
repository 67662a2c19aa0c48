import json


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
