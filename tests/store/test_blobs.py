"""K3: rows of blobs, and the marks that keep a removal from meeting a put half-way."""

import asyncio
from hashlib import sha256

import pytest

from postroom.errors import TransientError
from postroom.model import WorkKind
from postroom.ports import Blob
from postroom.store import blobs, work
from postroom.store.database import open_database
from postroom.store.work import WorkRequest

DAY = 86_400


@pytest.fixture
async def database(database_url):
    async with open_database(database_url, pool_size=6, name="tests") as opened:
        yield opened


def blob(content: bytes, *, created: bool = True) -> Blob:
    return Blob(sha256(content).digest(), len(content), created)


async def recorded(database, organization, *given):
    async with database.transaction(organization) as connection:
        await blobs.record(connection, organization, given)


async def doomed(database, organization, **options):
    async with database.transaction(organization) as connection:
        await blobs.mark_unreferenced(connection, organization, grace_seconds=DAY, **options)
        return (await blobs.list_marked(connection))[0]


async def rows(database, organization):
    async with database.transaction(organization) as connection:
        return [row.sha256 for row in await blobs.list_page(connection, after=b"", limit=100)]


async def attach(owner, organization, mailbox, digest):
    """A message with this attachment; its id."""
    cursor = await owner.execute(
        """
        WITH thread AS (
            INSERT INTO threads (organization_id, mailbox_id, provider_thread_id)
            VALUES (%(organization)s, %(mailbox)s, gen_random_uuid()::text) RETURNING id
        ), message AS (
            INSERT INTO messages (organization_id, mailbox_id, thread_id, provider_message_id)
            SELECT %(organization)s, %(mailbox)s, id, gen_random_uuid()::text FROM thread RETURNING id
        )
        SELECT id FROM message
        """,
        {"organization": organization, "mailbox": mailbox},
    )
    [(message,)] = await cursor.fetchall()
    await owner.execute(
        """
        INSERT INTO attachments (organization_id, message_id, part, media_type, size, sha256)
        VALUES (%s, %s, '1', 'application/pdf', 1, %s)
        """,
        [organization, message, digest],
    )
    return message


async def test_the_same_content_is_one_row_and_pages_go_by_digest(database, organization):
    given = [blob(b"%d" % number) for number in range(5)]
    await recorded(database, organization, *given, *given)
    await recorded(database, organization, blob(b"3", created=False))
    assert await rows(database, organization) == sorted(each.sha256 for each in given)
    async with database.transaction(organization) as connection:
        assert await blobs.sum_sizes(connection) == 5
        first = await blobs.list_page(connection, after=b"", limit=2)
        then = await blobs.list_page(connection, after=first[-1].sha256, limit=100)
    assert len(first) + len(then) == 5


async def test_what_is_old_and_unused_is_given_up_and_what_is_used_or_young_is_not(
    database, owner, organization, make_mailbox, move_clock
):
    used, unused, young = blob(b"used"), blob(b"unused"), blob(b"young")
    await recorded(database, organization, used, unused)
    await attach(owner, organization, await make_mailbox(organization), used.sha256)
    assert await doomed(database, organization) == []
    await move_clock(2 * DAY)
    await recorded(database, organization, young)
    assert await doomed(database, organization) == [unused.sha256]
    assert set(await rows(database, organization)) == {used.sha256, young.sha256}


async def test_a_content_that_came_again_is_young_again(database, organization, move_clock):
    again = blob(b"again")
    await recorded(database, organization, again)
    await move_clock(2 * DAY)
    await recorded(database, organization, blob(b"again", created=False))
    assert await doomed(database, organization) == []


async def test_a_put_that_saw_the_object_before_it_was_given_up_starts_over(
    database, organization, move_clock
):
    await recorded(database, organization, blob(b"x"))
    await move_clock(2 * DAY)
    assert await doomed(database, organization) == [blob(b"x").sha256]
    with pytest.raises(TransientError):
        await recorded(database, organization, blob(b"x", created=False))
    assert await rows(database, organization) == []
    async with database.transaction(organization) as connection:
        await blobs.record_removals(connection, removed=[blob(b"x").sha256], spared=[])
    with pytest.raises(TransientError):  # it may have looked at the store just before the removal
        await recorded(database, organization, blob(b"x", created=False))
    await recorded(database, organization, blob(b"x", created=True))
    await recorded(database, organization, blob(b"x", created=False))  # the writer's row took the mark away


async def test_marks_of_removals_are_forgotten_after_the_grace(database, organization, move_clock):
    await recorded(database, organization, blob(b"x"))
    await move_clock(2 * DAY)
    await doomed(database, organization)
    async with database.transaction(organization) as connection:
        await blobs.record_removals(connection, removed=[blob(b"x").sha256], spared=[])
    await move_clock(2 * DAY)
    async with database.transaction(organization) as connection:
        await blobs.delete_old_marks(connection, grace_seconds=DAY)
    await recorded(database, organization, blob(b"x", created=False))


async def test_giving_up_waits_for_whoever_is_recording(
    database, owner, organization, make_mailbox, move_clock
):
    await recorded(database, organization, blob(b"x"))
    await move_clock(2 * DAY)
    mailbox = await make_mailbox(organization)
    async with database.transaction(organization) as connection:
        await blobs.record(connection, organization, [blob(b"x", created=False)])
        giving_up = asyncio.create_task(doomed(database, organization))
        await _is_waiting(owner)
        assert not giving_up.done()
    await attach(owner, organization, mailbox, blob(b"x").sha256)
    assert await giving_up == []


async def _is_waiting(owner):
    while True:
        cursor = await owner.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        )
        if await cursor.fetchone() != (0,):
            return
        await asyncio.sleep(0.01)


async def test_objects_without_a_row_are_given_up_and_those_with_one_are_not(database, organization):
    await recorded(database, organization, blob(b"known"))
    async with database.transaction(organization) as connection:
        given = [blob(b"known").sha256, blob(b"unknown").sha256]
        assert await blobs.mark_orphans(connection, organization, given) == 1
        assert (await blobs.list_marked(connection))[0] == [blob(b"unknown").sha256]


async def test_whoever_refers_to_a_blob_is_named(database, owner, organization, make_mailbox):
    await recorded(database, organization, blob(b"x"))
    message = await attach(owner, organization, await make_mailbox(organization), blob(b"x").sha256)
    async with database.transaction(organization) as connection:
        found = await blobs.list_references(connection, blob(b"x").sha256)
    assert (found.messages, found.documents) == ([message], [])


async def test_the_first_place_counts_until_a_move(database):
    async with database.engine() as connection:
        assert await blobs.get_location(connection) is None
        assert await blobs.claim_location(connection, "disk:a") == "disk:a"
        assert await blobs.claim_location(connection, "disk:b") == "disk:a"
        await blobs.set_location(connection, "disk:b")
        assert await blobs.claim_location(connection, "disk:a") == "disk:b"


async def test_work_is_provided_once_and_what_stands_is_left_alone(database, organization):
    async with database.engine() as connection:
        wake = WorkRequest(organization, WorkKind.COLLECT_GARBAGE, str(organization), 100)
        assert await work.ensure_scheduled(connection, [wake]) == 1
        assert await work.ensure_scheduled(connection, [wake]) == 0
        cursor = await connection.execute("SELECT generation, due_at > postroom_now() FROM work")
        assert await cursor.fetchall() == [(0, True)]
