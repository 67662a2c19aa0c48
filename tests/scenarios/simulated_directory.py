"""A Workspace or tenant of the simulator, and the directory that connects its users."""

import json
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from postroom.flow.mailboxes import directories
from postroom.flow.mailboxes.directories import DirectoryContext, NewDirectory
from postroom.model import AppCredential, OrganizationId, ProviderName, Secret
from postroom.store.directories import Directory, DirectorySettings, UserSelection
from simulator.driver import Simulation

PREFIX = "https://www.googleapis.com/auth/"
SCOPES = (
    f"{PREFIX}gmail.readonly",
    f"{PREFIX}admin.directory.user.readonly",
    f"{PREFIX}admin.directory.group.member.readonly",
)
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
