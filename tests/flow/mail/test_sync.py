"""Sync of a mailbox: first listing, live changes, and repeated reports that must change nothing."""

from datetime import timedelta

DAY = timedelta(days=1)
PDF = ("invoice.pdf", "application/pdf", b"%PDF-1.7 an invoice")


async def test_the_first_sync_stores_what_was_received_in_the_window(mirror):
    for age in range(1, 12):
        mirror.remote.deliver(age=age * DAY, files=[PDF] if age % 3 == 0 else [])
    old = mirror.remote.deliver(age=31 * DAY)
    await mirror.settle()
    await mirror.assert_mirrors(but={old})
    assert len(mirror.blobs.kept) == 1


async def test_messages_of_a_thread_are_counted_and_summed_up(mirror):
    for age in (3, 2, 1):
        mirror.remote.deliver(thread="t", age=age * DAY, files=[PDF] if age == 2 else [])
    await mirror.settle()
    [row] = await mirror.rows(
        """
        SELECT message_count, has_attachments, participants, last_message_at - first_message_at, labels
        FROM threads
        """
    )
    labels = ["INBOX", "UNREAD"] if mirror.remote.labelled else []
    assert row == (3, True, ["ann@example.org", "bob@example.com"], 2 * DAY, labels)


async def test_live_changes_are_applied_and_recorded_as_events(mirror):
    key, other = mirror.remote.deliver(), mirror.remote.deliver()
    await mirror.settle()
    mirror.remote.change(key, is_read=True)
    mirror.remote.delete(other)
    new = mirror.remote.deliver(age=DAY / 2)
    await mirror.sync()
    await mirror.assert_mirrors()
    assert [event[0] for event in await mirror.events(key)] == ["created", "updated"]
    assert (await mirror.events(key))[1][5] == {"is_read": True}
    assert [event[0] for event in await mirror.events(other)] == ["created", "deleted"]
    assert [event[0] for event in await mirror.events(new)] == ["created"]


async def test_a_sync_that_finds_nothing_writes_nothing(mirror):
    mirror.remote.deliver()
    await mirror.settle()
    before = await mirror.one("SELECT count(*) FROM ledger"), await mirror.one("SELECT count(*) FROM events")
    await mirror.sync()
    after = await mirror.one("SELECT count(*) FROM ledger"), await mirror.one("SELECT count(*) FROM events")
    assert before == after
    assert (await mirror.get()).last_synced_at
    assert await mirror.one("SELECT max(share) FROM quota_usage") == 0.25


async def test_a_draft_that_is_written_on_is_fetched_again(mirror):
    key = mirror.remote.deliver(is_draft=True)
    await mirror.settle()
    mirror.remote.write(key, "Another text")
    await mirror.sync()
    await mirror.assert_mirrors()


async def test_a_draft_that_is_written_on_loses_the_attachments_that_were_removed(mirror):
    key = mirror.remote.deliver(is_draft=True, files=[PDF, ("b.txt", "text/plain", b"removed later")])
    await mirror.settle()
    draft = mirror.remote.items[key]
    draft.attachments = draft.attachments[:1]
    mirror.remote.write(key, "Without the second file")
    await mirror.sync()
    await mirror.assert_mirrors()


async def test_messages_with_attachments_are_taken_in_in_the_same_transaction(mirror):
    taken = []

    async def take_in(connection, organization, ids):
        cursor = await connection.execute(
            "SELECT count(*) FROM attachments WHERE message_id = ANY(%s)", [ids]
        )
        taken.append((len(ids), (await cursor.fetchone())[0]))

    mirror.remote.deliver(files=[PDF])
    mirror.remote.deliver()
    await mirror.sync(intake=take_in)
    assert (1, 1) in taken
    assert await mirror.one("SELECT detected FROM blobs") == "pdf"
