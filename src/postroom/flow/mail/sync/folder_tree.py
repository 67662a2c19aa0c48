"""The folder tree is followed: new folders are listed, and what lay in those that are gone is looked for."""

from datetime import timedelta
from typing import Final

from postroom.flow.mail.sync.sync_run import SyncRun, days_before, get_earliest_since
from postroom.store import cursors, folders, work
from postroom.store.cursors import Begin, CursorKind

FRESH_SHARE: Final = 0.8  # of the time between two sweeps


def is_stale(reading: SyncRun, kind: CursorKind, scope: str = "") -> bool:
    """Whether this was not read for about as long as sweeps are apart."""
    found = reading.cursor(kind, scope)
    age = timedelta(seconds=FRESH_SHARE * reading.parts.sweep_seconds[reading.mailbox.provider])
    return found is None or found.updated_at < reading.now - age


async def refresh_folders(reading: SyncRun) -> None:
    """Read the tree, and start and end what reads its folders."""
    remote = await reading.remote.list_folders()
    async with work.fenced(reading.parts.database, reading.lease) as connection:
        rows = await folders.settle(connection, reading.id, remote)
        await cursors.begin(connection, reading.id, [Begin(CursorKind.FOLDERS, "")])
    reading.folders = {row.key: row for row in rows}
    wanted = reading.scopes()
    begins = [
        begin
        for scope in wanted
        if reading.cursor(CursorKind.BACKFILL, scope) is None
        for begin in await _start_scope(reading, scope)
    ]
    gone = [
        (c.kind, c.scope)
        for c in reading.cursors.values()
        if _is_folder_cursor(c.kind) and c.scope not in wanted
    ]
    # What lay in a folder that is gone was moved with it, or deleted: a look at each tells.
    begins += [Begin(CursorKind.RESYNC, scope, completed=True) for scope in {scope for _, scope in gone}]
    async with work.fenced(reading.parts.database, reading.lease) as connection:
        await cursors.drop(connection, reading.id, gone)
        await cursors.begin(connection, reading.id, begins)
        found = await cursors.of_mailbox(connection, reading.id)
    reading.cursors = {(row.kind, row.scope): row for row in found}


async def handle_gone_scope(reading: SyncRun, scope: str) -> None:
    """A feed is gone, and as a rule its folder is; one that is still there is left to the next sync."""
    await refresh_folders(reading)
    if scope in reading.scopes():
        reading.unreadable.add(scope)


def _is_folder_cursor(kind: CursorKind) -> bool:
    return kind in {CursorKind.LIVE, CursorKind.BACKFILL}


async def _start_scope(reading: SyncRun, scope: str) -> list[Begin]:
    """Pinned before it is listed, so that nothing falls in between; else the listing's end is the pin."""
    since = get_earliest_since(reading.of_kind(CursorKind.BACKFILL)) or days_before(
        reading.now, reading.parts.backfill_days
    )
    pinned = await reading.remote.get_current_cursor(scope)
    listing = Begin(CursorKind.BACKFILL, scope, since=since)
    return [listing] if pinned is None else [Begin(CursorKind.LIVE, scope, pinned), listing]


async def restart_scope(reading: SyncRun, scope: str) -> list[Begin]:
    """What follows when a scope's cursor is good no more: all of it is listed anew (Y4).

    With a pinned cursor the window is listed too, for what came meanwhile; else the listing shows it.
    """
    pinned = await reading.remote.get_current_cursor(scope)
    resync = Begin(CursorKind.RESYNC, scope)
    if pinned is None:
        return [resync]
    return [Begin(CursorKind.LIVE, scope, pinned), Begin(CursorKind.BACKFILL, scope), resync]
