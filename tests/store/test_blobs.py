"""K3: rows of blobs, and the removal marks that protect writers from concurrent garbage collection."""

import asyncio
from datetime import timedelta
from hashlib import sha256

import pytest

from postroom.errors import TransientError
from postroom.model import WorkKind
from postroom.ports import Blob
from postroom.store import blobs, work
from postroom.store.work import WorkRequest

DAY = 86_400


def blob(content: bytes, *, created: bool = True) -> Blob:
    return Blob(sha256(content).digest(), len(content), created)


async def record(database, organization, *stored):
    async with database.transaction(organization) as connection:
        await blobs.record(connection, organization, stored)


async def mark(database, organization, **options):
    async with database.transaction(organization) as connection:
        await blobs.mark_unreferenced(connection, organization, grace_seconds=DAY, **options)
        return await blobs.list_marked(connection)


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


async def test_same_content_is_one_row_and_pages_are_ordered_by_digest(database, organization):
    given = [blob(b"%d" % number) for number in range(5)]
    await record(database, organization, *given, *given)
    await record(database, organization, blob(b"3", created=False))
    assert await rows(database, organization) == sorted(each.sha256 for each in given)
    async with database.transaction(organization) as connection:
        assert await blobs.sum_sizes(connection) == 5
        first = await blobs.list_page(connection, after=b"", limit=2)
        then = await blobs.list_page(connection, after=first[-1].sha256, limit=100)
    assert len(first) + len(then) == 5


async def test_only_old_unreferenced_blobs_are_marked(
    database, owner, organization, make_mailbox, move_clock
):
    used, unused, young = blob(b"used"), blob(b"unused"), blob(b"young")
    await record(database, organization, used, unused)
    await attach(owner, organization, await make_mailbox(organization), used.sha256)
    assert await mark(database, organization) == []
    await move_clock(2 * DAY)
    await record(database, organization, young)
    assert await mark(database, organization) == [unused.sha256]
    assert set(await rows(database, organization)) == {used.sha256, young.sha256}


async def test_storing_content_again_resets_its_age(database, organization, move_clock):
    again = blob(b"again")
    await record(database, organization, again)
    await move_clock(2 * DAY)
    await record(database, organization, blob(b"again", created=False))
    assert await mark(database, organization) == []


async def test_writer_that_reused_a_removed_object_starts_over(database, organization, move_clock):
    await record(database, organization, blob(b"x"))
    await move_clock(2 * DAY)
    assert await mark(database, organization) == [blob(b"x").sha256]
    with pytest.raises(TransientError):
        await record(database, organization, blob(b"x", created=False))
    assert await rows(database, organization) == []
    async with database.transaction(organization) as connection:
        now = await blobs.get_time(connection)
        await blobs.record_removals(connection, removed=[blob(b"x").sha256], removed_at=now, spared=[])
    with pytest.raises(TransientError):  # it may have looked at the store just before the removal
        await record(database, organization, blob(b"x", created=False))
    await record(database, organization, blob(b"x", created=True))
    await record(database, organization, blob(b"x", created=False))  # the writer's row took the mark away


async def test_removal_marks_are_deleted_after_the_grace_period(database, organization, move_clock):
    await record(database, organization, blob(b"x"))
    await move_clock(2 * DAY)
    await mark(database, organization)
    async with database.transaction(organization) as connection:
        now = await blobs.get_time(connection)
        await blobs.record_removals(connection, removed=[blob(b"x").sha256], removed_at=now, spared=[])
    async with database.transaction(organization) as connection:
        await blobs.delete_old_marks(connection, before=now)
    with pytest.raises(TransientError):
        await record(database, organization, blob(b"x", created=False))
    async with database.transaction(organization) as connection:
        await blobs.delete_old_marks(connection, before=now + timedelta(seconds=1))
    await record(database, organization, blob(b"x", created=False))


async def test_marking_waits_for_a_running_writer(database, owner, organization, make_mailbox, move_clock):
    await record(database, organization, blob(b"x"))
    await move_clock(2 * DAY)
    mailbox = await make_mailbox(organization)
    async with database.transaction(organization) as connection:
        await blobs.record(connection, organization, [blob(b"x", created=False)])
        giving_up = asyncio.create_task(mark(database, organization))
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


async def test_only_objects_without_a_row_are_marked_as_orphans(database, organization):
    await record(database, organization, blob(b"known"))
    async with database.transaction(organization) as connection:
        given = [blob(b"known").sha256, blob(b"unknown").sha256]
        assert await blobs.mark_orphans(connection, organization, given) == 1
        assert await blobs.list_marked(connection) == [blob(b"unknown").sha256]


async def test_references_to_a_blob_are_listed(database, owner, organization, make_mailbox):
    await record(database, organization, blob(b"x"))
    message = await attach(owner, organization, await make_mailbox(organization), blob(b"x").sha256)
    async with database.transaction(organization) as connection:
        found = await blobs.list_references(connection, blob(b"x").sha256)
    assert (found.messages, found.documents) == ([message], [])


async def test_first_location_applies_until_it_is_replaced(database):
    async with database.engine() as connection:
        assert await blobs.get_location(connection) is None
        assert await blobs.claim_location(connection, "disk:a") == "disk:a"
        assert await blobs.claim_location(connection, "disk:b") == "disk:a"
        await blobs.set_location(connection, "disk:b")
        assert await blobs.claim_location(connection, "disk:a") == "disk:b"


async def test_work_is_scheduled_once_and_existing_work_is_unchanged(database, organization):
    async with database.engine() as connection:
        request = WorkRequest(organization, WorkKind.COLLECT_GARBAGE, str(organization), 100)
        assert await work.ensure_scheduled(connection, [request]) == 1
        assert await work.ensure_scheduled(connection, [request]) == 0
        cursor = await connection.execute("SELECT generation, due_at > postroom_now() FROM work")
        assert await cursor.fetchall() == [(0, True)]
