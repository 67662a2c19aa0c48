"""Messages that are stored but were not listed are deleted only if nothing named them meanwhile."""

from dataclasses import replace
from datetime import timedelta

import pytest

from postroom.flow.mail import audit
from postroom.flow.mail.audit import AuditDepth
from postroom.flow.mail.sync import sync_requests
from postroom.model import ChangePage

DAY = timedelta(days=1)
COMPLETE = "SELECT FROM cursors WHERE kind = 'resync' AND scope = 'inbox' AND completed_at IS NOT NULL"
OPEN = "SELECT subject FROM failures WHERE resolved_at IS NULL ORDER BY 1"
DELETED = "SELECT count(*) FROM mail_events WHERE kind = 'deleted'"


async def audited(mirror):
    return await audit.audit_mailbox(mirror.build_context(), await mirror.get(), AuditDepth.STATES)


async def repair(mirror, found):
    async with mirror.database.transaction(mirror.organization) as connection:
        await audit.repair(connection, mirror.organization, mirror.mailbox, found)


async def store_one_that_is_gone_before_it_is_listed(folders):
    """Begin the first listing. No feed reports what is gone, so settling looks it up."""
    gone = folders.remote.deliver(age=9 * DAY)
    await folders.hint(gone)
    await folders.sync(slice_seconds=0)
    del folders.remote.items[gone]


async def test_settling_ends_however_short_a_slice_is(folders):
    for age in range(1, 4):
        folders.remote.deliver(age=age * DAY)
    gone = folders.remote.deliver(age=5 * DAY)
    await folders.hint(gone)
    await folders.sync(slice_seconds=0)
    del folders.remote.items[gone]  # before the listing reaches it, so no feed reports it
    for _ in range(20):
        await folders.sync(slice_seconds=0)
    assert await folders.rows("SELECT scope FROM cursors WHERE kind = 'resync'") == []
    await folders.assert_mirrors()


async def test_a_message_that_came_after_a_listing_is_not_deleted_while_its_feed_is_late(folders, move_clock):
    """A listing by date stores it, for another folder whose first listing is unfinished."""
    for age in range(1, 12):
        folders.remote.deliver("archive" if age % 2 else "inbox", age=age * DAY)
    await store_one_that_is_gone_before_it_is_listed(folders)
    while not await folders.rows(COMPLETE):
        await folders.sync(slice_seconds=0)
    list_changes = folders.remote.list_changes

    async def list_nothing(scope, cursor):
        return ChangePage((), cursor, has_more=False)

    folders.remote.list_changes = list_nothing
    folders.remote.only_listed.add(folders.remote.deliver(age=DAY / 1000))
    while await folders.rows("SELECT 1 FROM cursors WHERE kind = 'resync' AND scope = 'inbox'"):
        await folders.sync(slice_seconds=0)
    folders.remote.list_changes = list_changes
    await folders.settle()
    assert await folders.one(DELETED) == 1
    await folders.assert_mirrors()


async def test_a_message_that_a_full_listing_leaves_out_is_looked_up_and_kept(mirror):
    keys = [mirror.remote.deliver(age=age * DAY) for age in range(1, 8)]
    await mirror.settle()
    list_messages = mirror.remote.list_messages

    async def leave_one_out(scope, **given):
        page = await list_messages(scope, **given)
        return replace(page, changes=tuple(each for each in page.changes if each.key != keys[3]))

    mirror.remote.list_messages = leave_one_out
    mirror.remote.deliver()
    mirror.remote.expire()
    await mirror.settle()
    assert await mirror.one(DELETED) == 0
    await mirror.assert_mirrors()


async def test_a_message_that_moved_in_after_a_listing_is_not_deleted_while_its_lookup_is_a_404(folders):
    for age in range(1, 12):
        folders.remote.deliver("archive" if age % 2 else "inbox", age=age * DAY)
    moved, gone = folders.remote.deliver("archive", age=DAY / 2), folders.remote.deliver(age=DAY / 3)
    await folders.settle()
    del folders.remote.items[gone]
    folders.remote.deliver()
    folders.remote.expire()
    while not await folders.rows(COMPLETE):
        await folders.sync(slice_seconds=0)
    folders.remote.move(moved, "inbox")
    folders.remote.only_listed.add(moved)
    await folders.settle()
    assert await folders.one(DELETED) == 1
    await folders.assert_mirrors()


async def test_a_message_that_the_first_listing_named_is_not_deleted_while_its_lookup_is_a_404(
    folders, move_clock
):
    """It could not be read when it was listed. Later it was fetched, as part of another listing."""
    for age in range(1, 8):
        folders.remote.deliver(age=age * DAY)
    key = folders.remote.deliver(age=DAY / 2)
    folders.remote.late.add(key)
    await folders.sync(slice_seconds=0)
    await folders.sync(slice_seconds=0)
    assert await folders.rows(OPEN) == [(key,)]
    folders.remote.late.clear()
    folders.remote.only_listed.add(key)
    await move_clock(60)
    await folders.settle()
    assert await folders.one(DELETED) == 0
    await folders.assert_mirrors()


@pytest.mark.damages_rows
async def test_a_repair_does_not_delete_a_different_message_that_cannot_be_read(mirror, move_clock):
    key = mirror.remote.deliver()
    await mirror.settle()
    await mirror.owner.execute("UPDATE messages SET is_read = true WHERE provider_message_id = %s", [key])
    found = await audited(mirror)
    assert found.different == [key]
    await repair(mirror, found)
    mirror.remote.late.add(key)
    await mirror.settle()
    assert await mirror.one(DELETED) == 0
    mirror.remote.late.clear()
    await move_clock(60)
    await mirror.settle()
    await mirror.assert_mirrors()


@pytest.mark.damages_rows
async def test_a_different_message_that_is_deleted_before_the_repair_is_not_retried(mirror):
    key = mirror.remote.deliver()
    await mirror.settle()
    await mirror.owner.execute("UPDATE messages SET is_read = true WHERE provider_message_id = %s", [key])
    found = await audited(mirror)
    mirror.remote.delete(key)
    await mirror.sync()
    await repair(mirror, found)
    await mirror.settle()
    assert await mirror.rows(OPEN) == []
    await mirror.assert_mirrors()


async def test_a_repair_does_not_delete_a_message_that_its_feed_names_since_the_audit(folders, move_clock):
    marked, edited = (folders.remote.deliver(is_draft=is_draft) for is_draft in (False, True))
    await folders.settle()
    hidden = {key: folders.remote.items.pop(key) for key in (marked, edited)}
    found = await audited(folders)
    assert set(found.extra) == {marked, edited}
    folders.remote.items |= hidden
    folders.remote.late |= {marked, edited}
    folders.remote.change(marked, is_read=True)
    folders.remote.write(edited, "edited")
    await folders.sync()
    await repair(folders, found)
    await folders.settle()
    await move_clock(3)
    await folders.settle()
    assert await folders.one(DELETED) == 0
    folders.remote.late.clear()
    await move_clock(60)
    await folders.settle()
    await folders.assert_mirrors()
    assert await folders.rows(OPEN) == []


async def test_a_longer_backfill_keeps_what_a_complete_listing_named(folders):
    """Until its end is settled, what it named is not looked up: a lookup may be a 404."""
    for age in range(1, 8):
        folders.remote.deliver("archive" if age % 2 else "inbox", age=age * DAY)
    await store_one_that_is_gone_before_it_is_listed(folders)
    while not await folders.rows("SELECT FROM messages WHERE deleted_at IS NOT NULL"):
        await folders.sync(slice_seconds=0)
        folders.remote.only_listed.add(folders.remote.deliver(age=DAY / 1000))
    assert await folders.one("SELECT count(*) FROM cursors WHERE kind = 'resync' AND scope = 'inbox'") == 1
    async with folders.database.transaction(folders.organization) as connection:
        await sync_requests.extend_backfill(connection, folders.organization, folders.mailbox, days=60)
    await folders.settle()
    assert await folders.one(DELETED) == 1
    await folders.assert_mirrors()
    assert await folders.rows("SELECT * FROM listed_messages") == []
