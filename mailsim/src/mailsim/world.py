"""Everything that exists in the simulation: mailboxes and registered applications. Tokens live with the
providers.

The same seed and the same calls give the same ids and the same bytes. Only what is signed or encrypted with
the keys made at each start differs: tokens that are JWTs, and resource data in notifications.
"""

import re
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from mailsim import letters
from mailsim.cache import Cache
from mailsim.clock import Clock
from mailsim.errors import Invalid, Taken, Unknown
from mailsim.generated import stable
from mailsim.mailbox import Account, Listener, Mailbox
from mailsim.state import Change, ProviderName
from mailsim.stock import Stock

MOST_MESSAGES = 20_000_000
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Application:
    """An OAuth client, registered at one provider.

    No `redirect_uris`: any is accepted. `tenant` (Outlook): the id of the tenant it lives in. `project`
    (Gmail): the Google Cloud project, which must own the Pub/Sub topic. `testing` (Gmail): refresh tokens
    live for seven days. `certificate` (Outlook): PEM of the certificate whose key signs client assertions.
    """

    provider: ProviderName
    client_id: str
    client_secret: str
    name: str
    redirect_uris: tuple[str, ...] = ()
    tenant: str = ""
    project: str = ""
    testing: bool = False
    certificate: str = ""


class World:
    def __init__(self, seed: int, clock: Clock) -> None:
        self.seed = seed
        self.clock = clock
        self.cache = Cache()
        self.mailboxes: dict[str, Mailbox] = {}  # by address in lower case
        self.applications: dict[str, Application] = {}  # by client id
        self.listeners: list[Listener] = []  # called with every change in every mailbox
        self.arrivals: list[Callable[[Mailbox], None]] = []  # called with every new mailbox
        self._made: Counter[str] = Counter()  # by purpose
        for provider in ("gmail", "outlook"):
            self.register(default_application(seed, provider))

    def mailbox(self, address: str, provider: ProviderName | None = None) -> Mailbox:
        found = self.find(address, provider)
        if found is None:
            raise Unknown(f"no {provider or ''} mailbox {address}".replace("  ", " "))
        return found

    def find(self, address: str, provider: ProviderName | None = None) -> Mailbox | None:
        """None when there is no such mailbox, or it is the other provider's."""
        found = self.mailboxes.get(address.lower())
        return found if found is not None and provider in {None, found.provider} else None

    def of(self, provider: ProviderName) -> list[Mailbox]:
        return [mailbox for mailbox in self.mailboxes.values() if mailbox.provider == provider]

    def create(
        self,
        provider: ProviderName,
        address: str,
        *,
        name: str = "",
        messages: int = 0,
        days: float = 30,
        kinds: tuple[str, ...] = (),
        spread: bool = True,
        size: int | None = None,
    ) -> Mailbox:
        """A mailbox with generated mail. An address exists once, whatever the provider."""
        self._check(address, messages, days, kinds)
        account = Account(provider, address, name or _name_from(address), stable(self.seed, address.lower()))
        end = self.clock.milliseconds()
        stock = Stock(self.seed, address, end, messages, days, kinds, spread, size)
        mailbox = Mailbox(account, stock, self.clock, self.cache)
        mailbox.listeners.append(self._heard)
        self.mailboxes[address.lower()] = mailbox
        for arrival in self.arrivals:
            arrival(mailbox)
        return mailbox

    def remove(self, address: str) -> None:
        """The account is closed: from now on it is unknown."""
        del self.mailboxes[self.mailbox(address).address.lower()]

    def register(self, application: Application) -> Application:
        self.applications[application.client_id] = application
        return application

    def application(self, client_id: str, provider: ProviderName) -> Application | None:
        found = self.applications.get(client_id)
        return found if found is not None and found.provider == provider else None

    def tenant(self, domain: str) -> str:
        """The Entra tenant id of a domain."""
        return guid(self.seed, "tenant", domain.lower())

    def new_guid(self, purpose: str) -> str:
        """The next GUID for this purpose; how many others were made meanwhile does not matter."""
        self._made[purpose] += 1
        return guid(self.seed, purpose, self._made[purpose])

    def new_bytes(self, purpose: str, size: int) -> bytes:
        """The next bytes for this purpose. Nothing secret: who knows the seed knows them."""
        self._made[purpose] += 1
        return Random(stable(self.seed, purpose, self._made[purpose])).randbytes(size)

    def _heard(self, mailbox: Mailbox, change: Change) -> None:
        for listener in self.listeners:
            listener(mailbox, change)

    def _check(self, address: str, messages: int, days: float, kinds: tuple[str, ...]) -> None:
        if not _ADDRESS.fullmatch(address):
            raise Invalid(f"{address!r} is not an address")
        if address.lower() in self.mailboxes:
            raise Taken(f"there is a mailbox {address} already")
        if not 0 <= messages <= MOST_MESSAGES:
            raise Invalid(f"messages must be between 0 and {MOST_MESSAGES}")
        if not 0 < days <= 36_500:
            raise Invalid("days must be above 0 and at most 36500")
        unknown = set(kinds) - set(letters.kinds())
        if unknown:
            raise Invalid(
                f"no kind of mail {', '.join(sorted(unknown))}; there are {', '.join(letters.kinds())}"
            )


def guid(*parts: object) -> str:
    """A GUID that depends on the parts only."""
    high, low = stable("guid", *parts), stable("guid2", *parts)
    return str(uuid.UUID(int=high << 64 | low, version=4))


def default_application(seed: int, provider: ProviderName) -> Application:
    secret = f"secret-{stable(seed, provider, 'secret'):016x}"
    if provider == "gmail":
        number = stable(seed, "client") % 10**12
        client_id = f"{number:012d}-{stable(seed, 'client id'):016x}.apps.googleusercontent.com"
        return Application(provider, client_id, secret, "mailsim default", project="mailsim")
    tenant = guid(seed, "tenant", "example.com")
    return Application(provider, guid(seed, "client"), secret, "mailsim default", tenant=tenant)


def _name_from(address: str) -> str:
    return " ".join(word.capitalize() for word in re.split(r"[._+-]+", address.partition("@")[0]) if word)
