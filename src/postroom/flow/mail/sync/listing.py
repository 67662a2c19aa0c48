"""Listings: the backfill, a full resync after an expired cursor, the refill after a raised policy.

They run page by page, newest first, and resume where they stopped. While a page is committed, the next ones
are fetched. Pages are committed in order, and none after one that failed.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from postroom.errors import CursorExpired, NotFound, PostroomError, TransientError
from postroom.flow.mail.sync import folder_tree, isolation, live_changes
from postroom.flow.mail.sync.isolation import PageRequest
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

STORED_PAGE: Final = 100  # stored messages that are looked up or fetched again at a time
CONCURRENT_PAGES: Final = 2


async def run(sync_run: SyncRun, *, seconds: float) -> None:
    """Continue unfinished listings for about this long. New mail does not wait behind old mail."""
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
    """How far a listing has been read, which is ahead of what is committed."""

    cursor: Cursor
    value: str | None
    listed: int
    at_end: bool = False
    feed_read: bool = False  # since the listing was completed


@dataclass(frozen=True)
class _PageInFlight:
    """A page being fetched, and the cursor updates of its commit."""

    fetch: asyncio.Task[FetchedPage]
    turn: FetchTurn
    cursor_updates: Callable[[FetchedPage], CursorUpdates]
    rewrites: bool


@dataclass
class _Prefetcher:
    """Fetches pages while the previous ones are being committed."""

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
        """Read until everything is read, the time is up, or there are new hints.

        Pages fetched before an error are committed.
        """
        try:
            while (position := self._choose_next()) is not None:
                await self._advance(position)  # at least one page, however short the time is
                if time.monotonic() >= until or self.sync_run.has_new_hints:
                    break
        except PostroomError:
            await self._drain()
            raise
        await self._drain()

    async def cancel(self) -> None:
        """Cancel what is still running; after a success there is nothing."""
        await self._cancel_fetches()
        if self.commit is not None:
            self.commit.cancel()
            await asyncio.gather(self.commit, return_exceptions=True)

    def _choose_next(self) -> _ListingPosition | None:
        """Choose the listing that has progressed least, so folders take turns. Refills come last."""
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
        observations: Sequence[Observation],
        options: FetchOptions,
        cursor_updates: Callable[[FetchedPage], CursorUpdates],
        *,
        together: int = CONCURRENT_PAGES,
    ) -> None:
        """Start fetching a page, at most this many at a time, and commit fetched pages.

        A page with suspects is fetched and committed while nothing else is.
        """
        if isolation.list_suspects(self.sync_run, observations):
            await self._drain()
            rewrites = options.refetch_known
            request = PageRequest(observations, options, rewrites=rewrites)
            page = await isolation.fetch_page(self.sync_run, request)
            await commit_page(self.sync_run, page, cursor_updates(page), rewrites=rewrites)
            return
        turn = FetchTurn(previous=self.in_flight[-1].turn.mostly_fetched if self.in_flight else None)
        task = asyncio.create_task(fetch_page(self.sync_run, observations, options, turn))
        self.in_flight.append(_PageInFlight(task, turn, cursor_updates, options.refetch_known))
        while len(self.in_flight) >= together:
            await self._commit_next()

    async def _commit_next(self) -> None:
        """Start the next commit after the previous one has ended. No page may be skipped."""
        page = self.in_flight.popleft()
        try:
            await self._await_commit()
            fetched_page = await page.fetch
            await folder_tree.ensure_known_folders(self.sync_run, fetched_page)
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
        """Wait until every page in flight is committed."""
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
        options = FetchOptions(since, fetch_unknown_bare_keys=not resync, look_up_known_bare_keys=resync)
        position.value, position.listed = page.cursor, position.listed + max(len(page.changes), 1)
        position.at_end = not page.has_more
        # A resync looks up stored messages, so pages must be committed in the order they were read.
        await self._start_fetch(
            to_observations(page.changes, scope),
            options,
            lambda fetched_page: self._build_cursor_updates(position, page, fetched_page),
            together=1 if resync else CONCURRENT_PAGES,
        )

    def _build_cursor_updates(
        self, position: _ListingPosition, page: ChangePage, fetched_page: FetchedPage
    ) -> CursorUpdates:
        """Build the cursor updates for a page.

        If the change feed starts at the end of the first listing (Graph), messages that hints brought in may
        have been deleted before it: then what is stored but was not listed is settled, too.
        """
        kind, scope = position.cursor.kind, position.cursor.scope
        resync, done = kind is CursorKind.RESYNC, not page.has_more
        first = not resync and self.sync_run.cursor(CursorKind.LIVE, scope) is None
        starts: list[CursorStart] = []
        if done and page.live_cursor and (resync or first):
            starts.append(CursorStart(CursorKind.LIVE, scope, page.live_cursor))
        if done and page.live_cursor and first:
            starts.append(CursorStart(CursorKind.RESYNC, scope, completed=True))
        return CursorUpdates(
            [CursorAdvance(kind, scope, page.cursor, len(page.changes), page.estimated_total, done)],
            starts,
            listed=[(scope, fetched_page.shown)] if resync or first else (),
            only_relevant_keys=first,
            completed=[(scope, position.cursor.started_at)] if done else (),
            listing=position.cursor,
        )

    async def _restart_listing(self, position: _ListingPosition) -> None:
        """Restart a listing whose cursor expired.

        If only its end yields the live cursor, changes since its start were missed, so it becomes a resync.
        """
        await self._drain()
        scope = position.cursor.scope
        if scope in self.sync_run.restarted_scopes:
            raise TransientError("The provider's listing cursors expire before the listing is complete.")
        self.sync_run.restarted_scopes.add(scope)
        if self.sync_run.cursor(CursorKind.LIVE, scope) is not None:
            starts = [CursorStart(position.cursor.kind, scope)]
        else:
            starts = [
                CursorStart(CursorKind.BACKFILL, scope, completed=True),
                CursorStart(CursorKind.RESYNC, scope),
            ]
        await commit_page(self.sync_run, FetchedPage(), CursorUpdates(starts=starts))
        position.at_end = True

    async def _settle_unlisted(self, position: _ListingPosition) -> None:
        """Look up stored messages that neither the listing nor the feed since named: moved or deleted.

        A message that the feed names may not be readable yet, so a 404 of its lookup does not delete it.
        """
        await self._drain()
        sync_run, scope = self.sync_run, position.cursor.scope
        keys = await self._list_unlisted(position.cursor)
        if keys and not position.feed_read:
            await live_changes.follow_feed(sync_run, scope)
            position.feed_read = True
            resync = sync_run.cursor(CursorKind.RESYNC, scope)
            if resync is None or resync.completed_at is None or scope in sync_run.unreadable:
                position.at_end = True
                return
            keys = await self._list_unlisted(position.cursor)
        if not keys:
            await commit_page(sync_run, FetchedPage(), CursorUpdates(deletes=[(CursorKind.RESYNC, scope)]))
            position.at_end = True
            return
        failed = FetchedPage()
        looked = await look_up(sync_run, keys, failed)
        fetched_page = await isolation.fetch_page(sync_run, PageRequest(looked, FetchOptions(None)))
        fetched_page.failures += failed.failures
        fetched_page.left = dict.fromkeys(keys, scope)
        shown = [*fetched_page.shown, *(each.subject for each in failed.failures)]
        await commit_page(sync_run, fetched_page, CursorUpdates(listed=[(scope, shown)]))

    async def _list_unlisted(self, resync: Cursor) -> list[str]:
        """Stored messages that the listing should have contained. The feed reports what came after it."""
        sync_run, scope = self.sync_run, resync.scope
        async with sync_run.context.database.transaction(sync_run.organization) as connection:
            return await cursors.list_unlisted(
                connection,
                sync_run.id,
                "resync",
                scope,
                folders=sync_run.folder_ids(scope),
                limit=STORED_PAGE,
                created_before=resync.completed_at,
            )

    async def _refill(self, position: _ListingPosition) -> None:
        sync_run = self.sync_run
        below = int(position.value) if position.value else None
        async with sync_run.context.database.transaction(sync_run.organization) as connection:
            rows = await messages.list_keys_below(connection, sync_run.id, below=below, limit=STORED_PAGE)
        if not rows:
            await self._drain()
            await commit_page(sync_run, FetchedPage(), CursorUpdates(deletes=[(CursorKind.REFILL, "")]))
            position.at_end = True
            return
        observations = to_certain_observations(MessageChange(key, Presence.PRESENT) for _, key in rows)
        position.value = str(rows[-1][0])
        cursor_updates = CursorUpdates([CursorAdvance(CursorKind.REFILL, "", position.value, len(rows))])
        await self._start_fetch(
            observations, FetchOptions(None, refetch_known=True), lambda _: cursor_updates
        )
