"""One step of the work `sync`: bring a mailbox up to date, or run a slice of a long listing.

Loads the run, decides when the next one is due, and records errors. Mail is read by `live_changes` and
`listing`.
"""

import random
import time
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Final
from uuid import UUID

from postroom.errors import InvalidGrant, PermanentError, TransientError
from postroom.flow.mail.sync import listing, live_changes
from postroom.flow.mail.sync.page_commit import build_started_entry
from postroom.flow.mail.sync.sync_run import SyncContext, SyncRun
from postroom.flow.mailboxes import mailbox_health, subscribe
from postroom.logs import Log
from postroom.model import MailboxHealth, MailboxId
from postroom.store import (
    cursors,
    failures,
    folders,
    ledger,
    mailboxes,
    messages,
    quota_usage,
    subscriptions,
    work,
)
from postroom.store.connection import Connection
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.work import FinishedWork, Lease

log = Log()

# A denied mailbox may become accessible: a license, a policy or a permission changes.
REFUSED_SECONDS: Final = 3600.0
FOLDERS_SKIPPED: Final = "Some folders could not be read and will be retried. The others were synced."
# After so many lost leases in a row without a committed page, the mailbox itself must crash its workers.
MAX_LOST_LEASES: Final = 10


async def run(context: SyncContext, lease: Lease) -> None:
    """Sync one mailbox. The last commit also finishes the lease.

    A paused or disconnected mailbox, or one without a grant, leaves no work behind: a resume or a reconnect
    enqueues it again.
    """
    async with context.database.transaction(lease.organization) as connection:
        mailbox = await mailboxes.get(connection, MailboxId(UUID(lease.subject)))
    if mailbox is None or not is_syncable(mailbox):
        await _finish_early(context, lease)
        return
    try:
        _check_lost_leases(lease)
        await _sync_mailbox(context, lease, mailbox)
    except InvalidGrant as error:
        await _finish_early(context, lease, mailbox, MailboxHealth.TOKEN_REFRESH_FAILED, error)
    except PermanentError as error:
        await _finish_early(
            context, lease, mailbox, MailboxHealth.PROVIDER_ERROR, error, again_after=REFUSED_SECONDS
        )
    except TransientError as error:
        await _record_transient_error(context, lease, mailbox, error)
        raise


def _check_lost_leases(lease: Lease) -> None:
    if lease.lost_leases >= MAX_LOST_LEASES:
        raise PermanentError(
            "The worker crashed at every attempt to sync this mailbox. See the worker's output."
        )


def is_syncable(mailbox: Mailbox) -> bool:
    lost = mailbox.health is MailboxHealth.TOKEN_REFRESH_FAILED
    return not (lost or mailbox.paused_at or mailbox.disconnected_at)


async def _sync_mailbox(context: SyncContext, lease: Lease, mailbox: Mailbox) -> None:
    sync_run = await _load_run(context, lease, mailbox)
    await live_changes.run(sync_run)
    await live_changes.retry_failures(sync_run)
    await listing.run(sync_run, seconds=context.slice_seconds)
    await _finish_run(sync_run)


async def _load_run(context: SyncContext, lease: Lease, mailbox: Mailbox) -> SyncRun:
    async with context.database.transaction(lease.organization) as connection:
        now = await subscriptions.read_clock(connection)
        tree = await folders.list_all(connection, mailbox.id)
        rows = await cursors.list_by_mailbox(connection, mailbox.id)
    sync_run = SyncRun(context, lease, mailbox, context.remote(mailbox), now)
    sync_run.folders = {folder.key: folder for folder in tree}
    sync_run.cursors = {(row.kind, row.scope): row for row in rows}
    return sync_run


async def _finish_run(sync_run: SyncRun) -> None:
    context, lease, did = sync_run.context, sync_run.lease, sync_run.counts
    async with work.fenced_transaction(context.database, lease) as connection:
        await mailboxes.record_sync(
            connection, sync_run.id, error=FOLDERS_SKIPPED if sync_run.unreadable else None
        )
        await quota_usage.record_share(connection, sync_run.id, sync_run.remote.quota_used())
        if did.has_changes:
            entries = [] if sync_run.start_recorded else [build_started_entry(sync_run)]
            await ledger.append_entries(
                connection, sync_run.organization, [*entries, _build_completed_entry(sync_run)]
            )
        await _check_push_silence(sync_run, connection)
        failing = await failures.get_next_due_seconds(connection, sync_run.id)
        again = _seconds_until_next_run(sync_run, failing)
        seen = replace(lease, generation=max(lease.generation, sync_run.handled_generation))
        await work.finish(connection, [FinishedWork(seen, again)])
    log.info(
        "sync.completed",
        mailbox=sync_run.id,
        count=did.messages,
        state="listing" if again == 0 else "current",
    )


async def _check_push_silence(sync_run: SyncRun, connection: Connection) -> None:
    """Replace the subscription if new mail arrived a while ago and no push has come since."""
    patience = sync_run.now - timedelta(seconds=subscribe.SILENCE_SECONDS)
    notified = sync_run.mailbox.last_notified_at
    if notified is not None and notified > patience:
        return
    changed_at = await messages.get_newest_received_at(connection, sync_run.id, before=patience)
    if changed_at is not None:
        await subscribe.replace_silent_subscription(
            connection, sync_run.organization, sync_run.id, changed_at=changed_at
        )


def _build_completed_entry(sync_run: SyncRun) -> NewLedgerEntry:
    did = asdict(sync_run.counts)
    payload = {
        "threads_synced": did["threads"],
        "messages_synced": did["messages"],
        "attachments_saved": did["attachments"],
        "events": did["events"],
        "errors": did["errors"],
    }
    return NewLedgerEntry("SYNC_COMPLETED", "mailbox", str(sync_run.id), payload=payload)


def _seconds_until_next_run(sync_run: SyncRun, failing: float | None) -> float:
    """The seconds until the next run: 0 while a listing is unfinished.

    Otherwise until the next retry, the second look, or the next sweep, which jitter spreads out.
    """
    if sync_run.listings():
        return 0.0
    waits = [sync_run.context.sweep_seconds[sync_run.mailbox.provider] * random.uniform(0.9, 1)]
    if failing is not None:
        waits.append(failing)
    if sync_run.second_look_at is not None:
        waits.append(sync_run.second_look_at - time.monotonic())
    return max(min(waits), 0.0)


async def _finish_early(
    context: SyncContext,
    lease: Lease,
    mailbox: Mailbox | None = None,
    health: MailboxHealth | None = None,
    error: PermanentError | None = None,
    *,
    again_after: float | None = None,
) -> None:
    async with work.fenced_transaction(context.database, lease) as connection:
        if mailbox is not None and health is not None and error is not None:
            await mailbox_health.record_failure(connection, mailbox, health, error)
        await work.finish(connection, [FinishedWork(lease, again_after)])


async def _record_transient_error(
    context: SyncContext, lease: Lease, mailbox: Mailbox, error: TransientError
) -> None:
    """Show a transient error on the mailbox. Its health stays active."""
    async with work.fenced_transaction(context.database, lease) as connection:
        await quota_usage.record_share(connection, mailbox.id, context.remote(mailbox).quota_used())
        now = await mailboxes.get(connection, mailbox.id)
        if now is not None and now.health is MailboxHealth.ACTIVE:
            await mailboxes.set_health(connection, mailbox.id, MailboxHealth.ACTIVE, error=str(error))
