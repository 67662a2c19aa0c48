"""A quota for the attachments of one sender, so that no sender can use up an organization's storage.

A sender is the domain of the From address. At public mail services, and in the domains of the organization's
mailboxes, it is the whole address, since strangers or colleagues share these domains. The use is measured at
most once a minute and counted in between. Processes that store at the same time may exceed the quota by what
they store in that minute.
"""

from dataclasses import dataclass, field
from typing import Final

from postroom.errors import SenderQuotaReached
from postroom.flow.storage.storage_limit import StorageUse
from postroom.model import OrganizationId
from postroom.store import organizations, sender_storage
from postroom.store.database import Database
from postroom.store.mailboxes import Mailbox
from postroom.store.sender_storage import SenderUse

MAX_SENDERS: Final = 10_000  # cached at a time
REMEDY: Final = (
    "Raise POSTROOM_SENDER_STORAGE_GB or shorten the retention, then retry these failures,"
    " or run `postroom sync MAILBOX --full`."
)
PUBLIC_DOMAINS: Final = frozenset(
    {
        "aol.com",
        "fastmail.com",
        "gmail.com",
        "gmx.at",
        "gmx.ch",
        "gmx.de",
        "gmx.net",
        "googlemail.com",
        "hotmail.com",
        "icloud.com",
        "live.com",
        "mac.com",
        "mail.com",
        "me.com",
        "msn.com",
        "outlook.com",
        "proton.me",
        "protonmail.com",
        "t-online.de",
        "web.de",
        "yahoo.com",
    }
)


# Keyed by organization and domain, or address if many people share the domain.
_Uses = dict[tuple[OrganizationId, str], StorageUse]


@dataclass(frozen=True)
class SenderQuota:
    """Accepts attachments of a sender only while its stored files stay below the quota."""

    database: Database
    max_bytes: int
    _uses: _Uses = field(default_factory=_Uses)

    async def check(self, mailbox: Mailbox, sender: str, key: str, part: str) -> StorageUse:
        """Return the use of a sender, to add a stored attachment to it.

        Raises SenderQuotaReached if the quota is used up, unless this attachment of the message `key` is
        stored already: a repeated fetch must not remove its bytes.
        """
        address = sender.lower()
        domain = address.rpartition("@")[2] if "@" in address else ""
        use = await self._measure(mailbox.organization, domain, address)
        if use.used_bytes < self.max_bytes:
            return use
        async with self.database.transaction(mailbox.organization) as connection:
            if await sender_storage.is_attachment_stored(connection, mailbox.id, key, part):
                return use
        raise SenderQuotaReached(
            f"The attachments of this sender use {use.used_bytes / 1e9:,.2f} GB of its quota of"
            f" {self.max_bytes / 1e9:,.2f} GB. The message is stored without this attachment. {REMEDY}"
        )

    async def _measure(self, organization: OrganizationId, domain: str, address: str) -> StorageUse:
        for key in ((organization, domain), (organization, address)):
            use = self._uses.get(key)
            if use is not None and not use.is_outdated:
                return use
        async with self.database.transaction(organization) as connection:
            is_shared = domain in PUBLIC_DOMAINS or await sender_storage.is_own_domain(connection, domain)
            used = await sender_storage.sum_sizes(
                connection, domain=domain, address=address if is_shared else None
            )
        if len(self._uses) >= MAX_SENDERS:
            self._uses.clear()
        use = StorageUse(used)
        self._uses[organization, address if is_shared else domain] = use
        return use


async def list_largest(database: Database, organization: OrganizationId, *, limit: int) -> list[SenderUse]:
    """The senders whose attachments use the most storage, the largest first."""
    async with database.transaction(organization) as connection:
        return await sender_storage.list_largest(connection, sorted(PUBLIC_DOMAINS), limit=limit)


async def count_full(database: Database, max_bytes: int) -> int:
    """How many senders of all organizations have used up the quota, at most 100 in each organization."""
    async with database.engine() as connection:
        ids = await organizations.list_ids(connection)
    largest = [use for each in ids for use in await list_largest(database, each, limit=100)]
    return sum(use.used_bytes >= max_bytes for use in largest)
