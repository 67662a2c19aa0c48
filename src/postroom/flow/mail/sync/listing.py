"""Listings: the first sync, a full one after an expired cursor, and the refill after a policy was raised.

Page by page, newest first, resumable where it stopped. While a page is committed the next ones are fetched;
they are committed in their order, and none after one that failed.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from postroom.errors import CursorExpired, NotFound, PostroomError, TransientError
from postroom.flow.mail.sync import folder_tree, live_changes
from postroom.flow.mail.sync.page_commit import Passing, commit
from postroom.flow.mail.sync.page_fetch import Gathered, Manner, Told, Turn, certain, gather, look, observed
from postroom.flow.mail.sync.sync_run import SyncRun
from postroom.model import Change, Page, Presence
from postroom.store import cursors, messages
from postroom.store.cursors import Begin, Cursor, CursorKind, Move

STORED_PAGE: Final = 100  # of what is stored and looked at or fetched again
FETCHED_TOGETHER: Final = 2  # pages


async def run(reading: SyncRun, *, seconds: float) -> None:
    """Go on with what is not at its end, for about so long. New mail does not wait behind old mail."""
    until = time.monotonic() + seconds
    while reading.listings():
        ahead = _Ahead(reading)
        try:
            await ahead.go(until)
        finally:
            await ahead.abandon()
        if time.monotonic() >= until:
            break
        if reading.is_told_more:
            await live_changes.run(reading)


@dataclass
class _Place:
    """Where the reading of a listing is, which is ahead of what is committed."""

    cursor: Cursor
    value: str | None
    listed: int
    at_end: bool = False


@dataclass(frozen=True)
class _Fetching:
    """A page on its way, and how its commit passes over it."""

    gathered: asyncio.Task[Gathered]
    turn: Turn
    passing: Callable[[Gathered], Passing]
    rewrites: bool


@dataclass
class _Ahead:
    """Fetches pages while those before are being committed."""

    reading: SyncRun
    places: dict[tuple[CursorKind, str], _Place] = field(default_factory=dict[tuple[CursorKind, str], _Place])
    fetching: deque[_Fetching] = field(default_factory=deque[_Fetching])
    commit: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        for cursor in self.reading.listings():
            self.places[cursor.kind, cursor.scope] = _Place(cursor, cursor.value, cursor.listed)

    async def go(self, until: float) -> None:
        """Until all is read, the time is over, or there is news. What was fetched before an error is kept."""
        try:
            while (place := self._next()) is not None:
                await self._take(place)  # a page at least, however short the time is
                if time.monotonic() >= until or self.reading.is_told_more:
                    break
        except PostroomError:
            await self._land()
            raise
        await self._land()

    async def abandon(self) -> None:
        """End what is under way; nothing is where all went well."""
        await self._drop()
        if self.commit is not None:
            self.commit.cancel()
            await asyncio.gather(self.commit, return_exceptions=True)

    def _next(self) -> _Place | None:
        """The one that has come least far: folders take turns. A refill waits for all others."""
        open_ = [place for place in self.places.values() if not place.at_end]
        order = {scope: number for number, scope in enumerate(self.reading.scopes())}
        return min(
            open_,
            key=lambda place: (
                place.cursor.kind is CursorKind.REFILL,
                place.listed,
                order.get(place.cursor.scope, 0),
            ),
            default=None,
        )

    async def _take(self, place: _Place) -> None:
        match place.cursor.kind:
            case CursorKind.REFILL:
                await self._refill(place)
            case CursorKind.RESYNC if place.cursor.completed_at is not None:
                await self._settle(place)
            case _:
                await self._list(place)

    async def _fetch(
        self,
        told: Sequence[Told],
        manner: Manner,
        passing: Callable[[Gathered], Passing],
        *,
        together: int = FETCHED_TOGETHER,
    ) -> None:
        """Let a page be fetched after those before it, so many at a time, and commit what has come."""
        turn = Turn(before=self.fetching[-1].turn.mine if self.fetching else None)
        task = asyncio.create_task(gather(self.reading, told, manner, turn))
        self.fetching.append(_Fetching(task, turn, passing, manner.refetches))
        while len(self.fetching) >= together:
            await self._commit_next()

    async def _commit_next(self) -> None:
        """Begin the next commit, when the one before has ended. No page may be passed over."""
        page = self.fetching.popleft()
        try:
            await self._committed()
            gathered = await page.gathered
            if not live_changes.are_known(self.reading, gathered):
                await folder_tree.follow(self.reading)
        except BaseException:
            page.gathered.cancel()
            await asyncio.gather(page.gathered, return_exceptions=True)
            await self._drop()
            raise
        passing = page.passing(gathered)
        self.commit = asyncio.create_task(commit(self.reading, gathered, passing, rewrites=page.rewrites))

    async def _committed(self) -> None:
        if self.commit is not None:
            task, self.commit = self.commit, None
            await task

    async def _land(self) -> None:
        """Wait until everything that is under way is committed."""
        while self.fetching:
            await self._commit_next()
        await self._committed()

    async def _drop(self) -> None:
        tasks = [page.gathered for page in self.fetching]
        self.fetching.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _list(self, place: _Place) -> None:
        reading, kind, scope = self.reading, place.cursor.kind, place.cursor.scope
        resync = kind is CursorKind.RESYNC
        since = reading.since(scope)
        try:
            page = await reading.remote.listing(scope, cursor=place.value, since=None if resync else since)
        except CursorExpired:
            await self._begin_anew(place)
            return
        except NotFound:
            await self._land()
            await folder_tree.vanished(reading, scope)
            place.at_end = True
            return
        manner = Manner(since, fetches_bare=not resync, looks_at_bare=resync)
        place.value, place.listed = page.cursor, place.listed + max(len(page.changes), 1)
        place.at_end = not page.more
        # A full listing looks at what is stored: what was seen first must be written first.
        await self._fetch(
            observed(page.changes, scope),
            manner,
            lambda gathered: self._passing(place, page, gathered),
            together=1 if resync else FETCHED_TOGETHER,
        )

    def _passing(self, place: _Place, page: Page, gathered: Gathered) -> Passing:
        """Where the feed begins with the first listing, mail that hints or dates brought may have been gone
        before: what is stored and was not listed is settled then too.
        """
        kind, scope = place.cursor.kind, place.cursor.scope
        resync, done = kind is CursorKind.RESYNC, not page.more
        first = not resync and self.reading.cursor(CursorKind.LIVE, scope) is None
        begins: list[Begin] = []
        if done and page.live and (resync or first):
            begins.append(Begin(CursorKind.LIVE, scope, page.live))
        if done and page.live and first:
            begins.append(Begin(CursorKind.RESYNC, scope, completed=True))
        return Passing(
            [Move(kind, scope, page.cursor, len(page.changes), page.expected, done)],
            begins,
            listed=[(scope, gathered.shown)] if resync or first else (),
            listed_first=first,
        )

    async def _begin_anew(self, place: _Place) -> None:
        """A listing that can be continued no more. Where it alone gives the live cursor, changes were missed
        since it began, so it becomes a full one.
        """
        await self._land()
        scope = place.cursor.scope
        if scope in self.reading.begun_anew:
            raise TransientError("The provider's listings expire while they are read.")
        self.reading.begun_anew.add(scope)
        if self.reading.cursor(CursorKind.LIVE, scope) is not None:
            begins = [Begin(place.cursor.kind, scope)]
        else:
            begins = [Begin(CursorKind.BACKFILL, scope, completed=True), Begin(CursorKind.RESYNC, scope)]
        await commit(self.reading, Gathered(), Passing(begins=begins))
        place.at_end = True

    async def _settle(self, place: _Place) -> None:
        """What is stored and was not listed: a look tells whether it was moved or deleted."""
        await self._land()
        reading, scope = self.reading, place.cursor.scope
        async with reading.parts.database.transaction(reading.organization) as connection:
            keys = await cursors.unlisted(
                connection,
                reading.id,
                "resync",
                scope,
                folders=reading.folder_ids(scope),
                limit=STORED_PAGE,
            )
        if not keys:
            await commit(reading, Gathered(), Passing(drops=[(CursorKind.RESYNC, scope)]))
            place.at_end = True
            return
        failed = Gathered()
        looked = await look(reading, keys, failed)
        gathered = await live_changes.gathered_in_known_folders(reading, looked, Manner(None))
        gathered.failures += failed.failures
        shown = [*gathered.shown, *(each.subject for each in failed.failures)]
        await commit(reading, gathered, Passing(listed=[(scope, shown)]))

    async def _refill(self, place: _Place) -> None:
        reading = self.reading
        below = int(place.value) if place.value else None
        async with reading.parts.database.transaction(reading.organization) as connection:
            rows = await messages.keys_below(connection, reading.id, below=below, limit=STORED_PAGE)
        if not rows:
            await self._land()
            await commit(reading, Gathered(), Passing(drops=[(CursorKind.REFILL, "")]))
            place.at_end = True
            return
        told = certain(Change(key, Presence.HERE) for _, key in rows)
        place.value = str(rows[-1][0])
        passing = Passing([Move(CursorKind.REFILL, "", place.value, len(rows))])
        await self._fetch(told, Manner(None, refetches=True), lambda _: passing)
