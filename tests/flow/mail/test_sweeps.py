"""A sweep that finds nothing costs little, and comes later while pushes are proven to arrive."""

from datetime import timedelta

import pytest

from postroom.errors import NotFound
from postroom.flow.mail import sync
from postroom.model import ProviderName, WorkKind
from postroom.store import work

USUAL, LONGEST = 900, 3600
STRETCH = dict.fromkeys(ProviderName, LONGEST / USUAL)


async def test_a_sweep_that_finds_nothing_is_one_request_and_one_commit(labels, move_clock):
    await labels.settle()
    await move_clock(USUAL)
    await labels.sync()
    assert labels.remote.calls == {"changes": 1}
    written = "SELECT xmin::text::bigint FROM {} WHERE {}"
    commits = {
        await labels.one(written.format("cursors", "kind = 'live'")),
        await labels.one(written.format("mailboxes", "true")),
        await labels.one(written.format("work", "kind = 'sync'")),
    }
    assert len(commits) == 1


async def test_labels_are_read_again_after_an_hour(labels, move_clock):
    await labels.settle()
    await move_clock(LONGEST)
    await labels.sync()
    assert labels.remote.calls == {"changes": 1, "folders": 1}


async def test_folders_are_read_with_each_sweep(folders, move_clock):
    await folders.settle()
    await move_clock(USUAL)
    await folders.sync()
    assert folders.remote.calls["folders"] == 1


async def test_a_cursor_of_an_idle_sweep_is_not_written_over_a_later_one(folders, move_clock):
    """A feed without changes is committed with the first page that follows, and with no later one."""
    await folders.settle()
    await move_clock(USUAL)
    folders.remote.deliver("archive")
    await folders.sync()
    await folders.assert_mirrors()
    values = await folders.rows("SELECT scope, value FROM cursors WHERE kind = 'live' ORDER BY scope")
    await folders.sync()
    assert values == await folders.rows("SELECT scope, value FROM cursors WHERE kind = 'live' ORDER BY scope")


@pytest.fixture
async def pushed(mirror):
    """A mailbox with a subscription that is an hour old."""
    await mirror.settle()
    await mirror.owner.execute(
        """
        INSERT INTO subscriptions (organization_id, mailbox_id, resource, notification_url, created_at,
            confirmed_at, expires_at)
        VALUES (%s, %s, 'mail', 'http://127.0.0.1:9', postroom_now() - interval '1 hour',
            postroom_now() - interval '1 hour', postroom_now() + interval '6 days')
        """,
        [mirror.organization, mirror.mailbox],
    )
    return mirror


async def push(mirror) -> str:
    """A new message that a push announces, and the sync that follows."""
    key = mirror.remote.deliver()
    await mirror.owner.execute("UPDATE subscriptions SET last_notified_at = postroom_now()")
    await mirror.owner.execute("UPDATE mailboxes SET last_notified_at = postroom_now()")
    await mirror.hint(*([key] if mirror.remote.push_names_messages else []))
    await mirror.sync(sweep_stretch=STRETCH)
    return key


async def sweep(mirror) -> int:
    """A sync that no push asked for; the seconds until the next one."""
    await mirror.sync(sweep_stretch=STRETCH)
    return await mirror.one("SELECT extract(epoch FROM due_at - postroom_now())::int FROM work")


async def prove(mirror, move_clock) -> str:
    """Sweeps that find nothing after a push. The message that it announced."""
    key = await push(mirror)
    for _ in range(6):
        await move_clock(USUAL)
        wait = await sweep(mirror)
    assert wait > 0.9 * LONGEST - 1
    return key


async def test_sweeps_become_rarer_the_longer_pushes_are_proven(pushed, move_clock):
    await push(pushed)
    waits = []
    for _ in range(6):
        await move_clock(USUAL)
        waits.append(await sweep(pushed))
    assert waits[0] <= USUAL, "pushes are proven since now"
    assert waits[1] <= USUAL
    assert USUAL < waits[2] <= 2 * USUAL
    assert 0.9 * LONGEST - 1 <= waits[5] <= LONGEST


async def test_without_a_push_sweeps_stay_as_they_are(pushed, move_clock):
    for _ in range(6):
        await move_clock(USUAL)
        assert await sweep(pushed) <= USUAL
    assert await pushed.one("SELECT proven_since FROM subscriptions") is None


async def test_mail_that_no_push_announced_brings_the_usual_sweeps_back_at_once(pushed, move_clock):
    await prove(pushed, move_clock)
    await move_clock(USUAL)
    pushed.remote.deliver()
    assert await sweep(pushed) <= USUAL
    assert await pushed.one("SELECT proven_since FROM subscriptions") is None
    await pushed.assert_mirrors()
    await move_clock(USUAL)
    assert await sweep(pushed) <= USUAL, "a lost push is not forgotten by a sweep that finds nothing"


async def test_a_change_that_no_push_announced_brings_the_usual_sweeps_back(pushed, move_clock):
    key = await prove(pushed, move_clock)
    await move_clock(USUAL)
    pushed.remote.delete(key)
    assert await sweep(pushed) <= USUAL


async def test_lost_notifications_bring_the_usual_sweeps_back(pushed, move_clock):
    await prove(pushed, move_clock)
    await pushed.hint(missed=True)
    assert await sweep(pushed) <= USUAL


@pytest.mark.parametrize(
    "change",
    [
        "replaced_at = postroom_now(), status = 'removed'",
        "replacement_requested_at = postroom_now()",
        "last_notified_at = postroom_now() - interval '37 hours', created_at = '2020-01-01'",
        "expires_at = postroom_now() + interval '1 minute'",
    ],
)
async def test_a_subscription_in_doubt_brings_the_usual_sweeps_back(pushed, move_clock, change):
    await prove(pushed, move_clock)
    await pushed.owner.execute(f"UPDATE subscriptions SET {change}".encode())
    assert await sweep(pushed) <= USUAL


async def test_a_folder_that_could_not_be_read_brings_the_usual_sweeps_back(pushed, move_clock):
    await prove(pushed, move_clock)
    list_changes = pushed.remote.list_changes

    async def list_no_inbox(scope, cursor):
        if scope in {"inbox", ""}:
            raise NotFound("not now")
        return await list_changes(scope, cursor)

    pushed.remote.list_changes = list_no_inbox
    assert await sweep(pushed) <= USUAL
    pushed.remote.list_changes = list_changes
    assert await sweep(pushed) > 0.9 * LONGEST - 1, "pushes are still proven"


async def test_a_new_subscription_starts_without_a_proof(pushed, move_clock):
    await prove(pushed, move_clock)
    await pushed.owner.execute("UPDATE subscriptions SET replaced_at = postroom_now(), status = 'removed'")
    await pushed.owner.execute(
        """
        INSERT INTO subscriptions (organization_id, mailbox_id, resource, notification_url, confirmed_at,
            expires_at)
        VALUES (%s, %s, 'mail', 'http://127.0.0.1:9', postroom_now(), postroom_now() + interval '6 days')
        """,
        [pushed.organization, pushed.mailbox],
    )
    await move_clock(USUAL)
    assert await sweep(pushed) <= USUAL


async def test_a_rare_sweep_stores_what_was_lost(pushed, move_clock):
    """The longest delay of mail whose push is lost: the stretched interval."""
    await prove(pushed, move_clock)
    pushed.remote.deliver(age=timedelta(seconds=1))
    await move_clock(LONGEST)
    async with pushed.database.engine() as connection:
        claim = await work.claim(connection, [WorkKind.SYNC], batch=1, lease_seconds=60)
    [lease] = claim.leases
    await sync.run(pushed.build_context(sweep_stretch=STRETCH), lease)
    await pushed.assert_mirrors()
