"""One step of the work `sync`: bring a mailbox up to date, or run a slice of a long listing.

Loads the run, decides when the next one is due, and records errors. Mail is read by `live_changes` and
`listing`.
"""

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from postroom.errors import DatabaseUnavailable, InvalidGrant, LeaseLost, PermanentError, TransientError
from postroom.flow.mail.sync import isolation, listing, live_changes
from postroom.flow.mail.sync.live_changes import LoadedHints
from postroom.flow.mail.sync.page_commit import build_started_entry
from postroom.flow.mail.sync.sync_run import SyncContext, SyncRun
from postroom.flow.mailboxes import mailbox_health, push_proof, push_silence
from postroom.flow.mailboxes.push_proof import SweepIntervals, SyncFindings
from postroom.flow.mailboxes.push_silence import PushCheck
from postroom.logs import Log
from postroom.model import HealthCause, MailboxId
from postroom.store import (
    cursors,
    failures,
    folders,
    ledger,
    mailboxes,
    quota_usage,
    subscriptions,
    suspect_messages,
    work,
)
from postroom.store import mailbox_health as stored_health
from postroom.store.connection import Connection
from postroom.store.cursors import Cursor
from postroom.store.folders import Folder
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.suspect_messages import SuspectMessage
from postroom.store.work import FinishedWork, Lease

log = Log()

# A denied mailbox may become accessible: a license, a policy or a permission changes.
REFUSED_SECONDS: Final = 3600.0
FOLDERS_SKIPPED: Final = "Some folders could not be read and will be retried. The others were synced."
# After this many lost leases in a row without a committed page, the mailbox itself must crash its workers.
MAX_LOST_LEASES: Final = 10
CRASHED: Final = PermanentError(
    "The worker crashed on every attempt to sync this mailbox. See the worker's output."
)


async def run(context: SyncContext, lease: Lease) -> None:
    """Sync one mailbox. The last commit also finishes the lease.

    A paused or disconnected mailbox, or one without a grant, leaves no work behind: a resume or a reconnect
    enqueues it again.
    """
    async with context.database.transaction(lease.organization) as connection:
        mailbox = await mailboxes.get(connection, MailboxId(UUID(lease.subject)))
        stored = await _load_state(connection, lease, mailbox) if mailbox and mailbox.can_sync else None
    if mailbox is None or stored is None:
        await _finish_early(context, lease)
        return
    if lease.lost_leases >= MAX_LOST_LEASES:
        await _finish_early(
            context, lease, mailbox, CRASHED, cause=HealthCause.INTERRUPTED, again_after=REFUSED_SECONDS
        )
        return
    sync_run: SyncRun | None = None
    try:
        sync_run = _build_run(context, lease, mailbox, stored)
        await isolation.park_suspects(sync_run, stored.suspects)
        await _sync_mailbox(sync_run, stored.hints)
    except InvalidGrant as error:
        await _finish_early(context, lease, mailbox, error)
    except PermanentError as error:
        await _finish_early(context, lease, mailbox, error, again_after=REFUSED_SECONDS)
    except (DatabaseUnavailable, LeaseLost):
        raise
    except Exception as error:
        await _record_failed_attempt(context, lease, mailbox, sync_run, error)
        raise


async def _sync_mailbox(sync_run: SyncRun, hints: LoadedHints) -> None:
    await live_changes.run(sync_run, hints)
    found_live = dict(sync_run.new_messages)
    if sync_run.has_open_failures or sync_run.counts.errors:
        await live_changes.retry_failures(sync_run)
    await listing.run(sync_run, seconds=sync_run.context.slice_seconds)
    await _finish_run(sync_run, found_live)


@dataclass(frozen=True, slots=True)
class _StoredState:
    """What a run reads before its first request to the provider, in one transaction."""

    now: datetime
    folders: Sequence[Folder]
    cursors: Sequence[Cursor]
    suspects: Sequence[SuspectMessage]
    hints: LoadedHints


async def _load_state(connection: Connection, lease: Lease, mailbox: Mailbox) -> _StoredState:
    async with connection.in_one_round_trip() as round_trip:
        now = round_trip.create_task(subscriptions.read_clock(connection))
        tree = round_trip.create_task(folders.list_all(connection, mailbox.id))
        rows = round_trip.create_task(cursors.list_by_mailbox(connection, mailbox.id))
        suspects = round_trip.create_task(suspect_messages.list_all(connection, mailbox.id))
        hints = round_trip.create_task(live_changes.load_hints(connection, mailbox.id, lease))
    return _StoredState(now.result(), tree.result(), rows.result(), suspects.result(), hints.result())


def _build_run(context: SyncContext, lease: Lease, mailbox: Mailbox, stored: _StoredState) -> SyncRun:
    sync_run = SyncRun(context, lease, mailbox, context.remote(mailbox), stored.now)
    sync_run.folders = {folder.key: folder for folder in stored.folders}
    sync_run.cursors = {(row.kind, row.scope): row for row in stored.cursors}
    return sync_run


async def _finish_run(sync_run: SyncRun, found_live: Mapping[str, datetime | None]) -> None:
    context, lease, did = sync_run.context, sync_run.lease, sync_run.counts
    async with work.fenced_transaction(context.database, lease) as connection:
        push_check = await _check_pushes(sync_run, connection, found_live)
        sweep = await _plan_sweep(sync_run, connection, push_check)
        await cursors.advance(connection, sync_run.id, sync_run.unwritten)
        await stored_health.record_sync(
            connection, sync_run.id, error=FOLDERS_SKIPPED if sync_run.unreadable else None
        )
        await quota_usage.record_share(connection, sync_run.id, sync_run.remote.quota_used())
        if did.has_changes:
            entries = [] if sync_run.start_recorded else [build_started_entry(sync_run)]
            await ledger.append_entries(
                connection, sync_run.organization, [*entries, _build_completed_entry(sync_run)]
            )
        failing = await failures.get_next_due_seconds(connection, sync_run.id)
        again = _seconds_until_next_run(sync_run, sweep, failing, push_check.next_in)
        seen = replace(lease, generation=max(lease.generation, sync_run.handled_generation))
        await work.finish(connection, [FinishedWork(seen, again)])
    log.info(
        "sync.completed",
        mailbox=sync_run.id,
        count=did.messages,
        state="listing" if again == 0 else "current",
    )


async def _check_pushes(
    sync_run: SyncRun, connection: Connection, found_live: Mapping[str, datetime | None]
) -> PushCheck:
    """Check whether pushes announced the new messages."""
    if sync_run.listings():  # a listing shows new mail as well, whatever the pushes do
        return PushCheck()
    return await push_silence.check_pushes(
        connection,
        sync_run.mailbox,
        found_live,
        sync_run.hints,
        names_messages=sync_run.remote.push_names_messages,
    )


async def _plan_sweep(sync_run: SyncRun, connection: Connection, push_check: PushCheck) -> float:
    """The seconds until the next sweep, without jitter."""
    context = sync_run.context
    usual = context.sweep_seconds[sync_run.mailbox.provider]
    if sync_run.listings():
        return usual
    findings = SyncFindings(
        sync_run.hints,
        has_changes=sync_run.counts.has_changes,
        is_complete=not sync_run.unreadable,
        has_unannounced=push_check.has_unannounced,
    )
    intervals = SweepIntervals(usual, usual * context.sweep_stretch[sync_run.mailbox.provider])
    return await push_proof.plan_next_sweep(connection, sync_run.mailbox, findings, intervals)


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


def _seconds_until_next_run(sync_run: SyncRun, sweep: float, *others: float | None) -> float:
    """The seconds until the next run: 0 while a listing is unfinished.

    Otherwise until the next retry, push check, second look, or sweep, which jitter spreads out.
    """
    if sync_run.listings():
        return 0.0
    waits = [sweep * random.uniform(0.9, 1)]
    waits += [seconds for seconds in others if seconds is not None]
    if sync_run.second_look_at is not None:
        waits.append(sync_run.second_look_at - time.monotonic())
    return max(min(waits), 0.0)


async def _finish_early(
    context: SyncContext,
    lease: Lease,
    mailbox: Mailbox | None = None,
    error: PermanentError | None = None,
    *,
    cause: HealthCause | None = None,
    again_after: float | None = None,
) -> None:
    async with work.fenced_transaction(context.database, lease) as connection:
        if mailbox is not None and error is not None:
            await mailbox_health.record_failure(connection, mailbox, error, cause=cause)
        await work.finish(connection, [FinishedWork(lease, again_after)])


async def _record_failed_attempt(
    context: SyncContext, lease: Lease, mailbox: Mailbox, sync_run: SyncRun | None, error: Exception
) -> None:
    """Show the error on the mailbox, and in its health if this is not the first one."""
    made_progress = sync_run is not None and sync_run.counts.messages + sync_run.counts.events > 0
    await mailbox_health.record_failed_attempt(
        context.database, lease, mailbox, error, made_progress=made_progress
    )
    if sync_run is not None:
        with suppress(DatabaseUnavailable, TransientError, LeaseLost):
            async with work.fenced_transaction(context.database, lease) as connection:
                await quota_usage.record_share(connection, mailbox.id, sync_run.remote.quota_used())
