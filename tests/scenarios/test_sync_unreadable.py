"""Messages that a provider names before it returns them: none is lost, none stays a failure forever."""

import pytest

from postroom.model import ProviderName
from scenarios.mailbox_user import MailboxUser
from scenarios.mirrored_mailbox import usually

ATTEMPTS = "SELECT attempts FROM failures WHERE resolved_at IS NULL"


@pytest.fixture
async def box(room, provider):
    box = await room.mailbox(provider, messages=20, days=20)
    await box.sync()
    return box


@pytest.mark.parametrize(
    "provider, pushed",
    [
        pytest.param(ProviderName.GMAIL, False, id="gmail-by sweep"),
        pytest.param(ProviderName.OUTLOOK, True, id="outlook-by push"),
        pytest.param(ProviderName.GMAIL, True, id="gmail-by push", marks=pytest.mark.soak),
        pytest.param(ProviderName.OUTLOOK, False, id="outlook-by sweep", marks=pytest.mark.soak),
    ],
)
async def test_a_message_that_cannot_be_read_for_minutes_arrives(room, box, provider, pushed):
    box.sim.fault("not_readable", mailbox=box.address, seconds=900, times=1)
    late = box.sim.deliver(box.address)["id"]
    await box.hint(*([late] if pushed and provider == "outlook" else []))
    await box.sync()
    await box.check(failed=[late])
    for seconds in (3, 10, 40, 150):
        await room.move_clock(seconds)
        await box.work_off()
    await box.check(failed=[late])
    assert await box.one(ATTEMPTS) >= 5
    MailboxUser(box.sim, box.address, seed=31).act(3)
    await room.move_clock(1000)
    await box.sync()
    await box.check()


async def test_an_unreadable_message_that_is_deleted_leaves_no_open_failure(room, box):
    box.sim.fault("not_readable", mailbox=box.address, seconds=900, times=2)
    late, gone = (box.sim.deliver(box.address) for _ in range(2))
    await box.sync()
    await box.check(failed=[late["id"], gone["id"]])
    box.sim.delete(f"mailboxes/{box.address}/messages/{gone['number']}")
    await box.sync()
    await box.check(failed=[late["id"]])
    brief = box.sim.deliver(box.address)
    box.sim.delete(f"mailboxes/{box.address}/messages/{brief['number']}")
    await box.sync()
    await box.check(failed=[late["id"]])
    await room.move_clock(1000)
    await box.sync()
    await box.check()


@pytest.mark.parametrize("provider", usually(ProviderName.OUTLOOK))
async def test_a_message_that_a_listing_cannot_read_arrives_and_no_stored_one_is_deleted(room, provider):
    """So few messages are fetched one by one at both providers."""
    box = await room.mailbox(provider, messages=3, days=20)
    hidden = box.sim.truth(box.address)[0]["id"]
    unreadable = {"mailbox": box.address, "status": 404, "path": f"*messages/{hidden.rstrip('=')}*"}
    box.sim.fault("error", **unreadable)
    await box.sync()
    await box.check(failed=[hidden])
    box.sim.delete("faults")
    await room.move_clock(1000)
    await box.sync()
    assert await box.check() == 3
    box.sim.fault("error", **unreadable)
    box.sim.post(f"mailboxes/{box.address}/expire-cursors")
    await box.sync()
    assert await box.one("SELECT count(*) FROM messages WHERE deleted_at IS NOT NULL") == 0
    box.sim.delete("faults")
    await room.move_clock(90_000)
    await box.sync()
    assert await box.check() == 3
