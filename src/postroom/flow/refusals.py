"""Pushes that were refused: counted, and told to the ledger of the organization they concern.

What names no subscription of ours concerns no organization; it is in the log, as a count. Nobody waits for
this, and a storm becomes one entry for each subscription and source in ten seconds: the ledger only grows.
"""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.logs import Log
from postroom.store import ledger
from postroom.store.database import Database
from postroom.store.ledger import Entry
from postroom.store.notifications import Known

EVENT: Final = "notification.refused"
PAUSE_SECONDS: Final = 10.0
# More sources than this at once are told of as one.
MOST_SOURCES: Final = 1000

log = Log()


@dataclass(frozen=True, slots=True)
class _Concerned:
    organization: UUID
    subscription: UUID
    source: str | None


class Refusals:
    def __init__(self, database: Database, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._database = database
        self._pause_seconds = pause_seconds
        self._concerned: Counter[_Concerned] = Counter()
        self._unknown = 0
        self._noted = asyncio.Event()

    def note(self, known: Known | None, source: str) -> None:
        """One item was refused: with the wrong secret of a subscription, or as nobody's."""
        if known is None:
            self._unknown += 1
        else:
            one = _Concerned(known.owner.organization, known.id, source)
            if one not in self._concerned and len(self._concerned) >= MOST_SOURCES:
                one = _Concerned(known.owner.organization, known.id, None)
            self._concerned[one] += 1
        self._noted.set()

    async def keep(self) -> None:
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
        self._noted.clear()
        concerned, self._concerned = self._concerned, Counter()
        unknown, self._unknown = self._unknown, 0
        if unknown:
            log.warning("push.refused", count=unknown, reason="of no subscription")
        if concerned:
            log.warning("push.refused", count=concerned.total(), reason="with a wrong secret")
        for organization in {each.organization for each in concerned}:
            ours = {each: count for each, count in concerned.items() if each.organization == organization}
            try:
                async with self._database.transaction(organization) as connection:
                    await ledger.append(connection, organization, [_entry(*each) for each in ours.items()])
            except BaseException:
                self._concerned.update(ours)  # told of the next time
                self._noted.set()
                raise


def _entry(concerned: _Concerned, count: int) -> Entry:
    return Entry(
        event_type=EVENT,
        entity_type="subscription",
        entity_id=str(concerned.subscription),
        payload={"count": count},
        personal={"source": concerned.source},
    )
