"""Live changes: what a push named is fetched first, then the feeds say what else changed.

A push only narrows where to look: its messages, and the feeds of the folders they lie or lay in. Feeds that
were not read since the last sweep are read with them, so a mailbox that is pushed to all day is swept too.
Where the provider drops pushes that come too close together, a second look follows the last one.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from postroom.errors import CursorExpired, NotFound
from postroom.flow.mail.sync import folder_tree
from postroom.flow.mail.sync.page_commit import CursorUpdates, commit_page
from postroom.flow.mail.sync.page_fetch import (
    UNREADABLE_WAITS,
    FetchedPage,
    FetchOptions,
    Observation,
    fetch_page,
    get_retry_wait,
    to_observations,
)
from postroom.flow.mail.sync.sync_run import SyncRun
from postroom.model import ChangePage, MessageChange, Presence
from postroom.store import failures, mailboxes, messages, notifications, work
from postroom.store.cursors import CursorKind, Move
from postroom.store.failures import Due, Failure
from postroom.store.notifications import Hints

OVERLAP: Final = timedelta(minutes=10)  # what was received so long before the newest that is stored
MAX_RETRIES: Final = 50


async def run(reading: SyncRun) -> None:
    """Read what is new: by the hints where they are complete, else everywhere."""
    hints = await _load_hints(reading)
    if folder_tree.is_stale(reading, CursorKind.FOLDERS):
        await folder_tree.refresh_folders(reading)
    scopes = _list_live_scopes(reading)
    narrow = bool(hints.message_ids) and hints.complete
    if hints.message_ids:
        near, sure = await _fetch_hinted(reading, hints)
        if narrow and sure:
            scopes = [scope for scope in scopes if scope in near or _is_overdue(reading, scope)]
    await _fetch_recent(reading)
    await _follow_feeds(reading, scopes)
    if hints != notifications.NO_HINTS:
        async with work.fenced(reading.parts.database, reading.lease) as connection:
            await notifications.forget(connection, reading.id, hints)


async def _load_hints(reading: SyncRun) -> Hints:
    async with reading.parts.database.transaction(reading.organization) as connection:
        standing = await mailboxes.standing(connection, reading.id, reading.lease.id)
        if standing is not None:
            reading.answered = reading.generation = standing.generation
            reading.second_look_at = _schedule_second_look(reading, standing.woken_seconds)
        return await notifications.hints(connection, reading.id)


def _schedule_second_look(reading: SyncRun, woken_seconds: float | None) -> float | None:
    """Of what this look comes too early for, nobody may tell."""
    apart = reading.remote.push_interval_seconds
    if woken_seconds is None or woken_seconds >= apart:
        return None
    return time.monotonic() + apart - woken_seconds


def _list_live_scopes(reading: SyncRun) -> list[str]:
    there = [scope for scope in reading.scopes() if reading.cursor(CursorKind.LIVE, scope)]
    return [scope for scope in there if scope not in reading.unreadable]


def _is_overdue(reading: SyncRun, scope: str) -> bool:
    """Not read for long, or to be listed anew since somebody asked for that."""
    cursor = reading.cursor(CursorKind.LIVE, scope)
    return cursor is None or cursor.value is None or folder_tree.is_stale(reading, CursorKind.LIVE, scope)


async def _fetch_hinted(reading: SyncRun, hints: Hints) -> tuple[set[str | None], bool]:
    """The scopes near the messages that pushes named, and whether every one of them was found."""
    told = [Observation(MessageChange(key, Presence.PRESENT)) for key in sorted(hints.message_ids)]
    async with reading.parts.database.transaction(reading.organization) as connection:
        before = await messages.known(connection, reading.id, hints.message_ids)
    gathered = await fetch_with_known_folders(
        reading, told, FetchOptions(reading.earliest(), looks_at_bare=True)
    )
    early = [key for key in gathered.gone if key not in before]
    gathered.failures += [
        Failure("message", key, "It was told of and could not be read yet.", UNREADABLE_WAITS[0])
        for key in early
    ]
    await commit_page(reading, gathered, CursorUpdates())
    keys = gathered.folders() | {row.folder for row in before.values() if row.folder}
    return {reading.folders[key].scope for key in keys if key in reading.folders}, not early


async def fetch_with_known_folders(
    reading: SyncRun, told: Sequence[Observation], manner: FetchOptions
) -> FetchedPage:
    """A page whose folders are all known: the tree is read again where one is new."""
    gathered = await fetch_page(reading, told, manner)
    if not has_known_folders(reading, gathered):
        await folder_tree.refresh_folders(reading)
    return gathered


def has_known_folders(reading: SyncRun, gathered: FetchedPage) -> bool:
    """Whether the folders of a page are."""
    return all(key in reading.folders and not reading.folders[key].deleted for key in gathered.folders())


async def _fetch_recent(reading: SyncRun) -> None:
    """While a folder's first listing goes on, no feed tells of its new mail."""
    listing = [
        cursor.started_at
        for cursor in reading.of_kind(CursorKind.BACKFILL)
        if reading.cursor(CursorKind.LIVE, cursor.scope) is None
    ]
    if not listing:
        return
    async with reading.parts.database.transaction(reading.organization) as connection:
        newest = await messages.newest(connection, reading.id)
    since = max(min(listing), min(newest, reading.now) if newest else min(listing)) - OVERLAP
    # As one commit: after a part of it, the newest one would say that nothing is missing.
    changes = [each async for page in reading.remote.list_recent(since) for each in page]
    if changes:
        gathered = await fetch_with_known_folders(
            reading, to_observations(changes, ""), FetchOptions(reading.earliest())
        )
        await commit_page(reading, gathered, CursorUpdates())


async def _follow_feeds(reading: SyncRun, scopes: Sequence[str]) -> None:
    """The pages of all these feeds, as many rounds as the longest has: one round, one transaction."""
    values: dict[str, str | None] = {}
    for scope in scopes:
        cursor = reading.cursor(CursorKind.LIVE, scope)
        values[scope] = cursor.value if cursor else None
    while values:
        answers = await asyncio.gather(
            *(_load_page(reading, scope, value) for scope, value in values.items())
        )
        pages = {
            scope: page for scope, page in zip(values, answers, strict=True) if isinstance(page, ChangePage)
        }
        await _commit_pages(reading, pages)
        for scope, answer in zip(values, answers, strict=True):
            if isinstance(answer, CursorExpired):
                await _restart_expired(reading, scope)
            elif isinstance(answer, NotFound):
                await folder_tree.handle_gone_scope(reading, scope)
        values = {scope: page.cursor for scope, page in pages.items() if page.has_more}


async def _load_page(
    reading: SyncRun, scope: str, value: str | None
) -> ChangePage | CursorExpired | NotFound:
    if value is None:
        return CursorExpired("It was asked that all be listed anew.")
    try:
        return await reading.remote.list_changes(scope, value)
    except (CursorExpired, NotFound) as error:
        return error


async def _commit_pages(reading: SyncRun, pages: dict[str, ChangePage]) -> None:
    if not pages:
        return
    told = [each for scope, page in pages.items() for each in to_observations(page.changes, scope)]
    gathered = await fetch_with_known_folders(reading, told, FetchOptions(reading.earliest()))
    moves = [Move(CursorKind.LIVE, scope, page.cursor) for scope, page in pages.items()]
    await commit_page(reading, gathered, CursorUpdates(moves))


async def _restart_expired(reading: SyncRun, scope: str) -> None:
    begins = await folder_tree.restart_scope(reading, scope)
    drops = [] if any(each.kind is CursorKind.LIVE for each in begins) else [(CursorKind.LIVE, scope)]
    await commit_page(reading, FetchedPage(), CursorUpdates(begins=begins, drops=drops))


async def retry_failures(reading: SyncRun) -> None:
    """What failed alone, and is due to be tried again."""
    async with reading.parts.database.transaction(reading.organization) as connection:
        due = await failures.due(connection, reading.id, limit=MAX_RETRIES)
        keys = {each.message for each in due}
        stored = await messages.known(connection, reading.id, keys)
    if not due:
        return
    told = [Observation(MessageChange(key, Presence.PRESENT), certain=True) for key in sorted(keys)]
    gathered = await fetch_with_known_folders(reading, told, FetchOptions(reading.earliest(), refetches=True))
    gathered.retried = due
    gathered.failures = [_with_next_wait(each, gathered) for each in gathered.failures]
    gathered.failures += [
        _to_unreadable_failure(each)
        for each in due
        if each.subject not in stored and _is_not_readable_yet(each, gathered)
    ]
    await commit_page(reading, gathered, CursorUpdates(), rewrites=True)


def _with_next_wait(failure: Failure, gathered: FetchedPage) -> Failure:
    return replace(failure, wait=get_retry_wait(gathered.attempts(failure.message)))


def _is_not_readable_yet(due: Due, gathered: FetchedPage) -> bool:
    """Told of and not there: given some time, and then taken to be gone."""
    return due.subject in gathered.gone and due.attempts < len(UNREADABLE_WAITS)


def _to_unreadable_failure(due: Due) -> Failure:
    return Failure(
        due.kind, due.subject, "It was told of and cannot be read.", UNREADABLE_WAITS[due.attempts]
    )
