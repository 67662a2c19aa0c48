"""A push narrows where to look, and never decides what is there."""

from datetime import datetime, timedelta

import pytest
import structlog

from postroom.flow.mail import sync
from postroom.model import HealthCause, MailboxHealth, RemoteFolder, WorkKind
from postroom.store import notifications, work

DAY = timedelta(days=1)


async def test_one_new_message_costs_three_requests_however_many_folders_there_are(folders):
    folders.remote.tree += [RemoteFolder(f"f{n}", f"Folder {n}", None, None, f"f{n}") for n in range(12)]
    folders.remote.deliver()
    await folders.settle()
    await folders.hint(folders.remote.deliver("f7", age=DAY / 2))
    await folders.sync()
    await folders.assert_mirrors()
    assert folders.remote.calls == {"fetch": 1, "changes": 1}


async def test_a_hint_of_a_move_reads_both_folders(folders):
    key = folders.remote.deliver()
    await folders.settle()
    folders.remote.move(key, "archive")
    await folders.hint(key)
    await folders.sync()
    await folders.assert_mirrors()
    assert folders.remote.calls == {"look": 1, "changes": 2}
    assert [event[0] for event in await folders.events(key)] == ["created", "moved"]


async def test_a_hint_of_a_deletion_marks_the_message(folders):
    key = folders.remote.deliver()
    await folders.settle()
    folders.remote.delete(key)
    await folders.hint(key)
    await folders.sync()
    await folders.assert_mirrors()


async def test_hints_that_are_not_complete_lead_everywhere(folders):
    await folders.settle()
    folders.remote.deliver("trash")
    await folders.hint(folders.remote.deliver(), missed=True)
    await folders.sync()
    await folders.assert_mirrors()
    assert folders.remote.calls["changes"] == 3


async def test_missed_notifications_are_recorded_when_the_sync_has_read_what_they_concern(folders):
    await folders.settle()
    await folders.hint(missed=True)
    [period] = await folders.rows("SELECT missed_from, missed_until FROM notifications")
    with structlog.testing.capture_logs() as lines:
        await folders.sync()
        await folders.sync()
    [(entity, payload)] = await folders.rows(
        "SELECT entity_id, payload FROM ledger WHERE event_type = 'NOTIFICATIONS_MISSED'"
    )
    assert entity == str(folders.mailbox)
    assert [datetime.fromisoformat(payload[name]) for name in ("missed_from", "missed_until")] == list(period)
    assert [line["event"] for line in lines].count("sync.notifications_missed") == 1


async def test_hints_that_did_not_fit_are_not_recorded_as_missed(folders):
    await folders.settle()
    await folders.hint(*(f"k{number}" for number in range(notifications.MAX_HINTS)))
    await folders.sync()
    await folders.sync()
    assert await folders.one("SELECT count(*) FROM ledger WHERE event_type = 'NOTIFICATIONS_MISSED'") == 0


async def test_hints_are_used_once(folders):
    await folders.settle()
    await folders.hint(folders.remote.deliver())
    await folders.sync()
    assert await folders.one("SELECT message_ids FROM notifications") == []


async def hints(mirror):
    async with mirror.database.transaction(mirror.organization) as connection:
        return await notifications.get_hints(connection, mirror.mailbox)


async def forget(mirror, used):
    async with mirror.database.transaction(mirror.organization) as connection:
        await notifications.clear_hints(connection, mirror.mailbox, used)


@pytest.mark.parametrize("before", [False, True], ids=["not before", "before too"])
async def test_notifications_that_are_lost_during_a_sync_are_missed_by_the_next(folders, before):
    await folders.hint("a", missed=before)
    used = await hints(folders)
    await folders.hint("b", missed=True)
    await forget(folders, used)
    left = await hints(folders)
    assert (left.message_ids, left.complete) == ({"b"}, False)
    await forget(folders, left)
    assert await hints(folders) == notifications.NO_HINTS


@pytest.mark.parametrize("first", [notifications.MAX_HINTS, 1], ids=["full before", "full meanwhile"])
async def test_a_message_that_did_not_fit_among_the_hints_is_missed_by_the_next_sync(folders, first):
    keys = [f"k{number}" for number in range(notifications.MAX_HINTS)]
    await folders.hint(*keys[:first])
    used = await hints(folders)
    await folders.hint(*keys)
    await folders.hint("lost")
    await forget(folders, used)
    await folders.hint(keys[1])
    assert not (await hints(folders)).complete


async def test_a_message_announced_before_it_is_readable_is_retried(folders, move_clock):
    await folders.settle()
    await folders.hint("m9999")
    await folders.sync()
    assert folders.remote.calls["changes"] == 3
    [(attempts, wait)] = await folders.rows(
        "SELECT attempts, extract(epoch FROM due_at - last_failed_at)::int FROM failures"
    )
    assert (attempts, wait) == (1, 2)
    for seconds in (3, 9, 40, 40):
        await move_clock(seconds)
        await folders.sync()
    assert await folders.one("SELECT resolved_at IS NOT NULL FROM failures")
    assert await folders.one("SELECT attempts FROM failures") == 3


async def test_during_the_first_listing_new_mail_comes_by_hint_and_by_date(folders):
    for age in range(1, 8):
        folders.remote.deliver(age=age * DAY)
    await folders.sync(slice_seconds=0)
    stored = await folders.one("SELECT count(*) FROM messages")
    hinted, recent = folders.remote.deliver(age=DAY / 48), folders.remote.deliver(age=DAY / 1000)
    await folders.hint(hinted)
    await folders.sync(slice_seconds=0)
    new = "SELECT provider_message_id FROM messages ORDER BY id OFFSET %s LIMIT 2"
    assert sorted(await folders.rows(new, stored)) == [(hinted,), (recent,)]
    await folders.settle()
    await folders.assert_mirrors()


async def test_a_sweep_is_made_even_while_pushes_come_all_day(folders, move_clock):
    await folders.settle()
    folders.remote.deliver("trash")
    await move_clock(800)
    await folders.hint(folders.remote.deliver())
    await folders.sync()
    await folders.assert_mirrors()


async def test_where_close_pushes_are_dropped_a_second_look_follows_the_last_one(labels, move_clock):
    labels.remote.push_interval_seconds = 100
    await labels.settle()
    await move_clock(200)
    await labels.hint()
    await labels.sync()
    labels.remote.deliver()  # and no push announces it
    assert 0 < await due_in(labels) <= 100
    await move_clock(101)
    await run_what_is_due(labels)
    await labels.assert_mirrors()
    assert await due_in(labels) > 800, "then the sweep is enough"


async def test_where_every_change_is_pushed_there_is_no_second_look(labels):
    await labels.settle()
    await labels.hint()
    await labels.sync()
    assert await due_in(labels) > 800


async def due_in(mirror) -> int:
    return await mirror.one("SELECT extract(epoch FROM due_at - postroom_now())::int FROM work")


async def run_what_is_due(mirror) -> None:
    """Without anybody waking it."""
    async with mirror.database.engine() as connection:
        claim = await work.claim(connection, [WorkKind.SYNC], batch=1, lease_seconds=60)
    [lease] = claim.leases
    await sync.run(mirror.build_context(), lease)


@pytest.fixture
async def subscription(mirror):
    """A subscription that has been live for an hour, after the first sync."""
    await mirror.settle()
    await mirror.owner.execute(
        """
        INSERT INTO subscriptions (organization_id, mailbox_id, resource, notification_url, confirmed_at)
        VALUES (%s, %s, 'mail', 'http://127.0.0.1:9', postroom_now() - interval '1 hour')
        """,
        [mirror.organization, mirror.mailbox],
    )
    return "SELECT status FROM subscriptions"


async def test_mail_without_pushes_gets_the_subscription_replaced(mirror, subscription, move_clock):
    """Sweeps find mail soon, so it is long known when a push is overdue."""
    for seconds in (60, 30):
        mirror.remote.deliver(age=timedelta(seconds=seconds))
    await mirror.sync()
    assert (await mirror.get()).health is MailboxHealth.ACTIVE, "the provider may take its time"
    await move_clock(1300)
    await mirror.sync()
    found = await mirror.get()
    assert (found.health, found.health_cause) == (
        MailboxHealth.SUBSCRIPTION_EXPIRED,
        HealthCause.PUSH_SILENT,
    )
    assert await mirror.one("SELECT replacement_requested_at IS NOT NULL FROM subscriptions")
    assert await mirror.one("SELECT due_at <= postroom_now() FROM work WHERE kind = 'subscribe'")


@pytest.mark.parametrize("skew", [-300, 300])
async def test_a_working_subscription_is_kept_though_clocks_disagree(mirror, subscription, move_clock, skew):
    """The provider's clock dates the mail, ours the push."""
    recorded = mirror.remote.deliver(age=timedelta(seconds=-skew))
    await mirror.owner.execute("UPDATE mailboxes SET last_notified_at = postroom_now()")
    await mirror.hint(recorded)
    for _ in range(3):
        await mirror.sync()
        await move_clock(1300)
    assert await mirror.one(subscription) == "active"
    assert (await mirror.get()).health is MailboxHealth.ACTIVE


async def test_a_subscription_is_not_blamed_for_mail_from_before_it(mirror, subscription, move_clock):
    mirror.remote.deliver(age=timedelta(seconds=3700))
    mirror.remote.deliver(age=DAY)
    await move_clock(1300)
    await mirror.sync()
    assert await mirror.one(subscription) == "active"
