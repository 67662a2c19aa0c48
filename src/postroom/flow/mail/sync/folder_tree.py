"""Follow the folder tree: list new folders, and look up the messages of removed ones."""

from datetime import timedelta
from typing import Final

from postroom.flow.mail.sync.sync_run import SyncRun, days_before, get_earliest_since
from postroom.store import cursors, folders, work
from postroom.store.cursors import CursorKind, CursorStart

FRESH_SHARE: Final = 0.8  # of the sweep interval


def is_stale(sync_run: SyncRun, kind: CursorKind, scope: str = "") -> bool:
    """Whether it was not read for about one sweep interval."""
    found = sync_run.cursor(kind, scope)
    age = timedelta(seconds=FRESH_SHARE * sync_run.context.sweep_seconds[sync_run.mailbox.provider])
    return found is None or found.updated_at < sync_run.now - age


async def refresh_folders(sync_run: SyncRun) -> None:
    """Read the folder tree; start cursors for new folders and drop those of removed ones."""
    remote = await sync_run.remote.list_folders()
    async with work.fenced_transaction(sync_run.context.database, sync_run.lease) as connection:
        rows = await folders.reconcile(connection, sync_run.id, remote)
        await cursors.start(connection, sync_run.id, [CursorStart(CursorKind.FOLDERS, "")])
    sync_run.folders = {row.key: row for row in rows}
    wanted = sync_run.scopes()
    begins = [
        begin
        for scope in wanted
        if sync_run.cursor(CursorKind.BACKFILL, scope) is None
        for begin in await _start_scope(sync_run, scope)
    ]
    gone = [
        (c.kind, c.scope)
        for c in sync_run.cursors.values()
        if _is_folder_cursor(c.kind) and c.scope not in wanted
    ]
    # Messages of a removed folder were moved with it or deleted: settling looks up each.
    begins += [
        CursorStart(CursorKind.RESYNC, scope, completed=True) for scope in {scope for _, scope in gone}
    ]
    async with work.fenced_transaction(sync_run.context.database, sync_run.lease) as connection:
        await cursors.delete(connection, sync_run.id, gone)
        await cursors.start(connection, sync_run.id, begins)
        found = await cursors.list_by_mailbox(connection, sync_run.id)
    sync_run.cursors = {(row.kind, row.scope): row for row in found}


async def handle_gone_scope(sync_run: SyncRun, scope: str) -> None:
    """Handle a change feed that is gone. If its folder still exists, leave it to the next sync."""
    await refresh_folders(sync_run)
    if scope in sync_run.scopes():
        sync_run.unreadable.add(scope)


def _is_folder_cursor(kind: CursorKind) -> bool:
    return kind in {CursorKind.LIVE, CursorKind.BACKFILL}


async def _start_scope(sync_run: SyncRun, scope: str) -> list[CursorStart]:
    """Take the live cursor before listing, so that no change is missed in between.

    Where the provider has none, the end of the listing yields it.
    """
    since = get_earliest_since(sync_run.of_kind(CursorKind.BACKFILL)) or days_before(
        sync_run.now, sync_run.context.backfill_days
    )
    pinned = await sync_run.remote.get_current_cursor(scope)
    listing = CursorStart(CursorKind.BACKFILL, scope, since=since)
    return [listing] if pinned is None else [CursorStart(CursorKind.LIVE, scope, pinned), listing]


async def restart_scope(sync_run: SyncRun, scope: str) -> list[CursorStart]:
    """Build the cursors for a full resync of a scope whose cursor expired.

    With a new live cursor, the backfill window is listed too, for mail that arrived meanwhile; without one,
    the resync lists it.
    """
    pinned = await sync_run.remote.get_current_cursor(scope)
    resync = CursorStart(CursorKind.RESYNC, scope)
    if pinned is None:
        return [resync]
    return [CursorStart(CursorKind.LIVE, scope, pinned), CursorStart(CursorKind.BACKFILL, scope), resync]
