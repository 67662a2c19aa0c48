"""The oracle finds every kind of damage by the right check, and nothing where nothing is wrong."""

import os
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest

from chaos.mirrored_world import ORGANIZATION, mirrored_world
from chaos.planted_damage import IN_DATABASE, SUBJECTS
from chaos.planted_file_damage import IN_FILES
from postroom_chaos import oracle
from postroom_chaos.oracle.evidence import MemorySample, ObservedProcess, PurgedPerson
from postroom_chaos.oracle.leftovers import read_start_ticks
from postroom_chaos.oracle.sources import fetch_rows


@pytest.fixture(scope="module")
def world(database_server, tmp_path_factory):
    url = database_server.create()
    with mirrored_world(url, tmp_path_factory.mktemp("world")) as evidence:
        yield evidence
    database_server.drop(url)


@pytest.fixture
async def owner(world):
    """A connection whose changes are rolled back."""
    options = "-c search_path=postroom -c timezone=UTC"
    async with await psycopg.AsyncConnection.connect(world.database_url, options=options) as connection:
        yield connection
        await connection.rollback()


@pytest.fixture(scope="module")
def check(world):
    """The oracle, which reads the mailboxes at the simulator once for all tests."""
    read = {}
    return lambda evidence, connection=None: oracle.check(evidence, connection, read)


def checks(violations):
    return {each.check for each in violations}


async def test_an_undamaged_world_has_no_violation(check, world):
    assert [str(each) for each in await check(world)] == []


# One test for all damage: of many tests, each process of the run would get some and make a world for them.
async def test_damage_in_the_database_is_found_by_its_checks(check, world, owner):
    [subjects] = await fetch_rows(owner, SUBJECTS)
    wrong = {}
    for name, (statements, expected) in IN_DATABASE.items():
        await owner.execute(statements.format(**subjects).encode())
        found = await check(world, owner)
        await owner.rollback()
        if checks(found) != expected:
            wrong[name] = [str(each) for each in found]
    assert wrong == {}


@contextmanager
def changed(path, change):
    """A file with other content, until the end of the block."""
    before = path.read_bytes() if path.exists() else None
    after = change(before or b"")
    if after is None:
        path.unlink()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(after)
        os.utime(path, (0, 0))  # whatever is young may still be completed
    try:
        yield
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)


async def test_damage_on_the_disk_is_found_by_its_checks(check, world, owner):
    [row] = await fetch_rows(
        owner, "SELECT file_name FROM attachments WHERE length(file_name) > 12 ORDER BY 1 LIMIT 1"
    )
    words = {b"{file_name}": row["file_name"].encode(), b"{secret}": world.webhooks[0].secret.encode()}

    def change(damage, content):
        content = damage.change(content)
        for word, value in words.items():
            content = content if content is None else content.replace(word, value)
        return content

    wrong = {}
    for name, damage in IN_FILES.items():
        with changed(damage.path(world), partial(change, damage)):
            found = await check(world)
        if checks(found) != damage.checks:
            wrong[name] = [str(each) for each in found]
    assert wrong == {}


async def test_mail_that_must_be_gone_is_found(check, world):
    """Retention, a purge and a scope that were not applied."""
    now = datetime.now(UTC)
    ada, ben, *others = world.mailboxes
    retained = replace(world, mailboxes=(replace(ada, absent_before=now), ben, *others))
    assert checks(await check(retained)) == {"mail.forbidden"}
    scoped = replace(world, mailboxes=(ada, replace(ben, folder="elsewhere"), *others))
    assert checks(await check(scoped)) == {"mail.forbidden"}
    gone = replace(world, mailboxes=(replace(ada, state="purged"), ben, *others))
    assert checks(await check(gone)) == {"purges.mailbox", "mailboxes.state"}


async def test_mail_of_a_purged_person_is_found(check, world, owner):
    [row] = await fetch_rows(
        owner,
        "SELECT from_address FROM messages WHERE deleted_at IS NULL AND received_at IS NOT NULL LIMIT 1",
    )
    now = datetime.now(UTC)
    person = PurgedPerson(ORGANIZATION, row["from_address"], now, now)
    assert checks(await check(replace(world, purged_people=(person,)))) == {
        "mail.forbidden",
        "purges.person",
    }
    earlier = replace(person, started_at=now - timedelta(days=99), ended_at=now)
    assert await check(replace(world, purged_people=(earlier,))) == []


async def test_a_document_is_archived_again_only_after_a_purge(check, world, owner):
    await owner.execute(
        """
        INSERT INTO ledger (organization_id, event_type, entity_type, entity_id, actor_id, payload,
            personal_sha256, sha256, mac, occurred_at)
        SELECT organization_id, event_type, entity_type, entity_id, actor_id, payload, personal_sha256,
            sha256, mac, occurred_at
        FROM ledger WHERE event_type = 'DOCUMENT_ARCHIVED' ORDER BY id LIMIT 1
        """
    )
    unsealed = {"ledger.purge", "ledger.unsealed"}
    assert checks(await check(world, owner)) == {"documents.ledger", *unsealed}
    ada, *others = world.mailboxes
    purged = replace(world, mailboxes=(replace(ada, was_purged=True), *others))
    assert checks(await check(purged, owner)) == unsealed


async def test_mail_outside_the_first_listing_may_be_missing(check, world, owner):
    [subjects] = await fetch_rows(owner, SUBJECTS)
    query = "DELETE FROM messages WHERE id = %s RETURNING thread_id, received_at"
    [row] = await fetch_rows(owner, query, subjects["ada"])
    ada, *others = world.mailboxes
    later = replace(world, mailboxes=(replace(ada, present_from=row["received_at"] + timedelta(1)), *others))
    assert checks(await check(later, owner)) == {"mail.thread_totals"}


async def test_processes_that_are_left_or_missing_are_found(check, world):
    [started] = world.processes
    missing = replace(started, running=True)
    assert checks(await check(replace(world, processes=(missing,)))) == {"leftovers.process"}
    orphan = subprocess.Popen(  # noqa: ASYNC220  it returns at once
        ["sh", "-c", "sleep 60 & echo $!"],
        env={**os.environ, "POSTROOM_HOME": str(world.home)},
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    pid = int(orphan.stdout.readline())
    orphan.wait()
    try:
        found = await check(world)
        assert [(each.check, each.subject) for each in found] == [("leftovers.process", f"pid {pid}")]
        known = ObservedProcess(pid, "sleep", read_start_ticks(pid) or 0)
        assert await check(replace(world, processes=(started, known))) == []
    finally:
        os.kill(pid, 9)
        orphan.stdout.close()


async def test_growing_memory_is_found(check, world):
    growing = tuple(MemorySample("worker", 1, float(second), second * (60 << 20)) for second in range(1, 11))
    assert checks(await check(replace(world, memory=growing))) == {"leftovers.memory"}
