"""C5: the health of a mailbox is true within two failed attempts, says why, and clears by itself."""

from dataclasses import replace

import pytest

from flow.simulated_world import open_world
from postroom.errors import PostroomError
from postroom.flow.mail import sync
from postroom.flow.mailboxes import mailbox_health
from postroom.model import HealthCause, ProviderName, WorkKind
from postroom.providers import transport
from postroom.store import work
from postroom.store.views import mail as mail_views
from postroom.store.views import mailbox_status

OTHER_KEY = "two:" + "B" * 43 + "="


@pytest.fixture(autouse=True)
def one_request_per_attempt(monkeypatch):
    """The requests of one attempt are repeated within it, which only costs time here."""
    monkeypatch.setattr(transport, "MAX_ATTEMPTS", 1)


async def attempt(box, context=None) -> Exception | None:
    """One attempt to sync, as a worker makes it; the error that it backs off from."""
    await box.wake()
    async with box.database.engine() as connection:
        claim = await work.claim(connection, [WorkKind.SYNC], batch=1, lease_seconds=300)
    [lease] = claim.leases
    try:
        await sync.run(context or box.context, lease)
    except PostroomError as error:
        async with box.database.engine() as connection:
            await work.retry(connection, lease, delay=0, error=str(error))
        return error
    return None


async def health(box):
    async with box.database.transaction(box.organization) as connection:
        return await mail_views.get_mailbox(connection, box.mailbox)


FAULTS = {
    "server_error": ({"kind": "error", "status": 500}, "server error (status 500)"),
    "throttled": ({"kind": "throttle", "retry_after": 300}, "limits the request rate"),
    "unreachable": ({"kind": "cut"}, "cannot be reached"),
    "token_rejected": ({"kind": "error", "status": 401}, "even a fresh one"),
}


@pytest.mark.parametrize(
    "provider, cause",
    [
        pytest.param(provider, cause, marks=[pytest.mark.soak] if (first + second) % 2 else [])
        for first, provider in enumerate(ProviderName)
        for second, cause in enumerate(FAULTS)
    ],
)
async def test_an_outage_of_the_provider_is_shown_after_two_attempts_and_ends_by_itself(
    room, provider, cause
):
    box = await room.mailbox(provider, messages=2)
    await box.sync()
    fault, message = FAULTS[cause]
    box.sim.fault(mailbox=box.address, **fault)
    assert await attempt(box) is not None
    first = await health(box)
    assert first.health == "active", "one failed attempt is no outage"
    assert message in first.last_error
    first_failed_before = await box.one("SELECT postroom_now()")
    await room.move_clock(40)
    assert await attempt(box) is not None
    shown = await health(box)
    assert (shown.health, shown.health_cause) == ("provider_error", cause)
    assert message in shown.last_error
    assert first.last_synced_at < shown.health_since < first_failed_before, "since the first failed attempt"
    assert (shown.failed_attempts, shown.next_attempt_at is not None) == (2, True)
    box.sim.delete("faults")
    await room.move_clock(400)
    # The process that limits its own rate remembers it by a clock of its own: another one takes over.
    async with open_world(
        box.sim, box.database, box.organization, room.home, gmail_quota="999999999"
    ) as other:
        assert await attempt(box, replace(box.context, remote=other.remote)) is None
    after = await health(box)
    assert (after.health, after.health_cause, after.last_error) == ("active", None, None)
    assert after.next_attempt_at is None
    recorded = await box.rows(
        """
        SELECT data ->> 'health', data ->> 'cause' FROM events WHERE kind = 'mailbox.health_changed'
        ORDER BY id
        """
    )
    assert recorded == [("provider_error", cause), ("active", None)]


async def test_a_grant_that_the_vault_cannot_open_is_shown_at_once(room, provider):
    box = await room.mailbox(provider, messages=1)
    await box.sync()
    async with open_world(box.sim, box.database, box.organization, room.home, vault_keys=OTHER_KEY) as wrong:
        assert await attempt(box, replace(box.context, remote=wrong.remote)) is not None
    shown = await health(box)
    assert (shown.health, shown.health_cause) == ("operator_error", "secret_unreadable")
    assert "'one'" in shown.last_error
    assert await attempt(box) is None
    assert (await health(box)).health == "active"


async def test_failed_attempts_that_store_mail_are_no_outage(room):
    """A backfill that the provider rate-limits fails repeatedly, yet makes progress."""
    box = await room.mailbox(ProviderName.OUTLOOK, messages=2)
    await box.sync()
    for number in range(3):
        await box.hint(box.sim.deliver(box.address, kind="plain")["id"])
        box.sim.fault("error", mailbox=box.address, endpoint="*delta*", status=503)
        assert await attempt(box) is not None
        box.sim.delete("faults")
        assert await box.one("SELECT count(*) FROM messages") == 3 + number
    assert (await health(box)).health == "active"


async def test_a_problem_of_pushes_is_shown_again_once_the_mailbox_can_be_read(room, owner):
    box = await room.mailbox(ProviderName.OUTLOOK, messages=1)
    await box.sync()
    await owner.execute("UPDATE work SET last_error = 'Set POSTROOM_PUBLIC_URL.' WHERE kind = 'subscribe'")
    box.sim.fault("error", mailbox=box.address, status=500)
    for _ in range(2):
        await attempt(box)
    box.sim.delete("faults")
    assert (await health(box)).health_cause == "server_error"
    assert await attempt(box) is None
    shown = await health(box)
    assert (shown.health, shown.health_cause) == ("subscription_expired", "no_subscription")
    assert "POSTROOM_PUBLIC_URL" in shown.last_error


async def test_the_status_counts_the_attempts_of_the_work_that_ends_the_problem(room):
    box = await room.mailbox(ProviderName.OUTLOOK, messages=1)
    await box.sync()
    box.sim.fault("error", mailbox=box.address, status=500)
    for _ in range(3):
        await attempt(box)
    async with box.database.transaction(box.organization) as connection:
        status = (await mailbox_status.list_by_mailbox(connection))[box.mailbox]
    assert status.failed_attempts == 3


def test_every_cause_has_a_description_and_a_health():
    assert set(mailbox_health.DESCRIPTIONS) == set(HealthCause)
    for cause in HealthCause:
        assert HealthCause.resolve(cause.health, cause.value) is cause
