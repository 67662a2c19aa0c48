"""Live changes: fetch the messages that pushes named, read the change feeds, and retry due failures.

A push only narrows where to look: its messages, and the feeds of the folders they are or were in. Feeds that
were not read since the last sweep are read as well, so a mailbox with pushes all day is swept too. If the
provider drops pushes that follow each other too closely, the sync runs once more after the last one.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from postroom.errors import CursorExpired, NotFound
from postroom.flow.mail.sync import cursor_planning, folder_tree, isolation
from postroom.flow.mail.sync.isolation import PageRequest
from postroom.flow.mail.sync.page_commit import CursorUpdates, commit_page
from postroom.flow.mail.sync.page_fetch import (
    UNREADABLE,
    FetchedPage,
    FetchOptions,
    Observation,
    get_retry_wait,
    get_unreadable_wait,
    to_observations,
)
from postroom.flow.mail.sync.sync_run import SyncRun
from postroom.logs import Log
from postroom.model import ChangePage, MailboxId, MessageChange, Presence
from postroom.store import failures, ledger, mailboxes, messages, notifications, work
from postroom.store.connection import Connection
from postroom.store.cursors import CursorAdvance, CursorKind
from postroom.store.failures import Failure
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mailboxes import SyncPreconditions
from postroom.store.notifications import SyncHints
from postroom.store.work import Lease

log = Log()

OVERLAP: Final = timedelta(minutes=10)  # list again from this long before the newest stored message
MAX_RETRIES: Final = 50
ANNOUNCED_ATTEMPTS: Final = 3  # of a message that no feed or listing names


@dataclass(frozen=True, slots=True)
class LoadedHints:
    """The hints of pushes, and the preconditions that were read before them."""

    hints: SyncHints
    preconditions: SyncPreconditions | None


async def load_hints(connection: Connection, mailbox: MailboxId, lease: Lease) -> LoadedHints:
    """Load the generation before the hints: hints that arrive in between make another run due."""
    preconditions = await mailboxes.get_sync_preconditions(connection, mailbox, lease.id)
    return LoadedHints(await notifications.get_hints(connection, mailbox), preconditions)


async def run(sync_run: SyncRun, loaded: LoadedHints | None = None) -> None:
    """Read what is new: only near the hints if they are complete, otherwise everywhere."""
    if loaded is None:
        async with sync_run.context.database.transaction(sync_run.organization) as connection:
            loaded = await load_hints(connection, sync_run.id, sync_run.lease)
    hints = sync_run.hints = _apply_hints(sync_run, loaded)
    if cursor_planning.is_tree_stale(sync_run):
        await folder_tree.refresh_folders(sync_run)
    scopes = _list_live_scopes(sync_run)
    narrow = bool(hints.message_ids) and hints.complete
    if hints.message_ids:
        hinted_scopes, all_found = await _fetch_hinted(sync_run, hints)
        if narrow and all_found:
            scopes = [scope for scope in scopes if scope in hinted_scopes or _is_overdue(sync_run, scope)]
    await _fetch_recent(sync_run)
    await _follow_feeds(sync_run, scopes)
    if hints != notifications.NO_HINTS:
        await _clear_hints(sync_run, hints)


async def _clear_hints(sync_run: SyncRun, hints: SyncHints) -> None:
    """Clear the hints that were used. The ledger keeps the period without notifications."""
    missed = hints.missed_period
    async with work.fenced_transaction(sync_run.context.database, sync_run.lease) as connection:
        await notifications.clear_hints(connection, sync_run.id, hints)
        if missed is not None:
            period = {"missed_from": missed[0].isoformat(), "missed_until": missed[1].isoformat()}
            entry = NewLedgerEntry("NOTIFICATIONS_MISSED", "mailbox", str(sync_run.id), payload=period)
            await ledger.append_entries(connection, sync_run.organization, [entry])
    if missed is not None:
        seconds = (missed[1] - missed[0]).total_seconds()
        log.warning("sync.notifications_missed", mailbox=sync_run.id, seconds=seconds)


def _apply_hints(sync_run: SyncRun, loaded: LoadedHints) -> SyncHints:
    if (preconditions := loaded.preconditions) is not None:
        sync_run.handled_generation = sync_run.generation = preconditions.generation
        sync_run.second_look_at = _schedule_second_look(sync_run, preconditions.seconds_since_enqueued)
        sync_run.has_open_failures = preconditions.has_open_failures
    return loaded.hints


def _schedule_second_look(sync_run: SyncRun, seconds_since_enqueued: float | None) -> float | None:
    """Schedule another run for changes whose pushes the provider may have dropped."""
    push_interval = sync_run.remote.push_interval_seconds
    if seconds_since_enqueued is None or seconds_since_enqueued >= push_interval:
        return None
    return time.monotonic() + push_interval - seconds_since_enqueued


def _list_live_scopes(sync_run: SyncRun) -> list[str]:
    there = [scope for scope in sync_run.scopes() if sync_run.cursor(CursorKind.LIVE, scope)]
    return [scope for scope in there if scope not in sync_run.unreadable]


def _is_overdue(sync_run: SyncRun, scope: str) -> bool:
    """Whether it was not read since the last sweep, or a full sync was requested."""
    cursor = sync_run.cursor(CursorKind.LIVE, scope)
    return (
        cursor is None or cursor.value is None or cursor_planning.is_stale(sync_run, CursorKind.LIVE, scope)
    )


async def _fetch_hinted(sync_run: SyncRun, hints: SyncHints) -> tuple[set[str | None], bool]:
    """Fetch the messages that pushes named; their scopes, and whether all of them were found."""
    observations = [Observation(MessageChange(key, Presence.PRESENT)) for key in sorted(hints.message_ids)]
    async with sync_run.context.database.transaction(sync_run.organization) as connection:
        before = await messages.find_by_keys(connection, sync_run.id, hints.message_ids)
    options = FetchOptions(sync_run.earliest(), look_up_known_bare_keys=True)
    alone = isolation.list_suspects(sync_run, observations)
    fetched_page = await isolation.fetch_page(sync_run, PageRequest(observations, options))
    await commit_page(sync_run, fetched_page, CursorUpdates())
    keys = fetched_page.folders() | {row.folder for row in before.values() if row.folder}
    return {sync_run.folders[key].scope for key in keys if key in sync_run.folders}, not (
        fetched_page.unreadable or alone
    )


async def _fetch_recent(sync_run: SyncRun) -> None:
    """Fetch new mail by date while a first listing runs: no change feed covers it yet."""
    listing = [
        cursor.started_at
        for cursor in sync_run.of_kind(CursorKind.BACKFILL)
        if sync_run.cursor(CursorKind.LIVE, cursor.scope) is None
    ]
    if not listing:
        return
    async with sync_run.context.database.transaction(sync_run.organization) as connection:
        newest = await messages.get_newest_received_at(connection, sync_run.id)
    since = max(min(listing), min(newest, sync_run.now) if newest else min(listing)) - OVERLAP
    # In one commit: after a partial one, the newest stored message would hide the missing ones.
    changes = [each async for page in sync_run.remote.list_recent(since) for each in page]
    if changes:
        request = PageRequest(to_observations(changes, None), FetchOptions(sync_run.earliest()))
        fetched_page = await isolation.fetch_page(sync_run, request)
        await commit_page(sync_run, fetched_page, CursorUpdates())


async def follow_feed(sync_run: SyncRun, scope: str) -> None:
    """Read one feed to its end. A removed scope has no feed."""
    if sync_run.cursor(CursorKind.LIVE, scope) is not None:
        await _follow_feeds(sync_run, [scope])


async def _follow_feeds(sync_run: SyncRun, scopes: Sequence[str]) -> None:
    """Read all these feeds to their end, in rounds: one page of each feed, one transaction per round."""
    values: dict[str, str | None] = {}
    for scope in scopes:
        cursor = sync_run.cursor(CursorKind.LIVE, scope)
        values[scope] = cursor.value if cursor else None
    while values:
        results = await asyncio.gather(
            *(_load_page(sync_run, scope, value) for scope, value in values.items())
        )
        pages = {
            scope: page for scope, page in zip(values, results, strict=True) if isinstance(page, ChangePage)
        }
        await _commit_pages(sync_run, pages)
        for scope, result in zip(values, results, strict=True):
            if isinstance(result, CursorExpired):
                await _restart_scope(sync_run, scope)
            elif isinstance(result, NotFound):
                await folder_tree.handle_gone_scope(sync_run, scope)
        values = {scope: page.cursor for scope, page in pages.items() if page.has_more}


async def _load_page(
    sync_run: SyncRun, scope: str, value: str | None
) -> ChangePage | CursorExpired | NotFound:
    if value is None:  # `sync_requests` takes the value away to request a full sync
        return CursorExpired("A full listing was requested.")
    try:
        return await sync_run.remote.list_changes(scope, value)
    except (CursorExpired, NotFound) as error:
        return error


async def _commit_pages(sync_run: SyncRun, pages: dict[str, ChangePage]) -> None:
    """Commit a round. A resync does not settle what a feed names, because its listing may lack it."""
    if not pages:
        return
    observations = [each for scope, page in pages.items() for each in to_observations(page.changes, scope)]
    advances = [CursorAdvance(CursorKind.LIVE, scope, page.cursor) for scope, page in pages.items()]
    if not observations and not sync_run.listings() and not any(page.has_more for page in pages.values()):
        sync_run.unwritten += advances  # a sweep that finds nothing commits once, when it finishes
        return
    request = PageRequest(observations, FetchOptions(sync_run.earliest()))
    fetched_page = await isolation.fetch_page(sync_run, request)
    listed = [
        (scope, [change.key for change in page.changes if change.presence is Presence.PRESENT])
        for scope, page in pages.items()
        if sync_run.cursor(CursorKind.RESYNC, scope) is not None
    ]
    await commit_page(sync_run, fetched_page, CursorUpdates(advances, listed=listed))


async def _restart_scope(sync_run: SyncRun, scope: str) -> None:
    starts = await cursor_planning.restart_scope(sync_run, scope)
    deletes = [] if any(each.kind is CursorKind.LIVE for each in starts) else [(CursorKind.LIVE, scope)]
    await commit_page(sync_run, FetchedPage(), CursorUpdates(starts=starts, deletes=deletes))


async def retry_failures(sync_run: SyncRun) -> None:
    """Retry messages and attachments whose failures are due."""
    async with sync_run.context.database.transaction(sync_run.organization) as connection:
        due = await failures.list_due(connection, sync_run.id, limit=MAX_RETRIES)
        keys = {each.message for each in due}
        stored = await messages.find_by_keys(connection, sync_run.id, keys)
    if not due:
        return
    observations = [Observation(MessageChange(key, Presence.PRESENT), certain=True) for key in sorted(keys)]
    sync_run.suspects |= sync_run.parked & keys
    sync_run.parked -= keys

    def plan_attempts(fetched_page: FetchedPage, messages: Collection[str]) -> None:
        fetched_page.retried = [each for each in due if each.message in messages]
        _plan_next_attempts(fetched_page, {key for key, row in stored.items() if row.is_mirrored})

    options = FetchOptions(sync_run.earliest(), refetch_known=True)
    request = PageRequest(observations, options, rewrites=True, change=plan_attempts)
    fetched_page = await isolation.fetch_page(sync_run, request)
    await commit_page(sync_run, fetched_page, CursorUpdates(), rewrites=True)


def _plan_next_attempts(fetched_page: FetchedPage, stored: set[str]) -> None:
    """Set the next attempt of what failed again. What is not set again counts as resolved.

    A message that a scope lists and that cannot be read stays a failure: only its feed or a complete listing
    may say that it is gone. If no scope lists it any longer and it is stored, it was deleted. If only a push
    announced it, its feed names it as soon as it exists, so a few attempts are enough.
    """
    unreadable = fetched_page.unreadable
    again = [
        replace(
            each,
            scope=None,
            wait=None if each.wait is None else get_retry_wait(fetched_page.attempts(each.message)),
        )
        for each in fetched_page.failures
        if each.message not in unreadable
    ]
    for due in fetched_page.retried:
        if due.message not in unreadable:
            continue
        if due.is_listed or (due.message not in stored and due.attempts < ANNOUNCED_ATTEMPTS):
            again.append(Failure(due.kind, due.subject, UNREADABLE, get_unreadable_wait(due.attempts)))
        elif due.message in stored:
            deletion = MessageChange(due.message, Presence.DELETED)
            fetched_page.changes.append(Observation(deletion, certain=True))
    fetched_page.failures = again
