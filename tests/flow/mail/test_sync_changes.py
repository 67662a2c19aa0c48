"""Moves, deletions and labels are applied and recorded once, however a provider reports them."""

from datetime import timedelta
from functools import partial

from postroom.documents import pipelines
from postroom.flow.documents import intake
from postroom.model import MessageChange, ObservedState, Presence, RemoteFolder

DAY = timedelta(days=1)


async def test_a_move_is_one_event_with_both_folders(folders):
    key = folders.remote.deliver()
    await folders.settle()
    folders.remote.move(key, "archive")
    await folders.sync()
    await folders.assert_mirrors()
    assert [event[:3] for event in await folders.events(key)] == [
        ("created", None, "inbox"),
        ("moved", "inbox", "archive"),
    ]


async def test_a_move_reported_first_by_the_old_folder_is_one_event(folders):
    key = folders.remote.deliver()
    await folders.settle()
    folders.remote.move(key, "archive")
    arrived = folders.remote.log.pop()
    await folders.sync()
    await folders.assert_mirrors()
    folders.remote.log.append(arrived)
    await folders.sync()
    assert [event[0] for event in await folders.events(key)] == ["created", "moved"]


async def test_a_move_reported_first_by_the_new_folder_is_one_event(folders):
    key = folders.remote.deliver()
    await folders.settle()
    folders.remote.move(key, "archive")
    left = folders.remote.log.pop(-2)
    await folders.sync()
    await folders.assert_mirrors()
    folders.remote.log.append(left)
    await folders.sync()
    assert folders.remote.calls["look"] == 0
    assert [event[0] for event in await folders.events(key)] == ["created", "moved"]


async def test_a_message_that_comes_back_is_stored_again_as_the_same(mirror):
    key = mirror.remote.deliver()
    await mirror.settle()
    kept = mirror.remote.items[key]
    mirror.remote.delete(key)
    await mirror.sync()
    await mirror.assert_mirrors()
    mirror.remote.items[key] = kept
    mirror.remote._changed(key)
    await mirror.sync()
    await mirror.assert_mirrors()
    assert [event[0] for event in await mirror.events(key)] == ["created", "deleted", "created"]


async def test_new_mail_that_moved_at_once_is_stored_where_it_is(folders):
    await folders.settle()
    keys = [folders.remote.deliver("trash"), folders.remote.deliver("archive")]
    folders.remote.move(keys[0], "archive")
    folders.remote.move(keys[1], "trash")
    await folders.sync()
    await folders.assert_mirrors()


async def test_labels_are_added_and_removed(labels):
    key = labels.remote.deliver()
    await labels.settle()
    labels.remote.label(key, add=["TRASH"], remove=["INBOX"])
    await labels.sync()
    await labels.assert_mirrors()
    assert (await labels.events(key))[1][3:5] == (["TRASH"], ["INBOX"])
    assert await labels.one("SELECT labels FROM threads") == ["TRASH", "UNREAD"]


async def test_repeated_changes_change_nothing(mirror):
    key = mirror.remote.deliver()
    mirror.remote.change(key, is_read=True)
    await mirror.settle()
    mirror.remote.change(key, is_flagged=True)
    await mirror.sync()
    before = await mirror.rows("SELECT * FROM messages ORDER BY id")
    mirror.remote.log += mirror.remote.log[:]
    await mirror.sync()
    assert await mirror.rows("SELECT * FROM messages ORDER BY id") == before
    await mirror.assert_mirrors()


async def test_a_message_that_came_and_went_between_two_syncs_leaves_no_trace(mirror):
    await mirror.settle()
    mirror.remote.delete(mirror.remote.deliver())
    await mirror.sync()
    await mirror.assert_mirrors()
    assert await mirror.one("SELECT count(*) FROM messages") == 0


async def test_label_changes_of_mail_that_is_too_old_bring_it_not_in(labels):
    key = labels.remote.deliver(age=90 * DAY)
    await labels.settle()
    labels.remote.label(key, add=["TRASH"])
    await labels.sync()
    assert labels.remote.calls["fetch"] == 0
    await labels.assert_mirrors(but={key})


async def test_a_change_of_mail_that_is_too_old_brings_it_not_in(folders):
    key = folders.remote.deliver(age=90 * DAY)
    await folders.settle()
    folders.remote.move(key, "archive")
    await folders.sync()
    assert folders.remote.calls["fetch"] == 0
    await folders.assert_mirrors(but={key})


async def test_mail_in_a_folder_that_is_not_mirrored_has_left(folders):
    key = folders.remote.deliver()
    await folders.settle()
    folders.remote.move(key, "recoverable")
    await folders.sync()
    assert [event[0] for event in await folders.events(key)] == ["created", "deleted"]
    assert await folders.one("SELECT message_count FROM threads") == 0


async def test_an_update_without_a_version_is_merged(folders):
    key = folders.remote.deliver()
    await folders.settle()
    item = folders.remote.items[key]
    folders.remote.change(key, is_read=True)
    folders.remote.log[-1] = ("inbox", MessageChange(key, Presence.PRESENT, "", ObservedState(is_read=True)))
    await folders.sync()
    assert item.state.is_read
    await folders.assert_mirrors()


async def test_every_change_without_a_version_is_an_event(folders):
    key = folders.remote.deliver()
    await folders.settle()
    for is_read in (True, False, True):
        folders.remote.change(key, is_read=is_read)
        change = MessageChange(key, Presence.PRESENT, "", ObservedState(is_read=is_read))
        folders.remote.log[-1] = ("inbox", change)
        await folders.sync()
    assert [event[0] for event in await folders.events(key)] == ["created", *["updated"] * 3]
    assert [event[5] for event in await folders.events(key)][1:] == [
        {"is_read": True},
        {"is_read": False},
        {"is_read": True},
    ]


async def test_a_message_deleted_twice_without_a_version_has_both_events(folders):
    key = folders.remote.deliver()
    await folders.settle()
    for _ in range(2):
        kept = folders.remote.items[key]
        folders.remote.delete(key)
        await folders.sync()
        folders.remote.items[key] = kept  # restored with the version that it had
        folders.remote.log.append(("inbox", folders.remote._seen(kept)))
        await folders.sync()
    await folders.assert_mirrors()
    kinds = [event[0] for event in await folders.events(key)]
    assert kinds == ["created", "deleted", "created", "deleted", "created"]


async def test_changes_on_one_page_are_events_in_the_order_in_which_they_happened(labels):
    key = labels.remote.deliver()
    await labels.settle()
    labels.remote.label(key, add=["TRASH"])
    labels.remote.label(key, remove=["TRASH"])
    labels.remote.change(key, is_flagged=True)
    await labels.sync()
    await labels.assert_mirrors()
    kinds = [event[0] for event in await labels.events(key)]
    assert kinds == ["created", "labels_changed", "labels_changed", "updated"]


async def test_a_created_event_has_the_whole_state(mirror):
    key = mirror.remote.deliver()
    await mirror.settle()
    [(_, _, folder, labels, _, changed)] = await mirror.events(key)
    assert (folder, labels) == ((None, ["INBOX", "UNREAD"]) if mirror.remote.labelled else ("inbox", []))
    assert changed == {
        "is_read": False,
        "is_flagged": False,
        "is_draft": False,
        "importance": "normal",
        "categories": [],
        "content_revision": 1,
    }


async def test_an_edited_draft_has_an_event_with_its_content_revision(mirror):
    key = mirror.remote.deliver(is_draft=True)
    await mirror.settle()
    for body in ("A first idea", "A better idea"):
        mirror.remote.write(key, body)
        await mirror.sync()
    await mirror.assert_mirrors()
    changes = [(event[0], event[5]) for event in await mirror.events(key)][1:]
    assert changes == [("updated", {"content_revision": 2}), ("updated", {"content_revision": 3})]
    assert await mirror.one("SELECT count(*) FROM events WHERE kind = 'message.changed'") == 2


async def test_a_page_that_is_delivered_again_after_a_crash_has_no_second_event(mirror):
    key = mirror.remote.deliver()
    await mirror.settle()
    before = await mirror.rows("SELECT kind, scope, value FROM cursors WHERE kind = 'live'")
    mirror.remote.change(key, is_read=True)
    mirror.remote.change(key, is_flagged=True)
    await mirror.sync()
    events = await mirror.events(key)
    for kind, scope, value in before:  # as if the provider had repeated the page
        query = "UPDATE cursors SET value = %s WHERE kind = %s AND scope = %s"
        await mirror.owner.execute(query, [value, kind, scope])
    await mirror.sync()
    assert mirror.remote.calls["changes"]
    assert await mirror.events(key) == events


async def test_a_pipeline_for_a_new_label_accepts_its_messages(labels):
    """The folder tree is up to date but older than the label; screening needs the name of the label."""
    suppliers = pipelines.parse(
        '[invoices]\nkind = "invoice"\nfolders = ["Suppliers"]', place="test", kinds={"invoice"}
    )
    invoice = [("invoice.pdf", "application/pdf", b"%PDF-1.7")]
    labelled = labels.remote.deliver(files=invoice)
    await labels.settle()
    labels.remote.tree.append(RemoteFolder("Label_1", "Suppliers", None, None, ""))
    labels.remote.label(labelled, add=["Label_1"])
    await labels.sync(intake=partial(intake.take_in, suppliers))
    labels.remote.tree.append(RemoteFolder("Label_2", "Suppliers", None, None, ""))
    received = labels.remote.deliver(labels=("INBOX", "Label_2"), files=invoice)
    await labels.sync(intake=partial(intake.take_in, suppliers))
    accepted = await labels.rows(
        """
        SELECT provider_message_id FROM verdicts JOIN messages ON messages.id = message_id
        WHERE part = '' AND accepted ORDER BY 1
        """
    )
    assert accepted == [(labelled,), (received,)]


async def test_a_label_that_the_provider_does_not_list_is_looked_for_once_in_a_run(labels):
    await labels.settle()
    for _ in range(3 * labels.remote.page):
        labels.remote.deliver(labels=("INBOX", "Hidden"))
    await labels.sync()
    assert labels.remote.calls["changes"] == 3
    assert labels.remote.calls["folders"] == 1
    await labels.assert_mirrors()
