"""Refresh the folder tree of a mailbox when a page, a change feed or its age shows a change.

Starts cursors for new folders and drops those of removed ones. The cursors themselves are planned in
`cursor_planning`, and `sync_run` holds the tree.
"""

from collections.abc import Sequence
from dataclasses import replace

from postroom.flow.mail.sync import cursor_planning
from postroom.flow.mail.sync.page_fetch import FetchedPage, FetchOptions, Observation, fetch_page
from postroom.flow.mail.sync.sync_run import SyncRun
from postroom.model import RemoteFolder
from postroom.store import cursors, failures, folders, work
from postroom.store.cursors import CursorAdvance, CursorKind, CursorStart


async def refresh_folders(sync_run: SyncRun) -> None:
    """Read the folder tree; start cursors for new folders and drop those of removed ones.

    The tree counts as read once both are stored: a worker that dies in between leaves it to the next sync. A
    tree without changes is recorded with the next page, or with the finish.
    """
    remote = await sync_run.remote.list_folders()
    known = sync_run.cursor(CursorKind.FOLDERS, "")
    if known is not None and _is_unchanged(sync_run, remote):
        sync_run.unwritten.append(CursorAdvance(CursorKind.FOLDERS, "", ""))
        sync_run.cursors[known.kind, known.scope] = replace(known, updated_at=sync_run.now)
        return
    async with work.fenced_transaction(sync_run.context.database, sync_run.lease) as connection:
        rows = await folders.reconcile(connection, sync_run.id, remote)
        await cursors.delete(connection, sync_run.id, [(CursorKind.FOLDERS, "")])
    sync_run.folders = {row.key: row for row in rows}
    wanted = sync_run.scopes()
    starts = [
        start
        for scope in wanted
        if sync_run.cursor(CursorKind.BACKFILL, scope) is None
        for start in await cursor_planning.start_scope(sync_run, scope)
    ]
    gone = [
        (c.kind, c.scope)
        for c in sync_run.cursors.values()
        if _is_folder_cursor(c.kind) and c.scope not in wanted
    ]
    # Messages of a removed folder were moved with it or deleted: settling looks up each.
    starts += [
        CursorStart(CursorKind.RESYNC, scope, completed=True) for scope in {scope for _, scope in gone}
    ]
    async with work.fenced_transaction(sync_run.context.database, sync_run.lease) as connection:
        for scope in {scope for _, scope in gone}:
            await failures.settle_unlisted(connection, sync_run.id, scope)
        await cursors.delete(connection, sync_run.id, gone)
        await cursors.start(connection, sync_run.id, [CursorStart(CursorKind.FOLDERS, ""), *starts])
        found = await cursors.list_by_mailbox(connection, sync_run.id)
    sync_run.cursors = {(row.kind, row.scope): row for row in found}


def _is_unchanged(sync_run: SyncRun, remote: Sequence[RemoteFolder]) -> bool:
    """Whether the stored tree is the provider's, with the cursors that its folders need and no others."""
    stored = {
        RemoteFolder(folder.key, folder.name, folder.parent, folder.role, folder.scope)
        for folder in sync_run.folders.values()
        if not folder.deleted
    }
    if stored != set(remote):
        return False
    scopes = set(sync_run.scopes())
    started = {cursor.scope for cursor in sync_run.of_kind(CursorKind.BACKFILL)}
    return started == scopes >= {cursor.scope for cursor in sync_run.of_kind(CursorKind.LIVE)}


async def handle_gone_scope(sync_run: SyncRun, scope: str) -> None:
    """Handle a change feed that is gone. If its folder still exists, leave it to the next sync."""
    await refresh_folders(sync_run)
    if scope in sync_run.scopes():
        sync_run.unreadable.add(scope)


async def fetch_with_known_folders(
    sync_run: SyncRun, observations: Sequence[Observation], options: FetchOptions
) -> FetchedPage:
    """Fetch a page whose folders and labels are known when it is committed."""
    fetched_page = await fetch_page(sync_run, observations, options)
    await ensure_known_folders(sync_run, fetched_page)
    return fetched_page


async def ensure_known_folders(sync_run: SyncRun, fetched_page: FetchedPage) -> None:
    """Refresh the folder tree if a page names an unknown folder or label.

    Screening needs the names of both. A label that the provider does not list is looked for once in a run.
    """
    labels = fetched_page.labels() - sync_run.unlisted_labels
    if _list_unknown(sync_run, fetched_page.folders() | labels):
        await refresh_folders(sync_run)
        sync_run.unlisted_labels |= _list_unknown(sync_run, labels)


def _list_unknown(sync_run: SyncRun, keys: set[str]) -> set[str]:
    return keys - {folder.key for folder in sync_run.folders.values() if not folder.deleted}


def _is_folder_cursor(kind: CursorKind) -> bool:
    return kind in {CursorKind.LIVE, CursorKind.BACKFILL}
