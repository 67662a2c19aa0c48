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
from postroom.flow.mail.sync.page_commit import CursorUpdates, commit_page
from postroom.flow.mail.sync.page_fetch import (
    FetchedPage,
    FetchOptions,
    FetchTurn,
    Observation,
    fetch_page,
    look_up,
    to_certain_observations,
    to_observations,
)
from postroom.flow.mail.sync.sync_run import SyncRun
from postroom.model import ChangePage, MessageChange, Presence
from postroom.store import cursors, messages
from postroom.store.cursors import Begin, Cursor, CursorKind, Move

STORED_PAGE: Final = 100  # of what is stored and looked at or fetched again
CONCURRENT_PAGES: Final = 2  # pages


async def run(reading: SyncRun, *, seconds: float) -> None:
    """Go on with what is not at its end, for about so long. New mail does not wait behind old mail."""
    until = time.monotonic() + seconds
    while reading.listings():
        ahead = _Prefetcher(reading)
        try:
            await ahead.go(until)
        finally:
            await ahead.abandon()
        if time.monotonic() >= until:
            break
        if reading.is_told_more:
            await live_changes.run(reading)


@dataclass
class _ListingPosition:
    """Where the reading of a listing is, which is ahead of what is committed."""

    cursor: Cursor
    value: str | None
    listed: int
    at_end: bool = False


@dataclass(frozen=True)
class _PageInFlight:
    """A page on its way, and how its commit passes over it."""

    gathered: asyncio.Task[FetchedPage]
    turn: FetchTurn
    passing: Callable[[FetchedPage], CursorUpdates]
    rewrites: bool


@dataclass
class _Prefetcher:
    """Fetches pages while those before are being committed."""

    reading: SyncRun
    places: dict[tuple[CursorKind, str], _ListingPosition] = field(
        default_factory=dict[tuple[CursorKind, str], _ListingPosition]
    )
    fetching: deque[_PageInFlight] = field(default_factory=deque[_PageInFlight])
    commit: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        for cursor in self.reading.listings():
            self.places[cursor.kind, cursor.scope] = _ListingPosition(cursor, cursor.value, cursor.listed)

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

    def _next(self) -> _ListingPosition | None:
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

    async def _take(self, place: _ListingPosition) -> None:
        match place.cursor.kind:
            case CursorKind.REFILL:
                await self._refill(place)
            case CursorKind.RESYNC if place.cursor.completed_at is not None:
                await self._settle(place)
            case _:
                await self._list(place)

    async def _fetch(
        self,
        told: Sequence[Observation],
        manner: FetchOptions,
        passing: Callable[[FetchedPage], CursorUpdates],
        *,
        together: int = CONCURRENT_PAGES,
    ) -> None:
        """Let a page be fetched after those before it, so many at a time, and commit what has come."""
        turn = FetchTurn(before=self.fetching[-1].turn.mine if self.fetching else None)
        task = asyncio.create_task(fetch_page(self.reading, told, manner, turn))
        self.fetching.append(_PageInFlight(task, turn, passing, manner.refetches))
        while len(self.fetching) >= together:
            await self._commit_next()

    async def _commit_next(self) -> None:
        """Begin the next commit, when the one before has ended. No page may be passed over."""
        page = self.fetching.popleft()
        try:
            await self._committed()
            gathered = await page.gathered
            if not live_changes.has_known_folders(self.reading, gathered):
                await folder_tree.refresh_folders(self.reading)
        except BaseException:
            page.gathered.cancel()
            await asyncio.gather(page.gathered, return_exceptions=True)
            await self._drop()
            raise
        passing = page.passing(gathered)
        self.commit = asyncio.create_task(
            commit_page(self.reading, gathered, passing, rewrites=page.rewrites)
        )

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

    async def _list(self, place: _ListingPosition) -> None:
        reading, kind, scope = self.reading, place.cursor.kind, place.cursor.scope
        resync = kind is CursorKind.RESYNC
        since = reading.since(scope)
        try:
            page = await reading.remote.list_messages(
                scope, cursor=place.value, since=None if resync else since
            )
        except CursorExpired:
            await self._begin_anew(place)
            return
        except NotFound:
            await self._land()
            await folder_tree.handle_gone_scope(reading, scope)
            place.at_end = True
            return
        manner = FetchOptions(since, fetches_bare=not resync, looks_at_bare=resync)
        place.value, place.listed = page.cursor, place.listed + max(len(page.changes), 1)
        place.at_end = not page.has_more
        # A full listing looks at what is stored: what was seen first must be written first.
        await self._fetch(
            to_observations(page.changes, scope),
            manner,
            lambda gathered: self._passing(place, page, gathered),
            together=1 if resync else CONCURRENT_PAGES,
        )

    def _passing(self, place: _ListingPosition, page: ChangePage, gathered: FetchedPage) -> CursorUpdates:
        """Where the feed begins with the first listing, mail that hints or dates brought may have been gone
        before: what is stored and was not listed is settled then too.
        """
        kind, scope = place.cursor.kind, place.cursor.scope
        resync, done = kind is CursorKind.RESYNC, not page.has_more
        first = not resync and self.reading.cursor(CursorKind.LIVE, scope) is None
        begins: list[Begin] = []
        if done and page.live_cursor and (resync or first):
            begins.append(Begin(CursorKind.LIVE, scope, page.live_cursor))
        if done and page.live_cursor and first:
            begins.append(Begin(CursorKind.RESYNC, scope, completed=True))
        return CursorUpdates(
            [Move(kind, scope, page.cursor, len(page.changes), page.estimated_total, done)],
            begins,
            listed=[(scope, gathered.shown)] if resync or first else (),
            listed_first=first,
        )

    async def _begin_anew(self, place: _ListingPosition) -> None:
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
        await commit_page(self.reading, FetchedPage(), CursorUpdates(begins=begins))
        place.at_end = True

    async def _settle(self, place: _ListingPosition) -> None:
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
            await commit_page(reading, FetchedPage(), CursorUpdates(drops=[(CursorKind.RESYNC, scope)]))
            place.at_end = True
            return
        failed = FetchedPage()
        looked = await look_up(reading, keys, failed)
        gathered = await live_changes.fetch_with_known_folders(reading, looked, FetchOptions(None))
        gathered.failures += failed.failures
        shown = [*gathered.shown, *(each.subject for each in failed.failures)]
        await commit_page(reading, gathered, CursorUpdates(listed=[(scope, shown)]))

    async def _refill(self, place: _ListingPosition) -> None:
        reading = self.reading
        below = int(place.value) if place.value else None
        async with reading.parts.database.transaction(reading.organization) as connection:
            rows = await messages.keys_below(connection, reading.id, below=below, limit=STORED_PAGE)
        if not rows:
            await self._land()
            await commit_page(reading, FetchedPage(), CursorUpdates(drops=[(CursorKind.REFILL, "")]))
            place.at_end = True
            return
        told = to_certain_observations(MessageChange(key, Presence.PRESENT) for _, key in rows)
        place.value = str(rows[-1][0])
        passing = CursorUpdates([Move(CursorKind.REFILL, "", place.value, len(rows))])
        await self._fetch(told, FetchOptions(None, refetches=True), lambda _: passing)
