"""Mail arrives without a public URL: Gmail's notifications are pulled, Microsoft 365 is swept more often."""

from pathlib import Path
from typing import Any

from postroom.model import ProviderName
from scenarios.mirrored_mailbox import environment
from scenarios.postroom_process import PostroomProcess
from scenarios.pulled_gmail import prepare_pull, to_environment
from scenarios.worker_pool import until
from simulator.driver import Simulation

STORED = "SELECT count(*) = %s FROM messages"
SUBSCRIBED = "SELECT EXISTS (SELECT FROM subscriptions WHERE confirmed_at IS NOT NULL)"
SWEPT = "SELECT bool_and(due_at < postroom_now() + interval '61 seconds') FROM work WHERE kind = 'sync'"


async def test_new_mail_is_stored_without_a_public_url(
    room: Any, sim: Simulation, database_url: str, owner: Any, tmp_path: Path, provider: ProviderName
) -> None:
    """The sweep of a pulled mailbox is minutes away; one that cannot be notified is swept soon."""
    box = await room.mailbox(provider, messages=2)
    given = environment(sim, database_url, tmp_path) | to_environment(prepare_pull(sim))
    given["POSTROOM_ORGANIZATION"] = str(room.world.organization)
    process: Any = PostroomProcess(
        tmp_path, "work", **{name: value for name, value in given.items() if value}
    )
    try:
        await until(owner, STORED, 2)
        if provider is ProviderName.GMAIL:
            await until(owner, SUBSCRIBED)
            await room.move_clock(2)  # Gmail drops a notification that follows another within a second
        sim.deliver(box.address)
        if provider is ProviderName.OUTLOOK:
            await until(owner, SWEPT)
            await room.move_clock(61)
        await until(owner, STORED, 3)
    finally:
        assert process.end() == 0, "".join(process.said)
    assert await box.check() == 3
