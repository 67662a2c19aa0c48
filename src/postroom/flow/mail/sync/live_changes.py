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
from postroom.flow.mail.sync.page_commit import Passing, commit
from postroom.flow.mail.sync.page_fetch import (
    EARLY_WAITS,
    Gathered,
    Manner,
    Told,
    gather,
    next_wait,
    observed,
)
from postroom.flow.mail.sync.sync_run import SyncRun
from postroom.model import Change, Page, Presence
from postroom.store import failures, mailboxes, messages, notifications, work
from postroom.store.cursors import CursorKind, Move
from postroom.store.failures import Due, Failure
from postroom.store.notifications import Hints

OVERLAP: Final = timedelta(minutes=10)  # what was received so long before the newest that is stored
RETRIES: Final = 50


async def run(reading: SyncRun) -> None:
    """Read what is new: by the hints where they are complete, else everywhere."""
    hints = await _hints(reading)
    if folder_tree.is_stale(reading, CursorKind.FOLDERS):
        await folder_tree.follow(reading)
    scopes = _live(reading)
    narrow = bool(hints.message_ids) and hints.complete
    if hints.message_ids:
        near, sure = await _by_hint(reading, hints)
        if narrow and sure:
            scopes = [scope for scope in scopes if scope in near or _is_overdue(reading, scope)]
    await _recent(reading)
    await _follow(reading, scopes)
    if hints != notifications.NO_HINTS:
        async with work.fenced(reading.parts.database, reading.lease) as connection:
            await notifications.forget(connection, reading.id, hints)


async def _hints(reading: SyncRun) -> Hints:
    async with reading.parts.database.transaction(reading.organization) as connection:
        standing = await mailboxes.standing(connection, reading.id, reading.lease.id)
        if standing is not None:
            reading.answered = reading.generation = standing.generation
            reading.second_look_at = _second_look(reading, standing.woken_seconds)
        return await notifications.hints(connection, reading.id)


def _second_look(reading: SyncRun, woken_seconds: float | None) -> float | None:
    """Of what this look comes too early for, nobody may tell."""
    apart = reading.remote.pushes_apart_seconds
    if woken_seconds is None or woken_seconds >= apart:
        return None
    return time.monotonic() + apart - woken_seconds


def _live(reading: SyncRun) -> list[str]:
    there = [scope for scope in reading.scopes() if reading.cursor(CursorKind.LIVE, scope)]
    return [scope for scope in there if scope not in reading.unreadable]


def _is_overdue(reading: SyncRun, scope: str) -> bool:
    """Not read for long, or to be listed anew since somebody asked for that."""
    cursor = reading.cursor(CursorKind.LIVE, scope)
    return cursor is None or cursor.value is None or folder_tree.is_stale(reading, CursorKind.LIVE, scope)


async def _by_hint(reading: SyncRun, hints: Hints) -> tuple[set[str | None], bool]:
    """The scopes near the messages that pushes named, and whether every one of them was found."""
    told = [Told(Change(key, Presence.HERE)) for key in sorted(hints.message_ids)]
    async with reading.parts.database.transaction(reading.organization) as connection:
        before = await messages.known(connection, reading.id, hints.message_ids)
    gathered = await gathered_in_known_folders(reading, told, Manner(reading.earliest(), looks_at_bare=True))
    early = [key for key in gathered.gone if key not in before]
    gathered.failures += [
        Failure("message", key, "It was told of and could not be read yet.", EARLY_WAITS[0]) for key in early
    ]
    await commit(reading, gathered, Passing())
    keys = gathered.folders() | {row.folder for row in before.values() if row.folder}
    return {reading.folders[key].scope for key in keys if key in reading.folders}, not early


async def gathered_in_known_folders(reading: SyncRun, told: Sequence[Told], manner: Manner) -> Gathered:
    """A page whose folders are all known: the tree is read again where one is new."""
    gathered = await gather(reading, told, manner)
    if not are_known(reading, gathered):
        await folder_tree.follow(reading)
    return gathered


def are_known(reading: SyncRun, gathered: Gathered) -> bool:
    """Whether the folders of a page are."""
    return all(key in reading.folders and not reading.folders[key].deleted for key in gathered.folders())


async def _recent(reading: SyncRun) -> None:
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
    changes = [each async for page in reading.remote.recent(since) for each in page]
    if changes:
        gathered = await gathered_in_known_folders(reading, observed(changes, ""), Manner(reading.earliest()))
        await commit(reading, gathered, Passing())


async def _follow(reading: SyncRun, scopes: Sequence[str]) -> None:
    """The pages of all these feeds, as many rounds as the longest has: one round, one transaction."""
    values: dict[str, str | None] = {}
    for scope in scopes:
        cursor = reading.cursor(CursorKind.LIVE, scope)
        values[scope] = cursor.value if cursor else None
    while values:
        answers = await asyncio.gather(*(_page(reading, scope, value) for scope, value in values.items()))
        pages = {scope: page for scope, page in zip(values, answers, strict=True) if isinstance(page, Page)}
        await _take(reading, pages)
        for scope, answer in zip(values, answers, strict=True):
            if isinstance(answer, CursorExpired):
                await _expire(reading, scope)
            elif isinstance(answer, NotFound):
                await folder_tree.vanished(reading, scope)
        values = {scope: page.cursor for scope, page in pages.items() if page.more}


async def _page(reading: SyncRun, scope: str, value: str | None) -> Page | CursorExpired | NotFound:
    if value is None:
        return CursorExpired("It was asked that all be listed anew.")
    try:
        return await reading.remote.changes(scope, value)
    except (CursorExpired, NotFound) as error:
        return error


async def _take(reading: SyncRun, pages: dict[str, Page]) -> None:
    if not pages:
        return
    told = [each for scope, page in pages.items() for each in observed(page.changes, scope)]
    gathered = await gathered_in_known_folders(reading, told, Manner(reading.earliest()))
    moves = [Move(CursorKind.LIVE, scope, page.cursor) for scope, page in pages.items()]
    await commit(reading, gathered, Passing(moves))


async def _expire(reading: SyncRun, scope: str) -> None:
    begins = await folder_tree.expired(reading, scope)
    drops = [] if any(each.kind is CursorKind.LIVE for each in begins) else [(CursorKind.LIVE, scope)]
    await commit(reading, Gathered(), Passing(begins=begins, drops=drops))


async def retry(reading: SyncRun) -> None:
    """What failed alone, and is due to be tried again."""
    async with reading.parts.database.transaction(reading.organization) as connection:
        due = await failures.due(connection, reading.id, limit=RETRIES)
        keys = {each.message for each in due}
        stored = await messages.known(connection, reading.id, keys)
    if not due:
        return
    told = [Told(Change(key, Presence.HERE), certain=True) for key in sorted(keys)]
    gathered = await gathered_in_known_folders(reading, told, Manner(reading.earliest(), refetches=True))
    gathered.retried = due
    gathered.failures = [_longer(each, gathered) for each in gathered.failures]
    gathered.failures += [
        _early(each) for each in due if each.subject not in stored and _is_early(each, gathered)
    ]
    await commit(reading, gathered, Passing(), rewrites=True)


def _longer(failure: Failure, gathered: Gathered) -> Failure:
    return replace(failure, wait=next_wait(gathered.attempts(failure.message)))


def _is_early(due: Due, gathered: Gathered) -> bool:
    """Told of and not there: given some time, and then taken to be gone."""
    return due.subject in gathered.gone and due.attempts < len(EARLY_WAITS)


def _early(due: Due) -> Failure:
    return Failure(due.kind, due.subject, "It was told of and cannot be read.", EARLY_WAITS[due.attempts])
