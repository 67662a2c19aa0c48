"""What Google knows besides mail, in one place: its options, clients, accounts, grants and signing keys."""

from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from mailsim.google import signing_keys
from mailsim.google.clients import ClientProblem, GoogleClient, client_of
from mailsim.google.grants import GoogleAccount, GoogleGrants
from mailsim.google.options import GoogleOptions
from mailsim.initial_states import stable_hash
from mailsim.mailbox import Mailbox
from mailsim.simulator import Simulator


@dataclass
class GoogleContext:
    sim: Simulator
    options: GoogleOptions = field(default_factory=GoogleOptions)
    client_trouble: dict[str, tuple[ClientProblem, str]] = field(
        default_factory=dict[str, tuple[ClientProblem, str]]
    )

    @cached_property
    def grants(self) -> GoogleGrants:
        return GoogleGrants(Random(stable_hash(self.sim.options.seed, "google grants")))

    @cached_property
    def keys(self) -> signing_keys.GoogleKeyRing:
        """Made at the first use: three RSA keys take a while."""
        return signing_keys.make_ring()

    def rotate_keys(self) -> None:
        self.__dict__["keys"] = signing_keys.rotate(self.keys)

    def now(self) -> float:
        return self.sim.clock.time()

    def client(self, client_id: str) -> GoogleClient | None:
        application = self.sim.registry.find_application(client_id, "gmail")
        if application is None:
            return None
        trouble, domain = self.client_trouble.get(client_id, ("", ""))
        return client_of(application, trouble, domain)

    def accounts(self) -> list[GoogleAccount]:
        return [account_of(mailbox) for mailbox in self.sim.registry.list_mailboxes("gmail")]

    def account(self, address: str) -> GoogleAccount | None:
        mailbox = self.sim.registry.find_mailbox(address, "gmail")
        return None if mailbox is None else account_of(mailbox)


def account_of(mailbox: Mailbox) -> GoogleAccount:
    """Google's stable account number has 21 digits and begins with a 1."""
    sub = 10**20 + stable_hash("sub", mailbox.account.key) * 5 % 10**20
    return GoogleAccount(str(sub), mailbox.address, mailbox.account.name)
