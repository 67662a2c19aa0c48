"""A message that the provider names and does not return is a failure until its scope says that it is gone."""

from datetime import timedelta

import pytest

from postroom.flow.mail.sync import sync_requests
from postroom.flow.mail.sync.page_fetch import UNREADABLE, UNREADABLE_WAITS

DAY = timedelta(days=1)
OPEN = "SELECT subject FROM failures WHERE resolved_at IS NULL ORDER BY 1"


async def list_everything(mirror) -> None:
    async with mirror.database.transaction(mirror.organization) as connection:
        await sync_requests.request_sync(connection, mirror.organization, mirror.mailbox, full=True)
    await mirror.settle()


@pytest.fixture
async def late(mirror):
    """A new message that the change feed names and that cannot be read; its key."""
    mirror.remote.deliver(age=2 * DAY)
    await mirror.settle()
    key = mirror.remote.deliver()
    mirror.remote.late.add(key)
    await mirror.sync()
    return key


async def test_a_new_message_that_cannot_be_read_is_a_failure_and_arrives_later(mirror, late, move_clock):
    assert await mirror.rows("SELECT kind, subject, attempts, last_error FROM failures") == [
        ("message", late, 1, UNREADABLE)
    ]
    await mirror.assert_mirrors(but={late})
    mirror.remote.late.clear()
    await move_clock(3)
    await mirror.sync()
    await mirror.assert_mirrors()
    assert await mirror.rows(OPEN) == []


async def test_the_failure_is_retried_in_seconds_then_minutes_then_hours(mirror, late, move_clock):
    waits = []
    wait = "SELECT extract(epoch FROM due_at - last_failed_at)::float8 FROM failures"
    for _ in UNREADABLE_WAITS:
        waits.append(await mirror.one(wait))
        await move_clock(waits[-1] + 1)
        await mirror.sync()
    assert [round(wait) for wait in waits] == [2, 8, 30, 120, 600, 3600, 6 * 3600, 24 * 3600]
    assert await mirror.rows("SELECT subject, due_at FROM failures WHERE resolved_at IS NULL") == [
        (late, None)
    ]
    mirror.remote.late.clear()
    await list_everything(mirror)
    await mirror.assert_mirrors()


async def test_the_failure_is_over_when_the_feed_names_the_deletion(mirror, late):
    mirror.remote.delete(late)
    await mirror.sync()
    assert await mirror.rows(OPEN) == []
    await mirror.assert_mirrors()
    assert await mirror.one("SELECT count(*) FROM messages WHERE provider_message_id = %s", late) == 0


async def test_the_failure_is_over_when_a_complete_listing_lacks_the_message(mirror, late, move_clock):
    del mirror.remote.items[late]  # and no change feed reports it
    await move_clock(20)
    await mirror.sync()
    assert await mirror.rows(OPEN) == [(late,)]
    await list_everything(mirror)
    assert await mirror.rows(OPEN) == []


async def test_the_failure_stays_while_a_complete_listing_contains_the_message(mirror, late):
    await list_everything(mirror)
    assert await mirror.rows(OPEN) == [(late,)]
    mirror.remote.late.clear()
    await list_everything(mirror)
    await mirror.assert_mirrors()


async def test_a_message_named_after_a_listing_began_is_not_settled_by_that_listing(labels):
    for age in range(1, 8):
        labels.remote.deliver(age=age * DAY)
    await labels.settle()
    async with labels.database.transaction(labels.organization) as connection:
        await sync_requests.request_sync(connection, labels.organization, labels.mailbox, full=True)
    await labels.sync(slice_seconds=0)
    key = labels.remote.deliver()
    labels.remote.late.add(key)
    await labels.settle()
    assert await labels.one("SELECT count(*) FROM cursors WHERE kind = 'resync'") == 0
    assert await labels.rows(OPEN) == [(key,)]


async def test_a_message_that_the_first_listing_cannot_read_is_a_failure(mirror, move_clock):
    keys = [mirror.remote.deliver(age=age * DAY) for age in range(1, 8)]
    mirror.remote.late.update(keys[1:3])
    await mirror.settle()
    await mirror.assert_mirrors(but=set(keys[1:3]))
    assert await mirror.rows(OPEN) == [(keys[1],), (keys[2],)]
    mirror.remote.late.clear()
    await move_clock(60)
    await mirror.settle()
    await mirror.assert_mirrors()
    assert await mirror.rows(OPEN) == []


async def test_a_message_created_and_deleted_between_two_syncs_leaves_no_failure(mirror):
    await mirror.settle()
    mirror.remote.delete(mirror.remote.deliver())
    await mirror.sync()
    assert await mirror.rows("SELECT subject FROM failures") == []


async def test_a_message_that_moves_before_it_is_readable_stays_a_failure(folders, move_clock):
    await folders.settle()
    key = folders.remote.deliver()
    folders.remote.late.add(key)
    await folders.sync()
    folders.remote.move(key, "archive")
    await folders.sync()
    assert await folders.rows("SELECT subject, scope FROM failures WHERE resolved_at IS NULL") == [
        (key, "archive")
    ]
    folders.remote.late.clear()
    await move_clock(60)
    await folders.sync()
    await folders.assert_mirrors()


async def test_a_message_that_a_push_and_the_feed_name_is_not_given_up(folders, move_clock):
    await folders.settle()
    key = folders.remote.deliver()
    folders.remote.late.add(key)
    await folders.hint(key)
    for _ in range(6):
        await folders.sync()
        await move_clock(700)
    assert await folders.rows(OPEN) == [(key,)]
    folders.remote.late.clear()
    await move_clock(25 * 3600)
    await folders.sync()
    await folders.assert_mirrors()


async def test_a_stored_message_that_stops_being_readable_is_not_deleted(mirror, move_clock):
    """Neither by a draft's edit, nor by a full listing that contains it, nor by a push."""
    key = mirror.remote.deliver(is_draft=True)
    await mirror.settle()
    mirror.remote.late.add(key)
    mirror.remote.write(key, "edited")
    await mirror.hint(*([] if mirror.remote.labelled else [key]))
    await mirror.sync()
    await list_everything(mirror)
    assert [event[0] for event in await mirror.events(key)] == ["created"]
    assert await mirror.rows(OPEN) == [(key,)]
    mirror.remote.late.clear()
    await move_clock(25 * 3600)
    await mirror.settle()
    await mirror.assert_mirrors()
    assert [event[0] for event in await mirror.events(key)] == ["created"]


async def test_a_message_that_its_feed_names_is_not_deleted_while_its_lookup_is_a_404(mirror, move_clock):
    """It was fetched as part of a listing; alone it cannot be read yet."""
    for age in range(1, 8):
        mirror.remote.deliver("archive" if age % 2 else "inbox", age=age * DAY)
    for expired in (False, True):
        for _ in range(12):
            await mirror.sync(slice_seconds=0)
            mirror.remote.only_listed.add(mirror.remote.deliver(age=DAY / 1000))
        await mirror.settle()
        if not expired:
            mirror.remote.expire()
    mirror.remote.only_listed.clear()
    await move_clock(60)
    await mirror.settle()
    await mirror.assert_mirrors()
    assert await mirror.one("SELECT count(*) FROM mail_events WHERE kind = 'deleted'") == 0
    assert await mirror.rows("SELECT * FROM listed_messages") == []


async def test_a_raised_policy_deletes_nothing_that_cannot_be_read_for_now(mirror, move_clock):
    key = mirror.remote.deliver()
    await mirror.settle()
    mirror.remote.late.add(key)
    await mirror.owner.execute(
        """
        INSERT INTO cursors (organization_id, mailbox_id, kind, scope) VALUES (%s, %s, 'refill', '')
        """,
        [mirror.organization, mirror.mailbox],
    )
    await mirror.settle()
    assert await mirror.rows(OPEN) == [(key,)]
    mirror.remote.delete(key)
    await mirror.settle()
    assert await mirror.rows(OPEN) == []
    assert [event[0] for event in await mirror.events(key)] == ["created", "deleted"]


async def test_an_old_report_of_a_deleted_message_is_settled_after_a_few_attempts(folders, move_clock):
    key = folders.remote.deliver()
    await folders.settle()
    report = folders.remote.log[-1]
    folders.remote.delete(key)
    await folders.sync()
    folders.remote.log.append(report)
    for _ in range(4):
        await folders.sync()
        await move_clock(60)
    assert await folders.rows(OPEN) == []
    assert [event[0] for event in await folders.events(key)] == ["created", "deleted"]
