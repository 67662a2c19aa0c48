"""Listings continue where they stopped, let new mail pass, and settle only what they covered."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from postroom.errors import NotFound, TransientError
from postroom.flow.mail.sync import sync_requests
from postroom.flow.mail.sync.sync_step import FOLDERS_SKIPPED
from postroom.model import FolderRole, MailboxHealth, RemoteFolder

DAY = timedelta(days=1)


async def test_a_listing_continues_at_the_page_where_it_stopped(mirror):
    for age in range(1, 10):
        mirror.remote.deliver(age=age * DAY)

    def stop(call):
        if call == "listing" and mirror.remote.calls["listing"] == 3:
            raise TransientError("stop")

    mirror.remote.before = stop
    with pytest.raises(TransientError):
        await mirror.sync()
    stored = await mirror.one("SELECT count(*) FROM messages")
    assert 0 < stored < 9
    mirror.remote.before = lambda _: None
    await mirror.owner.execute(
        "UPDATE work SET state = 'waiting', lease_token = NULL, leased_until = NULL, last_error = NULL"
    )
    await mirror.settle()
    await mirror.assert_mirrors()
    assert mirror.remote.calls["fetch"] < 3


async def test_the_first_listing_reaches_back_from_the_connection(mirror, move_clock):
    mirror.remote.deliver(age=29 * DAY)
    too_old = mirror.remote.deliver(age=31 * DAY)
    await move_clock(3 * DAY.total_seconds())  # no worker runs meanwhile
    await mirror.settle()
    await mirror.assert_mirrors(but={too_old})


async def test_no_page_is_committed_after_one_that_failed(labels):
    keys = [labels.remote.deliver(age=age * DAY) for age in range(1, 13)]
    real, listed = labels.remote.fetch, asyncio.Event()

    def note(call):
        if call == "listing" and labels.remote.calls["listing"] == 3:
            listed.set()

    async def fetch(wanted, policy):
        if keys[3] in [change.key for change in wanted]:
            await listed.wait()  # the next page is on its way already
            raise TransientError("not now")
        async for group in real(wanted, policy):
            yield group

    labels.remote.fetch, labels.remote.before = fetch, note
    with pytest.raises(TransientError):
        await labels.sync()
    stored = [key for (key,) in await labels.rows("SELECT provider_message_id FROM messages ORDER BY 1")]
    assert stored == keys[:3]
    assert await labels.one("SELECT listed FROM cursors WHERE kind = 'backfill'") == 3
    labels.remote.fetch = real
    await labels.owner.execute(
        "UPDATE work SET state = 'waiting', lease_token = NULL, leased_until = NULL, last_error = NULL"
    )
    await labels.settle()
    await labels.assert_mirrors()


async def test_a_long_listing_works_in_slices(mirror):
    for age in range(1, 12):
        mirror.remote.deliver(age=age * DAY)
    for pages in (1, 2):  # of three messages each, however short a slice is
        await mirror.sync(slice_seconds=0)
        assert mirror.remote.calls["listing"] == 1
        assert await mirror.one("SELECT sum(listed) FROM cursors") <= 3 * pages
        assert await mirror.one("SELECT due_at <= postroom_now() FROM work")
    await mirror.settle()
    await mirror.assert_mirrors()


async def test_new_mail_does_not_wait_behind_old_mail(mirror):
    for age in range(2, 12):
        mirror.remote.deliver(age=age * DAY)
    order = []
    real = mirror.remote.list_messages

    async def listing(scope, **given):
        page = await real(scope, **given)
        if mirror.remote.calls["listing"] == 2 and not order:
            order.append(mirror.remote.deliver(age=DAY / 24))
            await mirror.hint(*([] if mirror.remote.labelled else order))
        return page

    mirror.remote.list_messages = listing
    await mirror.sync()
    await mirror.assert_mirrors()
    ids = [key for (key,) in await mirror.rows("SELECT provider_message_id FROM messages ORDER BY id")]
    assert ids.index(order[0]) < len(ids) - 2


@pytest.mark.parametrize("during", ["live", "backfill"])
async def test_an_expired_cursor_finds_what_changed_and_what_was_deleted(mirror, during):
    keys = [mirror.remote.deliver(age=age * DAY) for age in range(1, 11)]
    if during == "live":
        await mirror.settle()
    else:
        await mirror.sync(slice_seconds=0)
    mirror.remote.delete(keys[1])
    mirror.remote.delete(keys[8])
    mirror.remote.change(keys[2], is_read=True)
    mirror.remote.change(keys[7], is_flagged=True)
    mirror.remote.deliver(age=DAY / 2)
    mirror.remote.expire()
    await mirror.settle()
    await mirror.assert_mirrors()
    assert await mirror.one("SELECT count(*) FROM listed_messages") == 0
    assert await mirror.one("SELECT count(*) FROM cursors WHERE kind = 'resync'") == 0


@pytest.mark.parametrize("during", ["live", "backfill"])
async def test_a_full_sync_that_is_asked_for_lists_everything_once(mirror, during):
    keys = [mirror.remote.deliver(age=age * DAY) for age in range(1, 11)]
    old = mirror.remote.deliver(age=40 * DAY)
    if during == "live":
        await mirror.settle()
        mirror.remote.delete(keys[2])
        mirror.remote.change(keys[5], is_read=True)
        mirror.remote.deliver(age=DAY / 2)
        mirror.remote.log.clear()  # no change feed reports these
    else:
        await mirror.sync(slice_seconds=0)
    async with mirror.database.transaction(mirror.organization) as connection:
        await sync_requests.request_sync(connection, mirror.organization, mirror.mailbox, full=True)
    await mirror.sync()
    pages = {"labels": 4 + 4, "folders": 4 + 1 + 1}  # of keys alone the window is listed too, for what is new
    assert mirror.remote.calls["listing"] == pages["labels" if mirror.remote.labelled else "folders"]
    await mirror.settle()
    assert await mirror.one("SELECT count(*) FROM cursors WHERE kind = 'resync'") == 0
    await mirror.assert_mirrors(but={old})


async def test_what_moved_while_the_cursor_was_expired_is_found_where_it_is(folders):
    keys = [folders.remote.deliver(age=age * DAY) for age in range(1, 8)]
    await folders.settle()
    folders.remote.move(keys[3], "archive")
    folders.remote.expire()
    await folders.settle()
    await folders.assert_mirrors()
    assert ("moved", "inbox", "archive") in [event[:3] for event in await folders.events(keys[3])]


async def test_mail_stored_from_before_the_window_is_settled_too(mirror):
    keys = [mirror.remote.deliver(age=29 * DAY), mirror.remote.deliver(age=28 * DAY)]
    await mirror.settle()
    await mirror.owner.execute("UPDATE cursors SET since = since + interval '10 days'")
    never = mirror.remote.deliver(age=80 * DAY)
    mirror.remote.delete(keys[0])
    mirror.remote.change(keys[1], is_read=True)
    mirror.remote.expire()
    await mirror.settle()
    await mirror.assert_mirrors(but={never})


async def test_mail_that_comes_during_a_full_listing_is_not_taken_for_deleted(mirror):
    for age in range(1, 11):
        mirror.remote.deliver(age=age * DAY)
    await mirror.settle()
    mirror.remote.expire()

    def arrive(call):
        if call == "listing" and mirror.remote.calls["listing"] in {2, 4}:
            mirror.remote.deliver(age=DAY / 24)

    mirror.remote.before = arrive
    await mirror.settle()
    mirror.remote.before = lambda _: None
    await mirror.settle()
    await mirror.assert_mirrors()
    assert await mirror.one("SELECT count(*) FROM mail_events WHERE kind = 'deleted'") == 0


@pytest.mark.parametrize("recorded", ["by date", "by hint"])
async def test_what_came_during_the_first_listing_and_went_before_its_folder_was_read_is_gone(
    folders, recorded
):
    """No feed reports it: each starts with the first listing of its folder."""
    for age in range(1, 8):
        folders.remote.deliver(age=age * DAY)
    folders.remote.deliver("trash", age=3 * DAY)
    old = folders.remote.deliver("trash", age=9 * DAY)
    await folders.sync(slice_seconds=0)
    early = old if recorded == "by hint" else folders.remote.deliver("trash", age=DAY / 1000)
    if recorded == "by hint":
        await folders.hint(early)
    await folders.sync(slice_seconds=0)
    known = "SELECT count(*) FROM messages WHERE provider_message_id = %s"
    assert await folders.one(known, early) == 1
    folders.remote.move(early, "archive")
    await folders.hint(early)
    await folders.sync(slice_seconds=0)
    folders.remote.delete(early)
    await folders.settle()
    await folders.assert_mirrors()
    assert [event[0] for event in await folders.events(early)][-1] == "deleted"
    assert await folders.one("SELECT count(*) FROM listed_messages") == 0


async def test_a_first_listing_that_is_begun_again_forgets_what_it_showed_before(folders):
    keys = [folders.remote.deliver(age=age * DAY) for age in range(1, 8)]
    await folders.sync(slice_seconds=0)
    folders.remote.delete(keys[0])
    async with folders.database.transaction(folders.organization) as connection:
        await sync_requests.extend_backfill(connection, folders.organization, folders.mailbox, days=60)
    await folders.settle()
    await folders.assert_mirrors()


async def test_mail_of_a_folder_that_is_no_longer_chosen_left_until_the_folder_is_chosen_again(folders):
    """It is kept and not deleted; what was deleted meanwhile is."""
    out, deleted = folders.remote.deliver("archive"), folders.remote.deliver("archive")
    moved = folders.remote.deliver("archive")
    folders.remote.deliver("inbox")
    await folders.settle()
    whole = folders.remote.tree
    folders.remote.choose("inbox")
    folders.remote.move(moved, "inbox")
    folders.remote.delete(deleted)
    await folders.owner.execute("DELETE FROM cursors WHERE kind = 'folders'")
    await folders.settle()
    await folders.assert_mirrors(left={out})
    assert [event[0] for event in await folders.events(out)] == ["created", "left"]
    assert [event[0] for event in await folders.events(deleted)] == ["created", "deleted"]
    kept = "SELECT deleted_at IS NULL, left_at IS NOT NULL FROM messages WHERE provider_message_id = %s"
    assert await folders.rows(kept, out) == [(True, True)]
    recorded = """
        SELECT event_type, payload ->> 'provider_message_id' FROM ledger
        WHERE event_type IN ('MESSAGE_DELETED', 'MESSAGE_LEFT_SCOPE') ORDER BY 1
    """
    assert await folders.rows(recorded) == [("MESSAGE_DELETED", deleted), ("MESSAGE_LEFT_SCOPE", out)]
    assert await folders.one("SELECT count(*) FROM events WHERE kind = 'message.left'") == 1
    folders.remote.tree = whole
    await folders.owner.execute("DELETE FROM cursors WHERE kind = 'folders'")
    await folders.settle()
    await folders.assert_mirrors()
    assert [event[0] for event in await folders.events(out)][:2] == ["created", "left"]


async def test_a_message_moved_out_of_the_chosen_folder_left_it_and_comes_back(folders):
    folders.remote.choose("inbox")
    out, trashed = folders.remote.deliver(), folders.remote.deliver()
    await folders.settle()
    folders.remote.move(out, "archive")
    folders.remote.move(trashed, "trash")
    await folders.sync()
    moved = [("created", None, "inbox"), ("left", "inbox", "archive")]
    assert [event[:3] for event in await folders.events(out)] == moved
    assert [event[0] for event in await folders.events(trashed)] == ["created", "deleted"]
    folders.remote.move(out, "inbox")
    await folders.sync()
    await folders.assert_mirrors(but={trashed})
    assert [event[0] for event in await folders.events(out)] == ["created", "left", "created"]


@pytest.mark.parametrize("during", ["list_messages", "list_changes"])
async def test_a_folder_that_is_there_and_cannot_be_read_leaves_the_others_alone(folders, during):
    for age in range(1, 8):
        folders.remote.deliver(age=age * DAY)
    kept = folders.remote.deliver("archive")
    if during == "list_changes":
        await folders.settle()
    real = getattr(folders.remote, during)

    async def refuse(scope, *rest, **named):
        if scope == "archive":
            folders.remote.calls["refused"] += 1
            raise NotFound("no such folder")
        return await real(scope, *rest, **named)

    setattr(folders.remote, during, refuse)
    late = folders.remote.deliver("archive", age=DAY / 2)
    folders.remote.deliver(age=DAY / 2)
    await folders.sync()
    assert folders.remote.calls["refused"] == 1
    assert not await folders.one("SELECT due_at <= postroom_now() FROM work WHERE kind = 'sync'")
    missing = {late} if during == "list_changes" else {kept, late}
    await folders.assert_mirrors(but=missing)
    found = await folders.get()
    assert (found.health, found.last_error) == (MailboxHealth.ACTIVE, FOLDERS_SKIPPED)
    setattr(folders.remote, during, real)
    await folders.settle()
    await folders.assert_mirrors()
    assert (await folders.get()).last_error is None


async def test_new_renamed_and_deleted_folders_are_followed(folders):
    keys = [folders.remote.deliver("archive", age=age * DAY) for age in range(1, 5)]
    await folders.settle()
    tree = folders.remote.tree
    tree.append(RemoteFolder("new", "New", "inbox", None, "new"))
    tree[0] = RemoteFolder("inbox", "Posteingang", None, FolderRole.INBOX, "inbox")
    folders.remote.move(keys[0], "new")
    folders.remote.remove_folder("archive")
    await folders.settle()
    await folders.assert_mirrors()
    names = await folders.rows("SELECT name, deleted_at IS NULL FROM folders ORDER BY name")
    assert names == [("Archive", False), ("Deleted Items", True), ("New", True), ("Posteingang", True)]


@pytest.mark.parametrize("full", [False, True])
async def test_a_sync_that_is_asked_for_finds_renamed_folders(mirror, full):
    await mirror.settle()
    mirror.remote.tree[0] = replace(mirror.remote.tree[0], name="Eingang")
    async with mirror.database.transaction(mirror.organization) as connection:
        await sync_requests.request_sync(connection, mirror.organization, mirror.mailbox, full=full)
    await mirror.settle()
    assert await mirror.one("SELECT count(*) FROM folders WHERE name = 'Eingang'") == 1


async def test_a_full_sync_that_is_requested_during_a_sweep_is_not_lost(mirror, move_clock):
    await mirror.settle()
    await move_clock(900)
    list_changes = mirror.remote.list_changes

    async def request_full_sync(scope, cursor):
        mirror.remote.list_changes = list_changes
        page = await list_changes(scope, cursor)
        async with mirror.database.transaction(mirror.organization) as connection:
            await sync_requests.request_sync(connection, mirror.organization, mirror.mailbox, full=True)
        return page

    mirror.remote.list_changes = request_full_sync
    await mirror.sync()
    assert not mirror.remote.calls["listing"]
    assert await mirror.one("SELECT due_at <= postroom_now() FROM work WHERE kind = 'sync'")
    await mirror.sync()
    assert mirror.remote.calls["listing"]
    await mirror.settle()
    await mirror.assert_mirrors()


async def test_a_longer_backfill_that_is_requested_during_a_shorter_one_is_complete(mirror, move_clock):
    """The page that was read meanwhile is none of the longer listing."""
    for age in [*range(1, 8), *range(40, 46)]:
        mirror.remote.deliver(age=age * DAY)
    list_messages = mirror.remote.list_messages

    async def extend(scope, **given):
        mirror.remote.list_messages = list_messages
        page = await list_messages(scope, **given)
        async with mirror.database.transaction(mirror.organization) as connection:
            await sync_requests.extend_backfill(connection, mirror.organization, mirror.mailbox, days=60)
        return page

    await mirror.sync(slice_seconds=0)
    mirror.remote.list_messages = extend
    with pytest.raises(TransientError, match="started again"):
        await mirror.sync()
    await move_clock(61)  # the lease of that run
    await mirror.settle()
    await mirror.assert_mirrors()
