"""`postroom members` as a person uses it."""

import json

import psycopg
import pytest

import databases


@pytest.fixture
def run(postroom, database_url):
    return lambda *arguments: postroom("members", *arguments, **databases.login_settings(database_url))


def test_members_are_added_changed_and_removed(run, tmp_path, database_url):
    added = run("add", "Ann@example.org", "--role", "admin")
    assert added.stdout.startswith("http://127.0.0.1:8025/sign-in/link?token="), added.stderr
    assert run("add", "ann@example.org").stderr == "error: A member with this address already exists.\n"
    assert run("add", "bob@example.org", "--name", "Bob").returncode == 0
    assert run("role", "bob@example.org", "reviewer").stdout == "Changed.\n"
    secret = tmp_path / "password"
    secret.write_text("correct horse battery\n")
    assert run("password", "bob@example.org", "--file", str(secret)).stdout == "Changed.\n"
    secret.write_text("short")
    assert "12 to 1000 characters" in run("password", "bob@example.org", "--file", str(secret)).stderr
    listed = {each["address"]: each for each in json.loads(run("list", "--json").stdout)}
    assert (listed["bob@example.org"]["role"], listed["bob@example.org"]["has_password"]) == (
        "reviewer",
        True,
    )
    assert "link, password" in run("list").stdout
    assert "last admin" in run("remove", "ann@example.org").stderr
    assert run("remove", "bob@example.org").stdout == "Removed.\n"
    assert "no such member" in run("link", "bob@example.org").stderr
    assert "such as ann@example.org" in run("add", "nonsense").stderr
    with psycopg.connect(database_url) as connection:
        actors = connection.execute("SELECT DISTINCT actor_id FROM ledger").fetchall()
    assert actors == [("command line",)]
