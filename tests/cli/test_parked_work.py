"""`postroom parked-work`: list and retry work that failed too often."""

import json

import databases
from postroom.model import WorkKind
from postroom.store import work


async def park(url, organization, *subjects):
    async with (
        databases.open_pools(url) as database,
        database.engine() as connection,
    ):
        await work.enqueue(
            connection, [work.WorkRequest(organization, WorkKind.SYNC, subject) for subject in subjects]
        )
        claimed = await work.claim(connection, [WorkKind.SYNC], batch=10, lease_seconds=60)
        for lease in claimed.leases:
            await work.park(connection, lease, error="the provider has no such mailbox")


async def test_parked_work_is_listed_with_its_error_and_retried(postroom, database_url, organization, owner):
    await park(database_url, organization, "one", "two", "three")
    listed = postroom("parked-work", "list", "--json", **databases.login_settings(database_url))
    found = json.loads(listed.stdout)
    assert [(each["subject"], each["attempts"]) for each in found] == [("one", 1), ("three", 1), ("two", 1)]
    assert found[0]["error"] == "the provider has no such mailbox"
    one = postroom("parked-work", "retry", "sync", "one", **databases.login_settings(database_url))
    assert (one.returncode, one.stdout) == (0, "Retrying: 1.\n")
    rest = postroom("parked-work", "retry", "sync", **databases.login_settings(database_url))
    assert (rest.returncode, rest.stdout) == (0, "Retrying: 2.\n")
    cursor = await owner.execute("SELECT count(*) FROM work WHERE due_at <= postroom_now() AND attempts = 0")
    assert await cursor.fetchone() == (3,)


async def test_empty_list_of_parked_work_is_a_sentence(postroom, database_url):
    assert (
        postroom("parked-work", "list", **databases.login_settings(database_url)).stdout
        == "No work is parked.\n"
    )
    done = postroom("parked-work", "retry", "sync", "x", **databases.login_settings(database_url))
    assert done.returncode == 1
    assert "No such work is parked" in done.stderr
