"""Mailboxes at the simulator, connected and mirrored by Postroom in this process or by worker processes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import databases
from flow.simulated_world import SimulatedWorld, open_world, settings, settings_given
from postroom.errors import TransientError
from postroom.flow.mail import sync
from postroom.flow.mail.sync import SyncContext
from postroom.model import MailboxId, OrganizationId, ProviderName, WorkKind
from postroom.store import notifications, work
from postroom.store.database import Database
from postroom.store.notifications import MailboxNotification, NotifiedMailbox
from postroom.store.work import WorkRequest
from postroom.wiring import secrets
from postroom.wiring.engine import build_engine
from scenarios.mirror_check import assert_mirrors
from simulator.driver import Simulation

_numbers = count(1)
MORE_THAN_A_PAGE = {"gmail": 520, "outlook": 230}  # of a listing, where there is no quota
NO_QUOTA = "999999999"  # units a minute: the simulator counts none either


def usually(provider: ProviderName) -> list[Any]:
    """Both providers, for `parametrize`: this one in every run, the other one in `make soak`."""
    return [each if each is provider else pytest.param(each, marks=pytest.mark.soak) for each in ProviderName]


def environment(sim: Simulation, database_url: str, home: Path) -> dict[str, str]:
    """The settings of a worker process over the simulator, which is soon back after a crash."""
    return {f"POSTROOM_{name.upper()}": str(value) for name, value in settings_given(sim).items()} | {
        **databases.login_settings(database_url),
        "POSTROOM_HOME": str(home),
        "POSTROOM_LEASE_SECONDS": "2",
        "POSTROOM_POLL_SECONDS": "0.2",
        "POSTROOM_BACKOFF_FIRST_SECONDS": "0.1",
        "POSTROOM_BACKOFF_MAX_SECONDS": "1",
        "POSTROOM_GMAIL_QUOTA": NO_QUOTA,
        "POSTROOM_PUBLIC_URL": "http://127.0.0.1:9",
    }


@dataclass
class MirroredMailbox:
    """One mailbox of one organization."""

    world: SimulatedWorld
    owner: object
    context: SyncContext
    address: str
    mailbox: MailboxId

    @property
    def sim(self) -> Simulation:
        return self.world.sim

    @property
    def database(self) -> Database:
        return self.world.database

    @property
    def organization(self) -> OrganizationId:
        return self.world.organization

    async def wake(self) -> None:
        async with self.database.engine() as connection:
            await work.enqueue(connection, [WorkRequest(self.organization, WorkKind.SYNC, str(self.mailbox))])

    async def sync(self, *, patiently: bool = False) -> None:
        """Runs whatever is due, of all mailboxes; patiently: trouble that passes is tried again."""
        await self.wake()
        await self.work_off(patiently=patiently)

    async def work_off(self, *, patiently: bool = False) -> None:
        """The same, without making anything due."""
        while await self._step(patiently=patiently):
            pass

    async def sync_once(self) -> None:
        await self.wake()
        await self._step()

    async def _step(self, *, patiently: bool = False) -> bool:
        async with self.database.engine() as connection:
            claim = await work.claim(connection, [WorkKind.SYNC], batch=1, lease_seconds=300)
        if not claim.leases:
            return False
        [lease] = claim.leases
        try:
            await sync.run(self.context, lease)
        except TransientError:
            if not patiently:
                raise
            async with self.database.engine() as connection:
                await work.retry(connection, lease, delay=0, error="again")
        return True

    async def hint(self, *keys: str) -> None:
        async with self.database.engine() as connection:
            recorded = MailboxNotification(
                NotifiedMailbox(self.organization, self.mailbox), keys, missed=False
            )
            await notifications.record_notifications(connection, [recorded], [], [])

    async def check(self, **given) -> int:
        return await assert_mirrors(self.owner, self.sim, self.address, self.mailbox, **given)

    async def one(self, query: str, *parameters):
        row = await (await self.owner.execute(query.encode(), parameters)).fetchone()
        return row[0] if row else None

    async def rows(self, query: str, *parameters) -> list[tuple]:
        return await (await self.owner.execute(query.encode(), parameters)).fetchall()

    def requests(self, after: int = 0) -> list[dict]:
        """What was asked of the provider, batches once."""
        found = self.sim.get("requests", mailbox=self.address, after=after, limit=1000)
        return [each for each in found if not each.get("via")]


@asynccontextmanager
async def postroom(
    sim: Simulation,
    url: str,
    owner,
    organization: OrganizationId,
    home: Path,
    *,
    read_seconds: float = 30,
    **changed,
) -> AsyncGenerator["Postroom"]:
    """Postroom's parts over the simulator; both clocks show the same time."""
    now = datetime.fromisoformat(sim.get("clock")["now"])
    await owner.execute("UPDATE clock_offset SET ahead = %s - clock_timestamp()", [now])
    macs = secrets.build_entry_macs(settings(sim, home))
    async with (
        databases.open_pools(databases.to_service(url), entry_macs=macs) as database,
        open_world(
            sim,
            database,
            organization,
            home,
            read_seconds=read_seconds,
            **{"gmail_quota": NO_QUOTA} | changed,
        ) as made,
    ):
        yield Postroom(made, owner, home, changed)


@dataclass
class Postroom:
    world: SimulatedWorld
    owner: object
    home: Path
    changed: dict[str, Any]  # of the settings

    async def mailbox(
        self, provider: str, *, messages: int = 0, address: str | None = None, **given
    ) -> MirroredMailbox:
        address = address or f"mirror{next(_numbers)}@example.com"
        self.world.sim.create(provider, address, messages=messages, **given)
        return await self.connect(provider, address)

    async def connect(self, provider: str, address: str, request=None) -> MirroredMailbox:
        done = await self.world.login(provider, address, request)
        given = settings(self.world.sim, self.home, **self.changed)
        engine = build_engine(given, self.world.database, self.world.engine.client)
        parts = replace(engine.sync, remote=self.world.remote)
        return MirroredMailbox(self.world, self.owner, parts, address, done.mailbox.id)

    async def move_clock(self, seconds: float) -> None:
        await asyncio.to_thread(self.world.sim.move_clock, seconds)
        await self.owner.execute(
            "UPDATE clock_offset SET ahead = ahead + %s * interval '1 second'", [seconds]
        )
