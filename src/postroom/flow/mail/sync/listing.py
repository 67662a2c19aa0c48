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
from postroom.store.cursors import Cursor, CursorAdvance, CursorKind, CursorStart

STORED_PAGE: Final = 100  # of what is stored and looked at or fetched again
CONCURRENT_PAGES: Final = 2  # pages


async def run(sync_run: SyncRun, *, seconds: float) -> None:
    """Go on with what is not at its end, for about so long. New mail does not wait behind old mail."""
    until = time.monotonic() + seconds
    while sync_run.listings():
        ahead = _Prefetcher(sync_run)
        try:
            await ahead.run(until)
        finally:
            await ahead.cancel()
        if time.monotonic() >= until:
            break
        if sync_run.has_new_hints:
            await live_changes.run(sync_run)


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

    fetch: asyncio.Task[FetchedPage]
    turn: FetchTurn
    cursor_updates: Callable[[FetchedPage], CursorUpdates]
    rewrites: bool


@dataclass
class _Prefetcher:
    """Fetches pages while those before are being committed."""

    sync_run: SyncRun
    positions: dict[tuple[CursorKind, str], _ListingPosition] = field(
        default_factory=dict[tuple[CursorKind, str], _ListingPosition]
    )
    in_flight: deque[_PageInFlight] = field(default_factory=deque[_PageInFlight])
    commit: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        for cursor in self.sync_run.listings():
            self.positions[cursor.kind, cursor.scope] = _ListingPosition(cursor, cursor.value, cursor.listed)

    async def run(self, until: float) -> None:
        """Until all is read, the time is over, or there is news. What was fetched before an error is kept."""
        try:
            while (position := self._choose_next()) is not None:
                await self._advance(position)  # a page at least, however short the time is
                if time.monotonic() >= until or self.sync_run.has_new_hints:
                    break
        except PostroomError:
            await self._drain()
            raise
        await self._drain()

    async def cancel(self) -> None:
        """End what is under way; nothing is where all went well."""
        await self._cancel_fetches()
        if self.commit is not None:
            self.commit.cancel()
            await asyncio.gather(self.commit, return_exceptions=True)

    def _choose_next(self) -> _ListingPosition | None:
        """The one that has come least far: folders take turns. A refill waits for all others."""
        open_ = [position for position in self.positions.values() if not position.at_end]
        order = {scope: number for number, scope in enumerate(self.sync_run.scopes())}
        return min(
            open_,
            key=lambda position: (
                position.cursor.kind is CursorKind.REFILL,
                position.listed,
                order.get(position.cursor.scope, 0),
            ),
            default=None,
        )

    async def _advance(self, position: _ListingPosition) -> None:
        match position.cursor.kind:
            case CursorKind.REFILL:
                await self._refill(position)
            case CursorKind.RESYNC if position.cursor.completed_at is not None:
                await self._settle_unlisted(position)
            case _:
                await self._list_page(position)

    async def _start_fetch(
        self,
        told: Sequence[Observation],
        options: FetchOptions,
        cursor_updates: Callable[[FetchedPage], CursorUpdates],
        *,
        together: int = CONCURRENT_PAGES,
    ) -> None:
        """Let a page be fetched after those before it, so many at a time, and commit what has come."""
        turn = FetchTurn(previous=self.in_flight[-1].turn.mostly_fetched if self.in_flight else None)
        task = asyncio.create_task(fetch_page(self.sync_run, told, options, turn))
        self.in_flight.append(_PageInFlight(task, turn, cursor_updates, options.refetches))
        while len(self.in_flight) >= together:
            await self._commit_next()

    async def _commit_next(self) -> None:
        """Begin the next commit, when the one before has ended. No page may be passed over."""
        page = self.in_flight.popleft()
        try:
            await self._await_commit()
            fetched_page = await page.fetch
            if not live_changes.has_known_folders(self.sync_run, fetched_page):
                await folder_tree.refresh_folders(self.sync_run)
        except BaseException:
            page.fetch.cancel()
            await asyncio.gather(page.fetch, return_exceptions=True)
            await self._cancel_fetches()
            raise
        cursor_updates = page.cursor_updates(fetched_page)
        self.commit = asyncio.create_task(
            commit_page(self.sync_run, fetched_page, cursor_updates, rewrites=page.rewrites)
        )

    async def _await_commit(self) -> None:
        if self.commit is not None:
            task, self.commit = self.commit, None
            await task

    async def _drain(self) -> None:
        """Wait until everything that is under way is committed."""
        while self.in_flight:
            await self._commit_next()
        await self._await_commit()

    async def _cancel_fetches(self) -> None:
        tasks = [page.fetch for page in self.in_flight]
        self.in_flight.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _list_page(self, position: _ListingPosition) -> None:
        sync_run, kind, scope = self.sync_run, position.cursor.kind, position.cursor.scope
        resync = kind is CursorKind.RESYNC
        since = sync_run.since(scope)
        try:
            page = await sync_run.remote.list_messages(
                scope, cursor=position.value, since=None if resync else since
            )
        except CursorExpired:
            await self._restart_listing(position)
            return
        except NotFound:
            await self._drain()
            await folder_tree.handle_gone_scope(sync_run, scope)
            position.at_end = True
            return
        options = FetchOptions(since, fetches_bare=not resync, looks_at_bare=resync)
        position.value, position.listed = page.cursor, position.listed + max(len(page.changes), 1)
        position.at_end = not page.has_more
        # A full listing looks at what is stored: what was seen first must be written first.
        await self._start_fetch(
            to_observations(page.changes, scope),
            options,
            lambda fetched_page: self._build_cursor_updates(position, page, fetched_page),
            together=1 if resync else CONCURRENT_PAGES,
        )

    def _build_cursor_updates(
        self, position: _ListingPosition, page: ChangePage, fetched_page: FetchedPage
    ) -> CursorUpdates:
        """Where the feed begins with the first listing, mail that hints or dates brought may have been gone
        before: what is stored and was not listed is settled then too.
        """
        kind, scope = position.cursor.kind, position.cursor.scope
        resync, done = kind is CursorKind.RESYNC, not page.has_more
        first = not resync and self.sync_run.cursor(CursorKind.LIVE, scope) is None
        begins: list[CursorStart] = []
        if done and page.live_cursor and (resync or first):
            begins.append(CursorStart(CursorKind.LIVE, scope, page.live_cursor))
        if done and page.live_cursor and first:
            begins.append(CursorStart(CursorKind.RESYNC, scope, completed=True))
        return CursorUpdates(
            [CursorAdvance(kind, scope, page.cursor, len(page.changes), page.estimated_total, done)],
            begins,
            listed=[(scope, fetched_page.shown)] if resync or first else (),
            listed_first=first,
        )

    async def _restart_listing(self, position: _ListingPosition) -> None:
        """A listing that can be continued no more. Where it alone gives the live cursor, changes were missed
        since it began, so it becomes a full one.
        """
        await self._drain()
        scope = position.cursor.scope
        if scope in self.sync_run.restarted_scopes:
            raise TransientError("The provider's listings expire while they are read.")
        self.sync_run.restarted_scopes.add(scope)
        if self.sync_run.cursor(CursorKind.LIVE, scope) is not None:
            begins = [CursorStart(position.cursor.kind, scope)]
        else:
            begins = [
                CursorStart(CursorKind.BACKFILL, scope, completed=True),
                CursorStart(CursorKind.RESYNC, scope),
            ]
        await commit_page(self.sync_run, FetchedPage(), CursorUpdates(begins=begins))
        position.at_end = True

    async def _settle_unlisted(self, position: _ListingPosition) -> None:
        """What is stored and was not listed: a look tells whether it was moved or deleted."""
        await self._drain()
        sync_run, scope = self.sync_run, position.cursor.scope
        async with sync_run.context.database.transaction(sync_run.organization) as connection:
            keys = await cursors.list_unlisted(
                connection,
                sync_run.id,
                "resync",
                scope,
                folders=sync_run.folder_ids(scope),
                limit=STORED_PAGE,
            )
        if not keys:
            await commit_page(sync_run, FetchedPage(), CursorUpdates(drops=[(CursorKind.RESYNC, scope)]))
            position.at_end = True
            return
        failed = FetchedPage()
        looked = await look_up(sync_run, keys, failed)
        fetched_page = await live_changes.fetch_with_known_folders(sync_run, looked, FetchOptions(None))
        fetched_page.failures += failed.failures
        shown = [*fetched_page.shown, *(each.subject for each in failed.failures)]
        await commit_page(sync_run, fetched_page, CursorUpdates(listed=[(scope, shown)]))

    async def _refill(self, position: _ListingPosition) -> None:
        sync_run = self.sync_run
        below = int(position.value) if position.value else None
        async with sync_run.context.database.transaction(sync_run.organization) as connection:
            rows = await messages.list_keys_below(connection, sync_run.id, below=below, limit=STORED_PAGE)
        if not rows:
            await self._drain()
            await commit_page(sync_run, FetchedPage(), CursorUpdates(drops=[(CursorKind.REFILL, "")]))
            position.at_end = True
            return
        told = to_certain_observations(MessageChange(key, Presence.PRESENT) for _, key in rows)
        position.value = str(rows[-1][0])
        cursor_updates = CursorUpdates([CursorAdvance(CursorKind.REFILL, "", position.value, len(rows))])
        await self._start_fetch(told, FetchOptions(None, refetches=True), lambda _: cursor_updates)
