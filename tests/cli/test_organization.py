"""`postroom organization` as a person uses it."""

import json

import psycopg

import databases


def test_names_are_shown_replaced_and_cleared(postroom, database_url):
    def run(*arguments):
        return postroom("organization", "names", *arguments, **databases.login_settings(database_url))

    nothing = "No names: addressees are not checked.\n"
    assert run().stdout == nothing
    assert run("Nordwind  AG", "Westwind GmbH", "--as", "Ann").stdout == "Nordwind AG\nWestwind GmbH\n"
    assert run().stdout == "Nordwind AG\nWestwind GmbH\n"
    assert run("Nordwind AG", "--clear").stderr == "error: Give either names or --clear.\n"
    assert "at least 3 alphabetic" in run("42").stderr
    assert run("--clear").stdout == run().stdout == nothing
    with psycopg.connect(database_url) as connection:
        query = "SELECT actor_id FROM ledger WHERE event_type = 'ORGANIZATION_NAMES_CHANGED' ORDER BY id"
        assert connection.execute(query).fetchall() == [("Ann",), ("command line",)]


def test_usage_of_each_organization_is_shown(postroom, database_url, organization):
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO postroom.resource_uses VALUES (%s, postroom.postroom_now(), 4, 8, 3600, 120)",
            [organization],
        )
    settings = databases.login_settings(database_url)
    [title, line] = postroom("organization", "usage", **settings).stdout.splitlines()
    assert title.split() == ["ORGANIZATION", "STEPS", "MEAN", "WAIT", "RUNNING", "CPU", "STORED"]
    assert line.split()[-9:] == ["4", "2.0", "s", "3,600", "s", "120", "s", "0.00", "GB"]
    [use] = json.loads(postroom("organization", "usage", "--json", **settings).stdout)
    assert (use["steps"], use["cpu_seconds"], use["stored_bytes"]) == (4, 120, 0)


def test_commands_add_the_organization_that_the_settings_name(postroom, database_url):
    for organization in ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"):
        settings = databases.login_settings(database_url) | {"POSTROOM_ORGANIZATION": organization}
        assert postroom("documents", "list", **settings).stderr == ""
