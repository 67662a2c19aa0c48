"""Where notifications of a mailbox arrive, and what its subscriptions need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from postroom.model import ProviderName
from postroom.ports import RemoteMailbox
from postroom.store.database import Database
from postroom.store.mailboxes import Mailbox


@dataclass(frozen=True)
class SubscribeContext:
    """The dependencies of the steps. `queues`: where notifications are pulled from, by provider."""

    database: Database
    remote: Callable[[Mailbox], RemoteMailbox]
    public_url: str | None
    renewal_seconds: Mapping[ProviderName, float]  # between renewals
    queues: Mapping[ProviderName, str] = field(default_factory=dict[ProviderName, str])

    @property
    def unpushed(self) -> frozenset[ProviderName]:
        """The providers that cannot notify this Postroom: sweeps find their new mail."""
        return frozenset() if self.public_url else frozenset(ProviderName) - self.queues.keys()

    def prefix(self, provider: ProviderName) -> str:
        """The prefix of this Postroom's notification URLs; the row's id follows."""
        if queue := self.queues.get(provider):
            return f"{queue}/"
        assert self.public_url, f"{provider} cannot notify this Postroom"
        return f"{self.public_url}/webhooks/{provider}/"


def parse_subscription_id(url: str | None, prefix: str) -> UUID | None:
    """Return the row id in one of our notification URLs."""
    if url is None or not url.startswith(prefix):
        return None
    try:
        return UUID(url.removeprefix(prefix))
    except ValueError:
        return None
