"""A Workspace or tenant of the simulator, and the directory that connects its users."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from flow.simulated_world import SimulatedWorld  # pyright: ignore[reportUnknownVariableType]
from postroom.errors import UrlUnreachable
from postroom.flow.mailboxes import directories
from postroom.flow.mailboxes.directories import DirectoryContext, NewDirectory
from postroom.model import AppCredential, OrganizationId, ProviderName, Secret, StepResult, WorkKind
from postroom.store import directories as stored_directories
from postroom.store import directory_users, mailboxes, work
from postroom.store.directories import Directory, DirectorySettings, UserSelection
from postroom.store.work import FinishedWork, Lease
from simulator.driver import Simulation

PREFIX = "https://www.googleapis.com/auth/"
SCOPES = (
    f"{PREFIX}gmail.readonly",
    f"{PREFIX}admin.directory.user.readonly",
    f"{PREFIX}admin.directory.group.member.readonly",
)
PARALLEL = 8
_numbers = count(1)


@dataclass
class SimulatedDirectory:
    """Users of one new domain; `group` holds those that are selected by group."""

    sim: Simulation
    provider: ProviderName
    addresses: list[str] = field(default_factory=list[str])
    domain: str = field(default_factory=lambda: f"directory{next(_numbers)}.test")
    credential: AppCredential | None = None

    @property
    def group(self) -> str:
        return f"selected@{self.domain}"

    @property
    def admin(self) -> str:
        return f"admin@{self.domain}"

    def create_users(self, number: int, *, others: int = 0) -> None:
        """Users in the group, others outside it, and an administrator."""
        self.sim.create(self.provider, self.admin)
        self.addresses = [f"user{place:05}@{self.domain}" for place in range(number)]
        for address in [*self.addresses, *(f"other{place:05}@{self.domain}" for place in range(others))]:
            self.sim.create(self.provider, address)
        self.set_group(self.addresses)
        self.credential = self._delegate() if self.provider is ProviderName.GMAIL else self._register()

    def _delegate(self) -> AppCredential:
        self.sim.post(f"google/accounts/{self.admin}/admin", admin=True)
        key = self.sim.post("google/service-accounts", name="directory")
        self.sim.post("google/delegations", client_id=key["client_id"], domain=self.domain, scopes=SCOPES)
        return AppCredential(None, key["client_id"], certificate=Secret(json.dumps(key)))

    def _register(self) -> AppCredential:
        known = self.sim.ready["clients"]["outlook"]
        return AppCredential(self.domain, known["client_id"], Secret(known["client_secret"]))

    def set_group(self, addresses: list[str]) -> None:
        if self.provider is ProviderName.GMAIL:
            members: list[Any] = [{"email": address} for address in addresses]
            self.sim.post("google/groups", email=self.group, members=members)
        else:
            self.sim.post("microsoft/groups", mail=self.group, members=addresses)

    def suspend(self, address: str) -> None:
        if self.provider is ProviderName.GMAIL:
            self.sim.post(f"google/accounts/{address}", trouble="suspended")
        else:
            self.sim.post(f"microsoft/accounts/{address}", disabled=True)

    async def add(self, context: DirectoryContext, organization: OrganizationId, **changed: Any) -> Directory:
        selection = UserSelection(groups=(self.group,))
        values: dict[str, Any] = {"selection": selection, **changed}
        settings = DirectorySettings(**values)
        assert self.credential
        admin = self.admin if self.provider is ProviderName.GMAIL else None
        name = self.domain.partition(".")[0]
        wanted = NewDirectory(name, self.provider, self.credential, admin, settings)
        return await directories.add(context, organization, wanted)


class DirectoryWorld:
    """A directory at the simulator, and the work that keeps it in step."""

    def __init__(self, world: SimulatedWorld, owner: Any, simulated: SimulatedDirectory) -> None:
        self.owner, self.simulated = owner, simulated
        self.world: Any = world
        self.context: DirectoryContext = world.engine.directories
        self.directory: Directory

    async def add(self, **changed: Any) -> None:
        self.directory = await self.simulated.add(self.context, self.world.organization, **changed)

    async def sync(self) -> None:
        """List again, and do all the work that follows."""
        await directories.request_sync(self.context, self.directory, confirmed_leavers=None)
        await self.work_off()

    async def work_off(self, *more: WorkKind, at_once: bool = True) -> None:
        """Do the due work of directories, and of more kinds; with `at_once`, also that of users due later."""
        kinds = [WorkKind.SYNC_DIRECTORY, WorkKind.SYNC_DIRECTORY_USER, *more]
        while True:
            if at_once:
                await self.owner.execute(
                    "UPDATE work SET due_at = postroom_now() WHERE kind = 'sync_directory_user'"
                )
            async with self.world.database.engine() as connection:
                claim = await work.claim(connection, kinds, batch=50, lease_seconds=300)
            if not claim.leases:
                return
            for first in range(0, len(claim.leases), PARALLEL):
                await asyncio.gather(*map(self._perform, claim.leases[first : first + PARALLEL]))

    async def _perform(self, lease: Lease) -> None:
        try:
            result = await self.world.engine.handlers[WorkKind(lease.kind)].step(lease)
        except UrlUnreachable:  # a busy machine answered the handshake too late: retry, as a worker does
            result = StepResult(again_after=0.0)
        if result is not None:
            async with self.world.database.engine() as connection:
                await work.finish(connection, [FinishedWork(lease, result.again_after)])

    async def pass_time(self, seconds: float) -> None:
        """Move the clocks of Postroom and of the provider."""
        self.simulated.sim.move_clock(seconds)
        await self.owner.execute(f"UPDATE clock_offset SET ahead = ahead + interval '{seconds} seconds'")

    def count_calls(self) -> Counter[str]:
        """Requests to the provider, by endpoint."""
        meters: Any = self.simulated.sim.get("meters")
        calls = Counter[str]()
        for meter in meters:
            calls.update(meter["calls"])
        return calls

    def count_rejections(self) -> int:
        """Requests that exceeded a quota."""
        meters: Any = self.simulated.sim.get("meters")
        return sum(meter["rejections"] for meter in meters)

    async def states(self) -> Counter[str]:
        async with self.world.database.transaction(self.world.organization) as connection:
            users = await directory_users.list_by_directory(connection, self.directory.id)
        return Counter(user.state.value for user in users)

    async def count_live_subscriptions(self) -> int:
        [(count,)] = await self.rows(
            "SELECT count(DISTINCT mailbox_id) FROM subscriptions WHERE confirmed_at IS NOT NULL"
            " AND replaced_at IS NULL"
        )
        return count

    async def reload(self) -> Directory | None:
        async with self.world.database.transaction(self.world.organization) as connection:
            return await stored_directories.get(connection, self.directory.id)

    async def find_mailbox(self, address: str) -> mailboxes.Mailbox:
        async with self.world.database.transaction(self.world.organization) as connection:
            [found] = await mailboxes.find(connection, address)
        return found

    async def rows(self, query: str) -> list[Any]:
        return await (await self.owner.execute(query.encode())).fetchall()
