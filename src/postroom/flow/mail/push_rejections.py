"""Pushes that were refused: counted, and told to the ledger of the organization they concern.

What names no subscription of ours concerns whoever runs this Postroom: the organization of the settings.
Nobody waits for this, and a storm becomes one entry for each subject and source in ten seconds, since the
ledger only grows.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.logs import Log
from postroom.model import OrganizationId, ProviderName
from postroom.store import ledger, organizations
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.notifications import PushSubscription

EVENT: Final = "NOTIFICATION_REFUSED"
WRITE_INTERVAL_SECONDS: Final = 10.0
# More sources than this at once are told of as one; of strangers, who need not guess anything, fewer.
MAX_SOURCES: Final = 1000
MAX_UNKNOWN_SOURCES: Final = 20

log = Log()


@dataclass(frozen=True, slots=True)
class _RejectedItem:
    """What was refused: of which subscription or, as nobody's, of which provider, and where it came from."""

    organization: UUID
    entity: str
    id: str
    source: str | None


class PushRejections:
    def __init__(
        self, database: Database, operator: OrganizationId, *, pause_seconds: float = WRITE_INTERVAL_SECONDS
    ) -> None:
        self._database = database
        self._operator = operator
        self._pause_seconds = pause_seconds
        self._counts: Counter[_RejectedItem] = Counter()
        self._different: Counter[str] = Counter()
        self._noted = asyncio.Event()

    def count(self, known: PushSubscription | None, provider: ProviderName, source: str) -> None:
        """One item was refused: with the wrong secret of a subscription, or as nobody's."""
        if known is None:
            one, most = _RejectedItem(self._operator, "provider", provider, source), MAX_UNKNOWN_SOURCES
        else:
            one = _RejectedItem(known.owner.organization, "subscription", str(known.id), source)
            most = MAX_SOURCES
        if one not in self._counts:
            self._different[one.entity] += 1
            if self._different[one.entity] > most:
                one = replace(one, source=None)
        self._counts[one] += 1
        self._noted.set()

    async def run(self) -> None:
        """Write what was noted, for ever: the first at once, then in pauses. What remains, at the end."""
        try:
            while True:
                await self._noted.wait()
                with suppress(DatabaseUnavailable, TransientError):
                    await self.write()
                await asyncio.sleep(self._pause_seconds)
        finally:
            with suppress(DatabaseUnavailable, TransientError):
                await self.write()

    async def write(self) -> None:
        """Each organization's in a transaction of its own; what could not be written stays noted."""
        self._noted.clear()
        taken, self._counts = self._counts, Counter()
        self._different.clear()
        strangers = sum(count for each, count in taken.items() if each.entity == "provider")
        if strangers:
            log.warning("push.refused", count=strangers, reason="of no subscription")
        if taken.total() > strangers:
            log.warning("push.refused", count=taken.total() - strangers, reason="with a wrong secret")
        try:
            for organization in {each.organization for each in taken}:
                ours = {each: count for each, count in taken.items() if each.organization == organization}
                async with self._database.transaction(organization) as connection:
                    if organization == self._operator:
                        await organizations.ensure(connection, self._operator, f"Organization {organization}")
                    await ledger.append_entries(
                        connection, organization, [_build_entry(*each) for each in ours.items()]
                    )
                for each in ours:
                    del taken[each]
        finally:
            if taken:
                self._counts.update(taken)
                self._noted.set()


def _build_entry(refused: _RejectedItem, count: int) -> NewLedgerEntry:
    return NewLedgerEntry(
        event_type=EVENT,
        entity_type=refused.entity,
        entity_id=refused.id,
        payload={"count": count},
        personal={"source": refused.source},
    )
