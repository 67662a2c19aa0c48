"""Requests for a mailbox's sync by a person: one now, a full one, or a longer backfill.

They reset cursors and enqueue the work, in the caller's transaction; `sync_step` runs it.
"""

from postroom.errors import PermanentError
from postroom.flow.mail.sync.sync_run import days_before
from postroom.model import MailboxId, OrganizationId, WorkKind
from postroom.store import cursors, failures, ledger, subscriptions, work
from postroom.store.connection import Connection
from postroom.store.cursors import CursorKind, CursorStart
from postroom.store.ledger import NewLedgerEntry
from postroom.store.work import WorkRequest


async def request_sync(
    connection: Connection,
    organization: OrganizationId,
    mailbox: MailboxId,
    *,
    full: bool = False,
    actor: str | None = None,
) -> None:
    """Enqueue a sync to run at once. A full one lists everything again and marks what is gone.

    Both read the folder tree: no change feed reports a renamed folder.
    """
    await work.block_commits(connection, WorkKind.SYNC, str(mailbox))
    await cursors.delete(connection, mailbox, [(CursorKind.FOLDERS, "")])
    if full:
        await _expire_cursors(connection, mailbox)
        await failures.retry_all(connection, mailbox)
    await ledger.append_entries(
        connection,
        organization,
        [NewLedgerEntry("SYNC_REQUESTED", "mailbox", str(mailbox), actor, {"full": full})],
    )
    await work.restart(connection, [WorkRequest(organization, WorkKind.SYNC, str(mailbox))])


async def _expire_cursors(connection: Connection, mailbox: MailboxId) -> None:
    """Make the next sync list everything again.

    A cursor without a value counts as expired. A running first listing becomes a full resync.
    """
    rows = await cursors.list_by_mailbox(connection, mailbox)
    live = {row.scope for row in rows if row.kind is CursorKind.LIVE}
    listing = {row.scope for row in rows if _is_backfill(row)} - live
    starts = [CursorStart(CursorKind.LIVE, scope) for scope in live]
    starts += [CursorStart(CursorKind.BACKFILL, scope, completed=True) for scope in listing]
    starts += [CursorStart(CursorKind.RESYNC, scope) for scope in listing]
    await cursors.start(connection, mailbox, starts)


async def extend_backfill(
    connection: Connection, organization: OrganizationId, mailbox: MailboxId, *, days: float
) -> bool:
    """Mirror mail from this many days back. False if the backfill already reaches that far."""
    await work.block_commits(connection, WorkKind.SYNC, str(mailbox))
    rows = [row for row in await cursors.list_by_mailbox(connection, mailbox) if _is_backfill(row)]
    if not rows:
        raise PermanentError("This mailbox has not been synced yet. Run `postroom sync` for it first.")
    since = days_before(await subscriptions.read_clock(connection), days)
    later = [row.scope for row in rows if row.since is None or row.since > since]
    if not later:
        return False
    starts = [CursorStart(CursorKind.BACKFILL, scope, since=since) for scope in later]
    await cursors.start(connection, mailbox, starts)
    await work.restart(connection, [WorkRequest(organization, WorkKind.SYNC, str(mailbox))])
    return True


def _is_backfill(row: cursors.Cursor) -> bool:
    return row.kind is CursorKind.BACKFILL
