"""The registry of mailboxes and OAuth applications, and the source of seeded GUIDs and random bytes.

The same seed and the same calls give the same IDs and the same bytes. The only exceptions are JWTs and
encrypted resource data, because their keys are generated at each start. Providers keep the tokens.
"""

import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from mailsim import samples
from mailsim.clock import Clock
from mailsim.errors import AlreadyExists, InvalidRequest, NotFound, check_name
from mailsim.hashing import stable_hash
from mailsim.initial_mail import InitialMail
from mailsim.mailbox import Listener, Mailbox, MailboxAccount
from mailsim.message_cache import MessageCache
from mailsim.message_state import MailboxChange, ProviderName

MAX_MESSAGES = 20_000_000
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class OAuthApplication:
    """An OAuth client, registered at one provider.

    Without `redirect_uris`, any URI is accepted. `tenant` (Outlook) is the ID of its home tenant. `project`
    (Gmail) is the Google Cloud project, which must own the Pub/Sub topic. With `testing` (Gmail), refresh
    tokens expire after seven days. `certificate` (Outlook) is the PEM of the certificate whose key signs
    client assertions.
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


class Registry:
    def __init__(self, seed: int, clock: Clock) -> None:
        self.seed = seed
        self.clock = clock
        self.cache = MessageCache()
        self.mailboxes: dict[str, Mailbox] = {}  # by address in lower case
        self.applications: dict[str, OAuthApplication] = {}  # by client ID
        self.change_listeners: list[Listener] = []  # called with every change in every mailbox
        self.mailbox_listeners: list[Callable[[Mailbox], None]] = []  # called with every new mailbox
        self._draws: Counter[str] = Counter()  # IDs and byte strings drawn so far, by purpose
        for provider in ("gmail", "outlook"):
            self.register_application(default_application(seed, provider))

    def get_mailbox(self, address: str, provider: ProviderName | None = None) -> Mailbox:
        mailbox = self.find_mailbox(address, provider)
        if mailbox is None:
            raise NotFound(f"no {provider or ''} mailbox {address}".replace("  ", " "))
        return mailbox

    def find_mailbox(self, address: str, provider: ProviderName | None = None) -> Mailbox | None:
        """Return None if the mailbox does not exist or belongs to the other provider."""
        mailbox = self.mailboxes.get(address.lower())
        return mailbox if mailbox is not None and provider in {None, mailbox.provider} else None

    def list_mailboxes(self, provider: ProviderName) -> list[Mailbox]:
        return [mailbox for mailbox in self.mailboxes.values() if mailbox.provider == provider]

    def create_mailbox(
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
        """Create a mailbox with generated mail. An address is unique across both providers."""
        check_new_mailbox(address, messages, days, kinds)
        if address.lower() in self.mailboxes:
            raise AlreadyExists(f"mailbox {address} already exists")
        account = MailboxAccount(
            provider, address, name or _name_from(address), stable_hash(self.seed, address.lower())
        )
        end = self.clock.milliseconds()
        initial_mail = InitialMail(self.seed, address, end, messages, days, kinds, spread, size)
        mailbox = self.adopt_mailbox(account, initial_mail)
        self.mailboxes[address.lower()] = mailbox
        for listener in self.mailbox_listeners:
            listener(mailbox)
        return mailbox

    def adopt_mailbox(self, account: MailboxAccount, initial_mail: InitialMail) -> Mailbox:
        """Make a mailbox whose changes reach the listeners; it has no address yet."""
        mailbox = Mailbox(account, initial_mail, self.clock, self.cache)
        mailbox.listeners.append(self._forward_change)
        return mailbox

    def close_mailbox(self, address: str) -> None:
        """Remove a mailbox; from now on its address is unknown."""
        del self.mailboxes[self.get_mailbox(address).address.lower()]

    def register_application(self, application: OAuthApplication) -> OAuthApplication:
        self.applications[application.client_id] = application
        return application

    def find_application(self, client_id: str, provider: ProviderName) -> OAuthApplication | None:
        application = self.applications.get(client_id)
        return application if application is not None and application.provider == provider else None

    def tenant_id(self, domain: str) -> str:
        """Return the Entra tenant ID of a domain."""
        return guid(self.seed, "tenant", domain.lower())

    def new_guid(self, purpose: str) -> str:
        """Return the next GUID for this purpose, independent of draws for other purposes."""
        self._draws[purpose] += 1
        return guid(self.seed, purpose, self._draws[purpose])

    def new_bytes(self, purpose: str, size: int) -> bytes:
        """Return the next bytes for this purpose. They are predictable from the seed, so not secret."""
        self._draws[purpose] += 1
        return Random(stable_hash(self.seed, purpose, self._draws[purpose])).randbytes(size)

    def _forward_change(self, mailbox: Mailbox, change: MailboxChange) -> None:
        for listener in self.change_listeners:
            listener(mailbox, change)


def check_new_mailbox(address: str, messages: int, days: float, kinds: Iterable[str]) -> None:
    """Raise InvalidRequest for a mailbox that cannot be created."""
    if not _ADDRESS.fullmatch(address):
        raise InvalidRequest(f"{address!r} is not an email address")
    if not 0 <= messages <= MAX_MESSAGES:
        raise InvalidRequest(f"messages must be between 0 and {MAX_MESSAGES}")
    if not 0 < days <= 36_500:
        raise InvalidRequest("days must be greater than 0 and at most 36500")
    for kind in kinds:
        check_name("kind", kind, samples.list_kinds())


def guid(*parts: object) -> str:
    """Return a GUID derived only from the parts."""
    high, low = stable_hash("guid", *parts), stable_hash("guid2", *parts)
    return str(uuid.UUID(int=high << 64 | low, version=4))


def default_application(seed: int, provider: ProviderName) -> OAuthApplication:
    secret = f"secret-{stable_hash(seed, provider, 'secret'):016x}"
    if provider == "gmail":
        number = stable_hash(seed, "client") % 10**12
        client_id = f"{number:012d}-{stable_hash(seed, 'client id'):016x}.apps.googleusercontent.com"
        return OAuthApplication(provider, client_id, secret, "mailsim default", project="mailsim")
    tenant = guid(seed, "tenant", "example.com")
    return OAuthApplication(provider, guid(seed, "client"), secret, "mailsim default", tenant=tenant)


def _name_from(address: str) -> str:
    return " ".join(word.capitalize() for word in re.split(r"[._+-]+", address.partition("@")[0]) if word)
