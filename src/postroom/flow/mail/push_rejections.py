"""Count rejected notifications, and record them in the ledger of the organization they concern.

A notification for an unknown subscription concerns the operator, whose organization is in the settings. The
ledger is append-only and kept forever, so a flood becomes one entry per subject and source, and each entry
delays the next ones: strangers add at most `MAX_ENTRIES_PER_DAY`. No request waits for this. What is rejected
is decided in `push` and by the provider's adapter.
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
MAX_ENTRIES_PER_DAY: Final = 2880
_SECONDS_PER_ENTRY: Final = 86_400 / MAX_ENTRIES_PER_DAY
# More sources than this are recorded as one; fewer for unknown subscriptions, which anyone can make up.
MAX_SOURCES: Final = 100
MAX_UNKNOWN_SOURCES: Final = 20

log = Log()


@dataclass(frozen=True, slots=True)
class _RejectedItem:
    """A rejected notification: its subscription or, if unknown, its provider; and its source address."""

    organization: UUID
    entity: str
    id: str
    source: str | None


class PushRejections:
    """Counts rejected notifications and writes the counts to the ledger."""

    def __init__(
        self,
        database: Database,
        operator: OrganizationId,
        *,
        interval_seconds: float = WRITE_INTERVAL_SECONDS,
    ) -> None:
        self._database = database
        self._operator = operator
        self._interval_seconds = interval_seconds
        self._counts: Counter[_RejectedItem] = Counter()
        self._different: Counter[str] = Counter()
        self._has_counts = asyncio.Event()

    def count(self, known: PushSubscription | None, provider: ProviderName, source: str) -> None:
        """Count one rejected notification. `known` is None if its subscription is unknown."""
        if known is None:
            item, max_sources = (
                _RejectedItem(self._operator, "provider", provider, source),
                MAX_UNKNOWN_SOURCES,
            )
        else:
            item = _RejectedItem(known.owner.organization, "subscription", str(known.id), source)
            max_sources = MAX_SOURCES
        if item not in self._counts:
            self._different[item.entity] += 1
            if self._different[item.entity] > max_sources:
                item = replace(item, source=None)
        self._counts[item] += 1
        self._has_counts.set()

    async def run(self) -> None:
        """Write the counts forever: the first at once, then at intervals, and the rest on cancellation."""
        try:
            while True:
                await self._has_counts.wait()
                written = 0
                with suppress(DatabaseUnavailable, TransientError):
                    written = await self.write()
                await asyncio.sleep(self.compute_pause(written))
        finally:
            with suppress(DatabaseUnavailable, TransientError):
                await self.write()

    def compute_pause(self, written: int) -> float:
        """The seconds until the next write, after this many entries."""
        return max(self._interval_seconds, written * _SECONDS_PER_ENTRY)

    async def write(self) -> int:
        """Write the counts, one transaction per organization; how many entries it wrote.

        What cannot be written stays counted.
        """
        self._has_counts.clear()
        taken, self._counts = self._counts, Counter()
        entries = len(taken)
        self._different.clear()
        unknown = sum(count for item, count in taken.items() if item.entity == "provider")
        if unknown:
            log.warning("push.rejected", count=unknown, reason="unknown subscription")
        if taken.total() > unknown:
            log.warning("push.rejected", count=taken.total() - unknown, reason="wrong secret")
        try:
            for organization in {item.organization for item in taken}:
                counts = {item: count for item, count in taken.items() if item.organization == organization}
                async with self._database.transaction(organization) as connection:
                    if organization == self._operator:
                        await organizations.ensure(connection, self._operator)
                    await ledger.append_entries(
                        connection, organization, [_build_entry(*item) for item in counts.items()]
                    )
                for item in counts:
                    del taken[item]
        finally:
            if taken:
                self._counts.update(taken)
                self._has_counts.set()
        return entries


def _build_entry(rejected: _RejectedItem, count: int) -> NewLedgerEntry:
    return NewLedgerEntry(
        event_type=EVENT,
        entity_type=rejected.entity,
        entity_id=rejected.id,
        payload={"count": count},
        personal={"source": rejected.source},
    )
