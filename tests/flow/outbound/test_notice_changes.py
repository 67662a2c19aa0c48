"""A destination is changed or removed while a worker sends a notice to it."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from flow.outbound.test_send_notices import lose_consent, run_due
from postroom.errors import LeaseLost
from postroom.flow.outbound import notices as flow
from postroom.flow.outbound import send_notices
from postroom.flow.outbound.notices import DestinationInput
from postroom.notice_types import NoticeMedium
from postroom.store import notices as stored
from postroom.store.notices import NoticeSelection

GIVEN = DestinationInput("Accounts", ("ap@example.com",), None, NoticeSelection())


@pytest.mark.parametrize("ends", [False, True], ids=["changed", "removed"])
async def test_change_while_a_notice_is_sent_neither_fails_nor_repeats_it(
    database, context, owner, organization, make_mailbox, smtp, monkeypatch, move_clock, ends
):
    """The change has written the destination when the worker wants to record its result."""
    await lose_consent(owner, await make_mailbox(organization))
    destination = await flow.add(context, organization, NoticeMedium.EMAIL, GIVEN)
    write, written, person = stored.remove if ends else stored.update, asyncio.Event(), []

    async def write_slowly(*arguments, **changes):
        found = await write(*arguments, **changes)
        written.set()
        while not await count_lock_waits(owner):  # noqa: ASYNC110  # the server has no event for it
            await asyncio.sleep(0.01)
        return found

    async def send_meanwhile(mail):
        change = flow.remove if ends else partial(flow.change, given=replace(GIVEN, name="Renamed"))
        person.append(asyncio.create_task(change(context, organization, destination)))
        await written.wait()
        return await context.send_mail(mail)

    monkeypatch.setattr(stored, write.__name__, write_slowly)
    try:
        await run_due(database, replace(context, send_mail=send_meanwhile))
    except LeaseLost:
        assert ends
    await person[0]
    await move_clock(send_notices.CHECK_SECONDS)
    await run_due(database, context)
    assert len(smtp.accepted) == 1


async def count_lock_waits(owner):
    cursor = await owner.execute(
        """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
        """
    )
    return (await cursor.fetchone())[0]
