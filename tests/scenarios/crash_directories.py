"""Crash scenarios of directories and of pulled notifications."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any, cast

from flow.simulated_world import TOPIC
from mailsim import samples
from postroom.model import WorkKind
from scenarios.crash_world import AT_REST, CrashScenario
from scenarios.document_postroom import TODAY
from scenarios.postroom_process import wait_until  # pyright: ignore[reportUnknownVariableType]
from scenarios.pulled_gmail import count_backlog, prepare_pull, to_environment
from scenarios.simulated_directory import SimulatedDirectory
from scenarios.worker_pool import until

INVOICE = samples.MessageSpec(seed=1, kind="invoice", variant="letterhead", language="en", date=TODAY)
_wait_until = cast("Callable[[Callable[[], bool]], None]", wait_until)
CONNECTED = "SELECT count(*) = 3 FROM directory_users WHERE state = 'connected'"


class Pull(CrashScenario):
    """A worker pulls the notification of a new message; it comes again after its deadline."""

    box: Any

    async def prepare(self) -> None:
        pulled: dict[str, Any] = {**prepare_pull(self.world.sim)}
        self.world.settings |= to_environment(pulled)
        room: Any = self.world.room
        self.box = await room.mailbox(self.provider, messages=2)
        await self.world.perform(WorkKind.SUBSCRIBE, WorkKind.SYNC, **pulled | {"public_url": None})
        await self.world.room.move_clock(60)
        self.world.sim.deliver(self.box.address, samples.write_message(INVOICE))

    async def recover(self) -> None:
        await self.world.room.move_clock(60)
        world: Any = self.world
        process = world.start("work")
        try:
            await asyncio.to_thread(_wait_until, lambda: not count_backlog(self.world.sim))
            await until(world.owner, AT_REST)
        finally:
            process.signal(signal.SIGTERM)
            code, output = await world.end(process)
        assert code == 0, output

    async def check(self) -> None:
        assert await self.box.check() == 3
        assert (await self.world.count_entries())["MESSAGE_INGESTED"] == 3
        [watch] = self.world.sim.get(f"mailboxes/{self.box.address}")["subscriptions"]
        assert watch["topic"] == TOPIC


class DirectoryListing(CrashScenario):
    """A directory connects its users. Each is connected once, whatever ends the worker."""

    async def prepare(self) -> None:
        self.directory = SimulatedDirectory(self.world.sim, self.provider)
        self.directory.create_users(3)
        self.world.settings |= {"POSTROOM_GOOGLE_DIRECTORY_URL": self.world.sim.http}
        await self.directory.add(self.world.room.world.engine.directories, self.world.organization)

    async def recover(self) -> None:
        await self.world.room.move_clock(60)
        await self.world.work(CONNECTED)
        await self.world.work(AT_REST)

    async def check(self) -> None:
        world: Any = self.world
        [counts] = await world.rows(
            "SELECT count(*), count(DISTINCT account_id), count(*) FILTER (WHERE health = 'active')"
            " FROM mailboxes"
        )
        assert counts == (3, 3, 3)
        assert await world.rows("SELECT count(*), count(sealed_grant) FROM credentials") == [(3, 0)]
        entries = await self.world.count_entries()
        assert (entries["MAILBOX_CONNECTED"], entries["DIRECTORY_USER_JOINED"]) == (3, 3)
        assert "MAILBOX_RECONNECTED" not in entries
        for address in self.directory.addresses:
            assert len(self.world.sim.get(f"mailboxes/{address}")["subscriptions"]) == 1
