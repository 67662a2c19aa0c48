"""A failed message is recorded and retried by itself; a failed mailbox stops its sync. Nothing is lost."""

import asyncio
import random
from dataclasses import replace
from datetime import timedelta

import pytest

from flow.mail.fake_provider import with_folders, with_labels
from postroom.errors import InvalidGrant, LeaseLost, PermanentError, TransientError
from postroom.flow.mail import sync
from postroom.flow.mail.sync.content_filter import MAX_ADDRESS
from postroom.flow.mail.sync.sync_step import MAX_LOST_LEASES
from postroom.model import MailboxHealth
from postroom.store import work

DAY = timedelta(days=1)


async def test_a_poison_message_does_not_stop_the_mailbox(mirror):
    keys = [mirror.remote.deliver(age=age * DAY) for age in range(1, 8)]
    mirror.remote.poison.add(keys[3])
    await mirror.settle()
    await mirror.assert_mirrors(but={keys[3]})
    assert await mirror.rows("SELECT kind, subject, attempts, last_error FROM failures") == [
        ("message", keys[3], 1, "It cannot be read.")
    ]


async def test_a_page_whose_write_failed_is_read_again(mirror, move_clock):
    """No cursor passes what is not stored: neither that of the first listing nor that of the change feed."""
    await mirror.owner.execute(
        """
        CREATE FUNCTION fail_write() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION 'canceled' USING ERRCODE = 'query_canceled'; END $$
        """
    )
    for _ in range(2):
        mirror.remote.deliver()
        await mirror.owner.execute(
            "CREATE TRIGGER fail_write BEFORE INSERT ON messages EXECUTE FUNCTION fail_write()"
        )
        with pytest.raises(TransientError):
            await mirror.settle()
        await mirror.owner.execute("DROP TRIGGER fail_write ON messages")
        await move_clock(61)  # the lease of the run that failed
        await mirror.settle()
        await mirror.assert_mirrors()


async def test_what_failed_is_tried_again_until_it_waits_for_a_person(mirror, move_clock):
    key = mirror.remote.deliver()
    mirror.remote.poison.add(key)
    await mirror.settle()
    for _ in range(6):
        await move_clock(25 * 3600)
        await mirror.sync()
    assert await mirror.rows("SELECT attempts, due_at, resolved_at FROM failures") == [(7, None, None)]


async def test_what_failed_and_succeeds_is_stored_and_resolved(mirror, move_clock):
    key = mirror.remote.deliver()
    mirror.remote.poison.add(key)
    await mirror.settle()
    mirror.remote.poison.clear()
    await move_clock(60)
    await mirror.sync()
    await mirror.assert_mirrors()
    assert await mirror.one("SELECT resolved_at IS NOT NULL FROM failures")


async def test_a_message_that_cannot_be_looked_at_does_not_stop_the_feeds(folders, move_clock):
    key = folders.remote.deliver()
    await folders.settle()
    folders.remote.hidden.add(key)
    folders.remote.delete(key)
    new = folders.remote.deliver()
    await folders.sync()
    found = "SELECT provider_message_id FROM messages WHERE deleted_at IS NULL ORDER BY 1"
    assert await folders.rows(found) == [(key,), (new,)]
    assert await folders.rows("SELECT kind, subject, last_error FROM failures") == [
        ("message", key, "It cannot be looked at.")
    ]
    await move_clock(60)
    await folders.sync()
    await folders.assert_mirrors()


async def test_a_message_that_cannot_be_looked_at_does_not_stop_a_full_listing(mirror, move_clock):
    keys = [mirror.remote.deliver(age=age * DAY) for age in range(1, 6)]
    await mirror.settle()
    mirror.remote.hidden.add(keys[1])
    mirror.remote.delete(keys[1])
    mirror.remote.delete(keys[3])
    mirror.remote.expire()
    await mirror.settle()
    assert await mirror.one("SELECT count(*) FROM cursors WHERE kind = 'resync'") == 0
    assert await mirror.one("SELECT count(*) FROM messages WHERE deleted_at IS NULL") == 4
    await move_clock(60)
    await mirror.settle()
    await mirror.assert_mirrors()


@pytest.fixture
async def without_bytes(mirror):
    """A message whose attachment cannot be read; its key."""
    key = mirror.remote.deliver(files=[("a.pdf", "application/pdf", b"%PDF-")])
    item = mirror.remote.items[key]
    whole = item.attachments
    item.attachments = tuple(replace(each, content=None) for each in whole)
    mirror.remote.unreadable = {"1"}
    await mirror.settle()
    assert await mirror.rows("SELECT kind, resolved_at FROM failures") == [("attachment", None)]
    item.attachments = whole
    return key


async def test_a_stored_attachment_keeps_its_bytes_when_a_retry_cannot_fetch_it(mirror, move_clock):
    """One attachment fails at first; when its message is fetched again, the other one fails."""
    files = [("a.pdf", "application/pdf", b"%PDF-a"), ("b.pdf", "application/pdf", b"%PDF-b")]
    item = mirror.remote.items[mirror.remote.deliver(files=files)]
    whole = item.attachments
    item.attachments = tuple(replace(each, content=None) for each in whole)
    first, second = (each.part for each in whole)
    digests = "SELECT sha256 IS NOT NULL FROM attachments ORDER BY file_name"
    mirror.remote.unreadable = {second}
    await mirror.settle()
    assert await mirror.rows(digests) == [(True,), (False,)]
    mirror.remote.unreadable = {first}
    await move_clock(3600)
    await mirror.settle()
    assert await mirror.rows(digests) == [(True,), (True,)]


@pytest.fixture
async def deleted(mirror, without_bytes):
    """It is deleted, at the provider and here."""
    mirror.gone = mirror.remote.items[without_bytes]
    mirror.remote.delete(without_bytes)
    await mirror.settle()
    assert await mirror.one("SELECT deleted_at IS NOT NULL FROM messages")
    return without_bytes


async def test_what_failed_of_a_message_is_over_when_the_message_is_deleted(mirror, deleted):
    assert await mirror.one("SELECT resolved_at IS NOT NULL AND due_at IS NULL FROM failures")


@pytest.mark.parametrize("answer", ["gone", "unreadable"])
async def test_trying_again_does_not_bring_a_deleted_message_back(mirror, deleted, answer):
    await mirror.owner.execute("UPDATE failures SET resolved_at = NULL, due_at = postroom_now()")
    if answer == "unreadable":
        mirror.remote.items[deleted] = mirror.gone
        mirror.remote.poison.add(deleted)
    recorded = "SELECT kind FROM events ORDER BY id"
    before = await mirror.rows(recorded)
    await mirror.settle()
    assert mirror.remote.calls["fetch"] == 1
    assert await mirror.one("SELECT deleted_at IS NOT NULL FROM messages")
    assert [event[0] for event in await mirror.events(deleted)] == ["created", "deleted"]
    assert await mirror.rows(recorded) == before


async def test_a_message_that_comes_back_is_fetched_whole(mirror, deleted):
    """Its missing parts are no longer retried."""
    mirror.remote.items[deleted] = mirror.gone
    mirror.remote.change(deleted, is_read=True)
    await mirror.settle()
    await mirror.assert_mirrors()
    assert [event[0] for event in await mirror.events(deleted)] == ["created", "deleted", "created"]


async def test_a_message_that_the_database_refuses_fails_alone(mirror, move_clock):
    """Whatever the reason: the page is bisected until only the rejected message is left."""
    keys = [mirror.remote.deliver(age=age * DAY) for age in range(1, 8)]
    mirror.remote.sizes = {keys[1]: 2**63, keys[2]: 2**63}
    await mirror.settle()
    await mirror.assert_mirrors(but={keys[1], keys[2]})
    found = "SELECT subject, attempts, last_error, resolved_at IS NULL FROM failures ORDER BY 1"
    words = "The database rejects this message (NumericValueOutOfRange)."
    assert await mirror.rows(found) == [(key, 1, words, True) for key in keys[1:3]]
    late = mirror.remote.deliver(age=DAY / 2)
    mirror.remote.sizes[late] = 2**63
    for _ in range(2):
        await move_clock(130)
        mirror.remote.deliver(age=DAY / 2)
        await mirror.settle()
    await mirror.assert_mirrors(but={keys[1], keys[2], late})
    assert [attempts for _, attempts, _, _ in await mirror.rows(found)] == [3, 3, 2]
    mirror.remote.sizes.clear()
    await move_clock(24 * 3600)
    await mirror.settle()
    await mirror.assert_mirrors()
    assert [is_open for _, _, _, is_open in await mirror.rows(found)] == [False] * 3


@pytest.mark.parametrize("make_address", ["{}@example.com", "a@{}.example", "{0}@{0}.example"])
async def test_a_message_with_an_endless_address_is_stored_with_its_beginning(mirror, make_address):
    """PostgreSQL refuses what is too long for an index."""
    dice = random.Random(1)
    word = "".join(chr(dice.randrange(0x20000, 0x2A000)) for _ in range(3000))
    keys = [mirror.remote.deliver(age=age * DAY) for age in (1, 2, 3)]
    mirror.remote.senders[keys[1]] = make_address.format(word)
    await mirror.settle()
    assert await mirror.rows("SELECT last_error FROM failures") == []
    stored = await mirror.rows("SELECT provider_message_id, length(from_address) FROM messages ORDER BY 1")
    assert [key for key, _ in stored] == sorted(keys)
    assert dict(stored)[keys[1]] == MAX_ADDRESS


async def test_a_lost_grant_stops_the_sync_and_it_continues_from_its_cursor(mirror):
    for age in range(1, 8):
        mirror.remote.deliver(age=age * DAY)
    mirror.remote.before = lambda call: (
        mirror.remote.refused.append(InvalidGrant("gone")) if mirror.remote.calls["listing"] == 2 else None
    )
    await mirror.sync()
    assert (await mirror.get()).health is MailboxHealth.TOKEN_REFRESH_FAILED
    assert await mirror.one("SELECT count(*) FROM work") == 0
    mirror.remote.before = lambda _: None
    mirror.remote.refused.clear()
    await mirror.sync()
    assert not mirror.remote.calls
    await mirror.owner.execute("UPDATE mailboxes SET health = 'active'")
    await mirror.settle()
    await mirror.assert_mirrors()


async def test_a_provider_that_refuses_is_shown_and_asked_again_later(mirror):
    mirror.remote.refused.append(PermanentError("No licence."))
    await mirror.sync()
    found = await mirror.get()
    assert (found.health, found.last_error) == (MailboxHealth.PROVIDER_ERROR, "No licence.")
    await mirror.settle()
    assert (await mirror.get()).health is MailboxHealth.ACTIVE


async def lost(mirror, move_clock, times: int) -> None:
    for _ in range(times):
        await mirror.claim()
        await move_clock(61)


async def test_a_mailbox_over_which_every_worker_ends_is_shown_and_tried_again_later(mirror, move_clock):
    mirror.remote.deliver()
    await lost(mirror, move_clock, MAX_LOST_LEASES)
    await mirror.sync()
    assert not mirror.remote.calls
    found = await mirror.get()
    assert (found.health, found.last_error.split(".")[0]) == (
        MailboxHealth.PROVIDER_ERROR,
        "The worker crashed on every attempt to sync this mailbox",
    )
    await move_clock(3600)
    await mirror.settle()
    await mirror.assert_mirrors()
    assert (await mirror.get()).health is MailboxHealth.ACTIVE


@pytest.mark.parametrize(
    "mirror",
    [
        pytest.param(with_labels, id="labels", marks=pytest.mark.soak),
        pytest.param(with_folders, id="folders"),
    ],
    indirect=True,
)
async def test_workers_killed_while_a_mailbox_comes_on_are_not_held_against_it(mirror, move_clock):
    def ended():
        raise SystemError("killed")

    for age in range(1, 57):
        mirror.remote.deliver(age=age * DAY / 2)
    for _ in range(3):
        await lost(mirror, move_clock, MAX_LOST_LEASES // 2)
        mirror.remote.before = lambda _: mirror.remote.calls["listing"] < 4 or ended()
        with pytest.raises(SystemError):
            await mirror.sync()
        await move_clock(61)
    mirror.remote.before = lambda _: None
    await mirror.settle()
    await mirror.assert_mirrors()
    assert (await mirror.get()).health is MailboxHealth.ACTIVE


async def test_a_transient_error_is_shown_on_the_mailbox(mirror):
    mirror.remote.refused.append(TransientError("Patience."))
    with pytest.raises(TransientError):
        await mirror.sync()
    found = await mirror.get()
    assert (found.health, found.last_error) == (MailboxHealth.ACTIVE, "Patience.")
    assert found.failing_since is not None


@pytest.mark.parametrize("column", ["paused_at", "disconnected_at"])
async def test_a_mailbox_that_is_paused_or_disconnected_is_not_read(mirror, column):
    await mirror.owner.execute(f"UPDATE mailboxes SET {column} = postroom_now()".encode())
    await mirror.sync()
    assert not mirror.remote.calls


async def test_a_worker_that_lost_its_lease_commits_nothing(mirror, move_clock):
    mirror.remote.deliver()
    lease = await mirror.claim()
    await move_clock(61)
    with pytest.raises(LeaseLost):
        await sync.run(mirror.build_context(), lease)
    assert await mirror.one("SELECT count(*) FROM messages") == 0


async def test_a_wake_up_during_a_sync_is_not_lost(mirror):
    await mirror.settle()
    real = mirror.remote.list_changes

    async def changes(scope, cursor):
        page = await real(scope, cursor)
        await mirror.hint()
        return page

    mirror.remote.list_changes = changes
    await mirror.sync()
    assert await mirror.one("SELECT due_at <= postroom_now() FROM work WHERE kind = 'sync'")


async def test_a_sync_records_what_it_did_in_the_ledger(mirror):
    mirror.remote.deliver(files=[("a.pdf", "application/pdf", b"%PDF-")])
    await mirror.settle()
    recorded = [row[0] for row in await mirror.rows("SELECT event_type FROM ledger ORDER BY id")]
    assert recorded == [
        "SYNC_STARTED",
        "THREAD_INGESTED",
        "MESSAGE_INGESTED",
        "ATTACHMENT_SAVED",
        "SYNC_COMPLETED",
    ]
    done = await mirror.one("SELECT payload FROM ledger WHERE event_type = 'SYNC_COMPLETED'")
    assert done == {
        "threads_synced": 1,
        "messages_synced": 1,
        "attachments_saved": 1,
        "events": 1,
        "errors": 0,
    }


async def test_a_sync_with_nothing_but_errors_is_started_and_completed(mirror):
    mirror.remote.poison.add(mirror.remote.deliver())
    await mirror.settle()
    recorded = [row[0] for row in await mirror.rows("SELECT event_type FROM ledger ORDER BY id")]
    assert recorded == ["SYNC_STARTED", "SYNC_COMPLETED"]


async def test_a_sync_that_is_cancelled_leaves_whole_pages_only(mirror):
    for age in range(1, 10):
        mirror.remote.deliver(age=age * DAY)
    lease = await mirror.claim()
    third = asyncio.Event()
    mirror.remote.before = lambda _: third.set() if mirror.remote.calls["listing"] == 3 else None
    task = asyncio.create_task(sync.run(mirror.build_context(), lease))
    await third.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    listed = await mirror.one("SELECT sum(listed) FROM cursors WHERE kind = 'backfill'")
    assert await mirror.one("SELECT count(*) FROM messages") == listed
    async with mirror.database.engine() as connection:
        await work.release(connection, [lease])
    await mirror.settle()
    await mirror.assert_mirrors()
