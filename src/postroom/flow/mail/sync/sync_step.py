"""The work of the kind `sync`: one mailbox brought up to date, or a slice of a long listing."""

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
from postroom.store.database import Connection
from postroom.store.ledger import Entry
from postroom.store.mailboxes import Mailbox
from postroom.store.work import Finish, Lease

log = Log()

# A provider that refuses a mailbox may change its mind: a licence, a policy, a permission.
REFUSED_SECONDS: Final = 3600.0
UNREADABLE: Final = "A folder is there and cannot be read. The others are; it is tried again."
# So many workers in a row may end over a mailbox without a page committed: then it is what ends them.
MAX_LOST_LEASES: Final = 10


async def run(context: SyncContext, lease: Lease) -> None:
    """The end of the lease is part of the last commit. One that is not to be synced leaves no work behind:
    whoever resumes or reconnects it makes it due again.
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
    if lease.lost >= MAX_LOST_LEASES:
        raise PermanentError("Its worker ended at every attempt. The worker's own output may say why.")


def is_syncable(mailbox: Mailbox) -> bool:
    lost = mailbox.health is MailboxHealth.TOKEN_REFRESH_FAILED
    return not (lost or mailbox.paused_at or mailbox.disconnected_at)


async def _sync_mailbox(context: SyncContext, lease: Lease, mailbox: Mailbox) -> None:
    reading = await _load_run(context, lease, mailbox)
    await live_changes.run(reading)
    await live_changes.retry_failures(reading)
    await listing.run(reading, seconds=context.slice_seconds)
    await _finish_run(reading)


async def _load_run(context: SyncContext, lease: Lease, mailbox: Mailbox) -> SyncRun:
    async with context.database.transaction(lease.organization) as connection:
        now = await subscriptions.now(connection)
        tree = await folders.every(connection, mailbox.id)
        rows = await cursors.of_mailbox(connection, mailbox.id)
    reading = SyncRun(context, lease, mailbox, context.remote(mailbox), now)
    reading.folders = {folder.key: folder for folder in tree}
    reading.cursors = {(row.kind, row.scope): row for row in rows}
    return reading


async def _finish_run(reading: SyncRun) -> None:
    context, lease, did = reading.parts, reading.lease, reading.did
    async with work.fenced(context.database, lease) as connection:
        await mailboxes.synced(connection, reading.id, but=UNREADABLE if reading.unreadable else None)
        await quota_usage.record_share(connection, reading.id, reading.remote.quota_used())
        if did.anything:
            entries = [] if reading.told_start else [build_started_entry(reading)]
            await ledger.append(connection, reading.organization, [*entries, _build_completed_entry(reading)])
        await _check_push_silence(reading, connection)
        failing = await failures.next_due_seconds(connection, reading.id)
        again = _seconds_until_next_run(reading, failing)
        seen = replace(lease, generation=max(lease.generation, reading.answered))
        await work.finish(connection, [Finish(seen, again)])
    log.info(
        "sync.done", mailbox=reading.id, count=did.messages, state="listing" if again == 0 else "current"
    )


async def _check_push_silence(reading: SyncRun, connection: Connection) -> None:
    """Mail came, some time ago, and no push told of it or of anything since: the channel may be dead."""
    patience = reading.now - timedelta(seconds=subscribe.SILENCE_SECONDS)
    notified = reading.mailbox.last_notified_at
    if notified is not None and notified > patience:
        return
    changed_at = await messages.newest(connection, reading.id, before=patience)
    if changed_at is not None:
        await subscribe.replace_silent_subscription(
            connection, reading.organization, reading.id, changed_at=changed_at
        )


def _build_completed_entry(reading: SyncRun) -> Entry:
    did = asdict(reading.did)
    payload = {
        "threads_synced": did["threads"],
        "messages_synced": did["messages"],
        "attachments_saved": did["attachments"],
        "events": did["events"],
        "errors": did["errors"],
    }
    return Entry("SYNC_COMPLETED", "mailbox", str(reading.id), payload=payload)


def _seconds_until_next_run(reading: SyncRun, failing: float | None) -> float:
    """At once while there is something to list; else when something is to be tried or looked at again, or at
    the next sweep, which the jitter spreads out.
    """
    if reading.listings():
        return 0.0
    waits = [reading.parts.sweep_seconds[reading.mailbox.provider] * random.uniform(0.9, 1)]
    if failing is not None:
        waits.append(failing)
    if reading.second_look_at is not None:
        waits.append(reading.second_look_at - time.monotonic())
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
    async with work.fenced(context.database, lease) as connection:
        if mailbox is not None and health is not None and error is not None:
            await mailbox_health.record_failure(connection, mailbox, health, error)
        await work.finish(connection, [Finish(lease, again_after)])


async def _record_transient_error(
    context: SyncContext, lease: Lease, mailbox: Mailbox, error: TransientError
) -> None:
    """Trouble that passes is told in words; the connection counts as well."""
    async with work.fenced(context.database, lease) as connection:
        await quota_usage.record_share(connection, mailbox.id, context.remote(mailbox).quota_used())
        now = await mailboxes.get(connection, mailbox.id)
        if now is not None and now.health is MailboxHealth.ACTIVE:
            await mailboxes.set_health(connection, mailbox.id, MailboxHealth.ACTIVE, error=str(error))
