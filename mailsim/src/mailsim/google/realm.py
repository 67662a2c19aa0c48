"""What Google knows besides mail, in one place: its options, clients, accounts, grants and signing keys."""

from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from mailsim.generated import stable
from mailsim.google import keys
from mailsim.google.clients import Client, Trouble, client_of
from mailsim.google.grants import Account, Grants
from mailsim.google.options import Options
from mailsim.mailbox import Mailbox
from mailsim.simulator import Simulator


@dataclass
class Realm:
    sim: Simulator
    options: Options = field(default_factory=Options)
    client_trouble: dict[str, tuple[Trouble, str]] = field(default_factory=dict[str, tuple[Trouble, str]])

    @cached_property
    def grants(self) -> Grants:
        return Grants(Random(stable(self.sim.options.seed, "google grants")))

    @cached_property
    def keys(self) -> keys.KeyRing:
        """Made at the first use: three RSA keys take a while."""
        return keys.make_ring()

    def rotate_keys(self) -> None:
        self.__dict__["keys"] = keys.rotate(self.keys)

    def now(self) -> float:
        return self.sim.clock.time()

    def client(self, client_id: str) -> Client | None:
        application = self.sim.world.application(client_id, "gmail")
        if application is None:
            return None
        trouble, domain = self.client_trouble.get(client_id, ("", ""))
        return client_of(application, trouble, domain)

    def accounts(self) -> list[Account]:
        return [account_of(mailbox) for mailbox in self.sim.world.of("gmail")]

    def account(self, address: str) -> Account | None:
        mailbox = self.sim.world.find(address, "gmail")
        return None if mailbox is None else account_of(mailbox)


def account_of(mailbox: Mailbox) -> Account:
    """Google's stable account number has 21 digits and begins with a 1."""
    sub = 10**20 + stable("sub", mailbox.account.key) * 5 % 10**20
    return Account(str(sub), mailbox.address, mailbox.account.name)
