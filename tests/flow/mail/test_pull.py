"""Notifications that are pulled: acknowledged only after the write, again after the deadline, by many."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from flow.simulated_world import TOPIC, SimulatedWorld, settings  # pyright: ignore[reportUnknownVariableType]
from postroom.errors import DatabaseUnavailable, OperatorError
from postroom.flow.mail import pull
from postroom.flow.mail.push import PushReceiver
from postroom.flow.mail.push_rejections import PushRejections
from postroom.model import OrganizationId
from postroom.store import alerts
from postroom.wiring.engine import build_engine
from scenarios.pulled_gmail import SUBSCRIPTION, count_backlog, prepare_pull
from simulator.driver import Simulation

MakeMailbox = Callable[..., Awaitable[Any]]


@dataclass
class PullWorld:
    context: pull.PullContext
    sim: Simulation
    owner: Any

    @property
    def receiver(self) -> PushReceiver:
        return PushReceiver(
            self.context.database, PushRejections(self.context.database, self.context.operator)
        )

    def publish(self, address: str) -> None:
        self.sim.post(
            "google/publish", topic=TOPIC, data=json.dumps({"emailAddress": address, "historyId": 7})
        )

    async def pull(self) -> int:
        return await pull.pull_once(self.context, self.receiver)

    async def list_due(self) -> list[str]:
        cursor = await self.owner.execute("SELECT subject FROM work WHERE kind = 'sync'")
        return [row[0] for row in await cursor.fetchall()]


@pytest.fixture
async def pulling(
    world: SimulatedWorld, sim: Simulation, owner: Any, tmp_path: Path
) -> AsyncGenerator[PullWorld]:
    given: Any = settings(sim, tmp_path, organization=world.organization, **prepare_pull(sim))
    context = build_engine(given, world.database, world.engine.client).pull
    assert context
    yield PullWorld(context, sim, owner)
    sim.control.delete("google/subscriptions", params={"name": SUBSCRIPTION})


async def test_a_pulled_notification_makes_a_sync_due_and_is_acknowledged(
    pulling: PullWorld, make_mailbox: MakeMailbox, organization: OrganizationId
) -> None:
    mailbox = await make_mailbox(organization, address="one@example.org")
    pulling.publish("One@example.org")
    pulling.publish("unknown@example.org")
    pulling.sim.post("google/publish", topic=TOPIC, data="nonsense")
    assert await pulling.pull() == 3
    assert await pulling.list_due() == [str(mailbox)]
    assert count_backlog(pulling.sim) == 0


async def test_what_could_not_be_stored_is_pulled_again_after_the_deadline(
    pulling: PullWorld,
    make_mailbox: MakeMailbox,
    organization: OrganizationId,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await make_mailbox(organization, address="one@example.org")
    pulling.publish("one@example.org")

    async def fail(*_given: object) -> None:
        raise DatabaseUnavailable("The database cannot be reached.")

    with monkeypatch.context() as patched:
        patched.setattr(PushReceiver, "accept", fail)
        with pytest.raises(DatabaseUnavailable):
            await pulling.pull()
    assert (await pulling.list_due(), count_backlog(pulling.sim)) == ([], 1)
    assert await pulling.pull() == 0, "its deadline has not passed"
    pulling.sim.move_clock(11)
    assert await pulling.pull() == 1
    assert (len(await pulling.list_due()), count_backlog(pulling.sim)) == (1, 0)


async def test_a_notification_whose_deadline_passed_before_its_acknowledgement_comes_again(
    pulling: PullWorld, make_mailbox: MakeMailbox, organization: OrganizationId
) -> None:
    """A process that was frozen acknowledges too late. The second delivery changes nothing."""
    mailbox = await make_mailbox(organization, address="one@example.org")
    pulling.publish("one@example.org")
    [late] = await pulling.context.queue.pull()
    pulling.sim.move_clock(11)
    assert await pulling.pull() == 1
    await pulling.context.queue.acknowledge([late.receipt])
    assert await pulling.list_due() == [str(mailbox)]
    assert count_backlog(pulling.sim) == 0


async def test_several_processes_pull_each_notification_once(
    pulling: PullWorld, make_mailbox: MakeMailbox, organization: OrganizationId
) -> None:
    addresses = [f"many{number}@example.org" for number in range(20)]
    boxes = {str(await make_mailbox(organization, address=address)) for address in addresses}
    for address in addresses:
        pulling.publish(address)
    assert sum(await asyncio.gather(*(pulling.pull() for _ in range(4)))) == 20
    assert set(await pulling.list_due()) == boxes
    assert count_backlog(pulling.sim) == 0


async def test_a_subscription_that_cannot_be_pulled_raises_an_alert_until_it_can(
    pulling: PullWorld, organization: OrganizationId
) -> None:
    endpoint = "https://post.example.org/webhooks/gmail"
    pulling.sim.post("google/subscriptions", name=SUBSCRIPTION, topic=TOPIC, push_endpoint=endpoint)
    with pytest.raises(OperatorError, match="cannot be pulled from"):
        await pulling.pull()
    task = asyncio.create_task(pull.keep_pulling(replace(pulling.context, operator=organization)))
    try:
        await _until(pulling, organization, count=1)
        pulling.sim.post("google/subscriptions", name=SUBSCRIPTION, topic=TOPIC)
        await _until(pulling, organization, count=0)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _until(pulling: PullWorld, organization: OrganizationId, *, count: int) -> None:
    async with asyncio.timeout(60):
        while True:
            async with pulling.context.database.transaction(organization) as connection:
                if len(await alerts.list_active(connection)) == count:
                    return
            await asyncio.sleep(0.05)
