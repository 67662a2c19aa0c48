"""Plan the cursors of a scope: to start it, or to list it again; and whether one is stale.

Asks the provider for its current cursor, but writes nothing.
"""

from datetime import timedelta
from typing import Final

from postroom.flow.mail.sync.sync_run import SyncRun, days_before, get_earliest_since
from postroom.store.cursors import CursorKind, CursorStart

FRESH_SHARE: Final = 0.8  # of the sweep interval
LABELS_SECONDS: Final = 3600.0  # between reads of the labels, where one feed covers all mail


def is_stale(sync_run: SyncRun, kind: CursorKind, scope: str = "") -> bool:
    """Whether a cursor was not read for about one sweep interval."""
    return _is_older(sync_run, kind, scope, _get_sweep_seconds(sync_run))


def is_tree_stale(sync_run: SyncRun) -> bool:
    """Whether the folder tree must be read again: with each sweep, because a new folder may have mail.

    Where one feed covers all mail, messages name new labels, so only renamed labels wait for the next read.
    """
    seconds = _get_sweep_seconds(sync_run)
    if sync_run.has_one_feed:
        seconds = max(seconds, LABELS_SECONDS)
    return _is_older(sync_run, CursorKind.FOLDERS, "", seconds)


def _get_sweep_seconds(sync_run: SyncRun) -> float:
    return sync_run.context.sweep_seconds[sync_run.mailbox.provider]


def _is_older(sync_run: SyncRun, kind: CursorKind, scope: str, seconds: float) -> bool:
    cursor = sync_run.cursor(kind, scope)
    age = timedelta(seconds=FRESH_SHARE * seconds)
    return cursor is None or cursor.updated_at < sync_run.now - age


async def start_scope(sync_run: SyncRun, scope: str) -> list[CursorStart]:
    """Plan the first cursors of a scope.

    The first window counts from the connection of the mailbox, however late its first sync is. The live
    cursor is taken before listing, so that no change is missed. Where the provider has no live cursor yet,
    the end of the listing yields it.
    """
    since = get_earliest_since(sync_run.of_kind(CursorKind.BACKFILL)) or days_before(
        sync_run.mailbox.connected_at, sync_run.context.backfill_days
    )
    live_cursor = await sync_run.remote.get_current_cursor(scope)
    backfill = CursorStart(CursorKind.BACKFILL, scope, since=since)
    return [backfill] if live_cursor is None else [CursorStart(CursorKind.LIVE, scope, live_cursor), backfill]


async def restart_scope(sync_run: SyncRun, scope: str) -> list[CursorStart]:
    """Plan the cursors for a full resync of a scope whose cursor expired.

    With a new live cursor, the backfill window is listed too, for mail that arrived meanwhile; without one,
    the resync lists it.
    """
    live_cursor = await sync_run.remote.get_current_cursor(scope)
    resync = CursorStart(CursorKind.RESYNC, scope)
    if live_cursor is None:
        return [resync]
    return [CursorStart(CursorKind.LIVE, scope, live_cursor), CursorStart(CursorKind.BACKFILL, scope), resync]
