"""Listings: the first sync, a full one after an expired cursor, and the refill after a policy was raised.

Page by page, newest first, resumable where it stopped. While a page is committed the next one is fetched.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from postroom.errors import CursorExpired, Gone, TransientError
from postroom.flow.sync import live, tree
from postroom.flow.sync.commit import Passing, commit
from postroom.flow.sync.gather import Gathered, Manner, certain, gather, observed
from postroom.flow.sync.reading import Reading
from postroom.model import Change, Presence
from postroom.store import cursors, messages
from postroom.store.cursors import Begin, Cursor, CursorKind, Move

STORED_PAGE: Final = 100  # of what is stored and looked at or fetched again


async def run(reading: Reading, *, seconds: float) -> None:
    """Go on with what is not at its end, for about so long. New mail does not wait behind old mail."""
    until = time.monotonic() + seconds
    ahead = _Ahead(reading)
    try:
        while reading.listings():
            cursor = ahead.next()
            if cursor is None:
                await ahead.land()
                ahead = _Ahead(reading)
                continue
            await ahead.take(cursor)
            if time.monotonic() >= until:  # a page at least, however short the time is
                break
            if reading.is_told_more:
                await ahead.land()
                await live.run(reading)
                ahead = _Ahead(reading)
        await ahead.land()
    finally:
        await ahead.abandon()


@dataclass
class _Place:
    """Where the reading of a listing is, which is ahead of what is committed."""

    cursor: Cursor
    value: str | None
    listed: int
    at_end: bool = False


@dataclass
class _Ahead:
    """Fetches pages while the one before is being committed."""

    reading: Reading
    places: dict[tuple[CursorKind, str], _Place] = field(default_factory=dict[tuple[CursorKind, str], _Place])
    commit: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        for cursor in self.reading.listings():
            self.places[cursor.kind, cursor.scope] = _Place(cursor, cursor.value, cursor.listed)

    def next(self) -> _Place | None:
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

    async def take(self, place: _Place) -> None:
        match place.cursor.kind:
            case CursorKind.REFILL:
                await self._refill(place)
            case CursorKind.RESYNC if place.cursor.completed_at is not None:
                await self._settle(place)
            case _:
                await self._list(place)

    async def land(self) -> None:
        """Wait for the commit under way."""
        if self.commit is not None:
            task, self.commit = self.commit, None
            await task

    async def abandon(self) -> None:
        if self.commit is not None:
            self.commit.cancel()
            with suppress(BaseException):
                await self.commit

    async def _then(self, gathered: Gathered, passing: Passing, *, rewrites: bool = False) -> None:
        await self.land()
        self.commit = asyncio.create_task(commit(self.reading, gathered, passing, rewrites=rewrites))

    async def _list(self, place: _Place) -> None:
        reading, kind, scope = self.reading, place.cursor.kind, place.cursor.scope
        resync = kind is CursorKind.RESYNC
        since = reading.since(scope) if resync else place.cursor.since
        try:
            page = await reading.remote.listing(scope, cursor=place.value, since=None if resync else since)
        except CursorExpired:
            await self._begin_anew(place)
            return
        except Gone:
            await self.land()
            await tree.follow(reading)
            place.at_end = True
            return
        manner = Manner(since, fetches_bare=not resync, looks_at_bare=resync)
        gathered = await live.gathered_in_known_folders(reading, observed(page.changes, scope), manner)
        done = not page.more
        begins = (
            [Begin(CursorKind.LIVE, scope, page.live)]
            if done and page.live and self._needs_live(place)
            else []
        )
        await self._then(
            gathered,
            Passing(
                [Move(kind, scope, page.cursor, len(page.changes), page.expected, done)],
                begins,
                listed=[(scope, gathered.shown)] if resync else (),
            ),
        )
        place.value, place.listed, place.at_end = page.cursor, place.listed + max(len(page.changes), 1), done

    def _needs_live(self, place: _Place) -> bool:
        return (
            place.cursor.kind is CursorKind.RESYNC
            or self.reading.cursor(CursorKind.LIVE, place.cursor.scope) is None
        )

    async def _begin_anew(self, place: _Place) -> None:
        """A listing that can be continued no more. Where it alone gives the live cursor, changes were missed
        since it began, so it becomes a full one.
        """
        await self.land()
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
        await self.land()
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
        looked = certain(await reading.remote.look(keys))
        gathered = await live.gathered_in_known_folders(reading, looked, Manner(None))
        await commit(reading, gathered, Passing(listed=[(scope, gathered.shown)]))

    async def _refill(self, place: _Place) -> None:
        reading = self.reading
        below = int(place.value) if place.value else None
        async with reading.parts.database.transaction(reading.organization) as connection:
            rows = await messages.keys_below(connection, reading.id, below=below, limit=STORED_PAGE)
        if not rows:
            await self._then(Gathered(), Passing(drops=[(CursorKind.REFILL, "")]))
            place.at_end = True
            return
        told = certain(Change(key, Presence.HERE) for _, key in rows)
        gathered = await gather(reading, told, Manner(None, refetches=True))
        place.value = str(rows[-1][0])
        await self._then(
            gathered, Passing([Move(CursorKind.REFILL, "", place.value, len(rows))]), rewrites=True
        )
