"""Purged and expired mail does not come back while the provider still has it (K7)."""

from datetime import timedelta

import pytest

from postroom.flow.mail import audit, purge
from postroom.flow.mail.sync import sync_requests
from postroom.model import ContentPolicy

DAY = timedelta(days=1)
JANE = "Jane@Example.org"


@pytest.fixture
def stored(mirror):
    async def keys():
        rows = await mirror.rows("SELECT provider_message_id FROM messages ORDER BY 1")
        return [key for (key,) in rows]

    return keys


async def list_again(mirror):
    async with mirror.database.transaction(mirror.organization) as connection:
        await sync_requests.request_sync(connection, mirror.organization, mirror.mailbox, full=True)


async def reach_back(mirror, days):
    async with mirror.database.transaction(mirror.organization) as connection:
        await sync_requests.extend_backfill(connection, mirror.organization, mirror.mailbox, days=days)


async def test_mail_of_a_purged_person_stays_out_however_it_is_reported(mirror, stored):
    remote = mirror.remote
    ours = [remote.deliver(age=age * DAY) for age in (1, 3, 5)]
    hers = [remote.deliver(age=age * DAY) for age in (2, 4, 40)]
    remote.senders = dict.fromkeys(hers, JANE)
    await mirror.settle()
    assert await stored() == sorted(ours + hers[:2])
    assert (await purge.purge_person(mirror.database, mirror.organization, JANE)).messages == 2
    remote.change(hers[0], is_read=True)
    await mirror.hint(hers[1])
    await mirror.settle()
    assert await stored() == ours
    await list_again(mirror)
    await mirror.settle()
    await reach_back(mirror, 60)
    await mirror.settle()
    assert await stored() == ours
    assert await mirror.one("SELECT count(*) FROM failures WHERE resolved_at IS NULL") == 0
    found = await audit.audit_mailbox(mirror.build_context(), await mirror.get(), audit.AuditDepth.STATES)
    assert found.all_keys == []


async def test_what_a_purged_person_sends_later_is_new(mirror, stored, move_clock):
    remote = mirror.remote
    hers = [remote.deliver(age=DAY), remote.deliver(age=-DAY / 24)]
    remote.senders = dict.fromkeys(hers, JANE)
    await mirror.sync()
    await purge.purge_person(mirror.database, mirror.organization, JANE)
    await move_clock(7200)
    await list_again(mirror)
    await mirror.settle()
    assert await stored() == hers[1:]
    await purge.purge_person(mirror.database, mirror.organization, JANE.upper())
    await list_again(mirror)
    await mirror.settle()
    assert await stored() == []
    assert await mirror.one("SELECT count(*) FROM purged_people") == 1


async def test_people_of_another_organization_are_not_forgotten_here(mirror, stored, other_organization):
    await purge.purge_person(mirror.database, other_organization, "ann@example.org")
    key = mirror.remote.deliver()
    await mirror.settle()
    assert await stored() == [key]


async def test_mail_that_would_be_removed_by_its_age_is_not_stored_again(mirror, stored):
    remote = mirror.remote
    young, old = remote.deliver(age=9 * DAY), remote.deliver(age=11 * DAY)
    kept = {"kept_days": {ContentPolicy.FULL: 10}}
    await mirror.sync()
    assert await stored() == [young, old]
    await mirror.owner.execute("DELETE FROM messages WHERE provider_message_id = %s", [old])
    remote.change(old, is_read=True)
    await mirror.hint(old)
    await mirror.sync(**kept)
    await list_again(mirror)
    await mirror.sync(**kept)
    await mirror.sync(**kept)
    assert await stored() == [young]
    assert (
        await audit.audit_mailbox(mirror.build_context(**kept), await mirror.get(), audit.AuditDepth.STATES)
    ).all_keys == []
