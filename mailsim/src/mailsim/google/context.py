"""GoogleContext: options, clients, accounts, grants, keys and Workspaces of simulated Google.

It has no Pub/Sub and no watches.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random

from mailsim.google import signing_keys
from mailsim.google.clients import ClientProblem, GoogleClient, to_client
from mailsim.google.grants import GoogleAccount, GoogleGrants
from mailsim.google.options import GoogleOptions
from mailsim.google.service_accounts import ServiceAccounts
from mailsim.google.workspace import Workspace
from mailsim.hashing import stable_hash
from mailsim.mailbox import Mailbox
from mailsim.simulator import Simulator


@dataclass
class GoogleContext:
    sim: Simulator
    options: GoogleOptions = field(default_factory=GoogleOptions)
    client_problems: dict[str, tuple[ClientProblem, str]] = field(
        default_factory=dict[str, tuple[ClientProblem, str]]
    )
    key_ring: signing_keys.GoogleKeyRing | None = None

    @cached_property
    def grants(self) -> GoogleGrants:
        return GoogleGrants(Random(stable_hash(self.sim.options.seed, "google grants")))

    @cached_property
    def service_accounts(self) -> ServiceAccounts:
        return ServiceAccounts(self.sim.registry)

    @cached_property
    def workspace(self) -> Workspace:
        return Workspace(self.sim.registry.seed)

    @property
    def keys(self) -> signing_keys.GoogleKeyRing:
        """The signing keys, made on first use, because three RSA keys take a while."""
        if self.key_ring is None:
            self.key_ring = signing_keys.make_key_ring()
        return self.key_ring

    def rotate_keys(self) -> None:
        self.key_ring = signing_keys.rotate_key_ring(self.keys)

    def now(self) -> float:
        return self.sim.clock.time()

    def find_client(self, client_id: str) -> GoogleClient | None:
        """Find an OAuth client, or the client of a service account, by its ID."""
        problem, domain = self.client_problems.get(client_id, ("", ""))
        application = self.sim.registry.find_application(client_id, "gmail")
        if application is not None:
            return to_client(application, problem, domain)
        client = self.service_accounts.find_client(client_id)
        return None if client is None else replace(client, problem=problem, internal_domain=domain)

    def list_accounts(self) -> list[GoogleAccount]:
        return [to_account(mailbox) for mailbox in self.sim.registry.list_mailboxes("gmail")]

    def find_account(self, address: str) -> GoogleAccount | None:
        mailbox = self.sim.registry.find_mailbox(address, "gmail")
        return None if mailbox is None else to_account(mailbox)


def to_account(mailbox: Mailbox) -> GoogleAccount:
    """Make the account of a mailbox.

    Google's account number has 21 digits and starts with 1.
    """
    sub = 10**20 + stable_hash("sub", mailbox.account.key) * 5 % 10**20
    return GoogleAccount(str(sub), mailbox.address, mailbox.account.name)
