"""A message over which workers crash is handled alone and then parked; the others are synced."""

from datetime import timedelta

import pytest

from flow.mail.fake_provider import WorkerKilled
from postroom.errors import TransientError
from postroom.flow.mail import audit
from postroom.flow.mail.audit import AuditDepth
from postroom.flow.mail.sync.isolation import PARKED, PARKED_WAITS
from postroom.store import failures
from postroom.store.work import DEADLY_LOST_LEASES, SUSPECT_LOST_LEASES

DAY = timedelta(days=1)
OPEN = """
    SELECT subject, last_error, round(extract(epoch FROM due_at - last_failed_at))::int
    FROM failures WHERE resolved_at IS NULL
"""
FIRST_WAIT, SECOND_WAIT, LAST_WAIT = PARKED_WAITS


async def kill_workers(mirror, move_clock, times: int) -> None:
    for _ in range(times):
        with pytest.raises(WorkerKilled):
            await mirror.sync()
        await move_clock(61)


async def park_one(mirror, move_clock) -> str:
    """A mailbox of seven messages, of which one is parked."""
    keys = [mirror.remote.deliver(age=age * DAY) for age in range(1, 8)]
    mirror.remote.deadly.add(keys[3])
    await kill_workers(mirror, move_clock, DEADLY_LOST_LEASES)
    await mirror.settle()
    await mirror.assert_mirrors(but={keys[3]})
    assert await mirror.rows(OPEN) == [(keys[3], PARKED, FIRST_WAIT)]
    return keys[3]


async def retry(mirror) -> None:
    async with mirror.database.transaction(mirror.organization) as connection:
        await failures.retry_all(connection, mirror.mailbox)


async def test_a_parked_message_is_passed_until_it_is_retried(mirror, move_clock):
    key = await park_one(mirror, move_clock)
    mirror.remote.change(key, is_read=True)
    mirror.remote.deliver()
    await mirror.settle()
    await mirror.assert_mirrors(but={key})
    mirror.remote.deadly.clear()
    await retry(mirror)
    await mirror.settle()
    await mirror.assert_mirrors()
    assert await mirror.rows(OPEN) == []
    assert await mirror.rows("SELECT FROM suspect_messages") == []


async def test_a_retried_message_that_kills_again_is_parked_again_at_once(mirror, move_clock):
    key = await park_one(mirror, move_clock)
    await retry(mirror)
    await kill_workers(mirror, move_clock, 1)
    await mirror.settle()
    await mirror.assert_mirrors(but={key})
    assert await mirror.rows(OPEN) == [(key, PARKED, SECOND_WAIT)]
    assert await mirror.one("SELECT count(*) FROM ledger WHERE event_type = 'MESSAGE_PARKED'") == 2


async def test_a_parked_message_that_is_innocent_is_stored_without_a_person(mirror, move_clock):
    """The workers died of something else, such as an overloaded machine."""
    await park_one(mirror, move_clock)
    mirror.remote.deadly.clear()
    await mirror.settle()
    assert await mirror.rows("SELECT FROM suspect_messages"), "not yet"
    await move_clock(FIRST_WAIT)
    await mirror.settle()
    await mirror.assert_mirrors()
    assert await mirror.rows(OPEN) == []
    assert await mirror.rows("SELECT FROM suspect_messages") == []


async def test_a_parked_message_that_kills_again_and_again_waits_for_a_person(mirror, move_clock):
    key = await park_one(mirror, move_clock)
    for wait in PARKED_WAITS:
        await move_clock(wait)
        await kill_workers(mirror, move_clock, 1)
        await mirror.settle()
    assert await mirror.rows(OPEN) == [(key, PARKED, None)]
    await move_clock(LAST_WAIT)
    await mirror.settle()
    await mirror.assert_mirrors(but={key})


async def test_a_parked_message_that_is_deleted_is_no_longer_a_failure(mirror, move_clock):
    key = await park_one(mirror, move_clock)
    mirror.remote.delete(key)
    await mirror.settle()
    await mirror.assert_mirrors()
    assert await mirror.rows(OPEN) == []


async def test_a_full_listing_passes_a_parked_message(mirror, move_clock):
    key = await park_one(mirror, move_clock)
    mirror.remote.expire()
    await mirror.settle()
    await mirror.assert_mirrors(but={key})
    assert await mirror.rows(OPEN) == [(key, PARKED, FIRST_WAIT)]


async def test_an_audit_does_not_retry_a_parked_message(mirror, move_clock):
    key = await park_one(mirror, move_clock)
    found = await audit.audit_mailbox(mirror.build_context(), await mirror.get(), AuditDepth.STATES)
    assert found.missing == [key]
    async with mirror.database.transaction(mirror.organization) as connection:
        await audit.repair(connection, mirror.organization, mirror.mailbox, found)
    assert await mirror.rows(OPEN) == [(key, PARKED, FIRST_WAIT)]


async def test_two_deadly_messages_are_both_parked(mirror, move_clock):
    keys = [mirror.remote.deliver(age=age * DAY) for age in range(1, 8)]
    mirror.remote.deadly |= {keys[1], keys[5]}
    await kill_workers(mirror, move_clock, SUSPECT_LOST_LEASES + 4)
    await mirror.settle()
    await mirror.assert_mirrors(but={keys[1], keys[5]})
    assert {row[0] for row in await mirror.rows(OPEN)} == {keys[1], keys[5]}


async def test_an_error_while_a_message_is_handled_alone_is_not_held_against_it(mirror, move_clock):
    def fail(call: str) -> None:
        if call == "fetch":
            raise TransientError("Patience.")

    mirror.remote.deliver()
    for _ in range(SUSPECT_LOST_LEASES):
        await mirror.claim()
        await move_clock(61)
    mirror.remote.before = fail
    for _ in range(3):
        with pytest.raises(TransientError):
            await mirror.sync()
        await move_clock(61)
    mirror.remote.before = lambda _: None
    await mirror.settle()
    await mirror.assert_mirrors()
    assert await mirror.rows(OPEN) == []


async def test_a_stored_message_that_is_parked_is_not_deleted_while_it_cannot_be_read(mirror, move_clock):
    """A raised policy fetches it again. Only its feed may say that it is gone."""
    key = mirror.remote.deliver()
    await mirror.settle()
    mirror.remote.deadly.add(key)
    await mirror.owner.execute(
        """
        INSERT INTO cursors (organization_id, mailbox_id, kind, scope) VALUES (%s, %s, 'refill', '')
        """,
        [mirror.organization, mirror.mailbox],
    )
    await kill_workers(mirror, move_clock, DEADLY_LOST_LEASES)
    await mirror.settle()
    assert await mirror.rows(OPEN) == [(key, PARKED, FIRST_WAIT)]
    mirror.remote.late.add(key)
    await move_clock(FIRST_WAIT)
    await mirror.settle()
    assert [event[0] for event in await mirror.events(key)] == ["created"]
    mirror.remote.late.clear()
    mirror.remote.deadly.clear()
    await move_clock(FIRST_WAIT)
    await mirror.settle()
    assert await mirror.rows(OPEN) == []
    await mirror.assert_mirrors()
