"""The work `apply_retention`: remove rows whose retention has passed, once a day per organization.

Messages, mail events, failures, feed events and personal values of the ledger; also attachments that the
policy `documents` does not store. Each batch is its own transaction under the lease. The ledger counts what
was removed. Blobs are removed by `flow.storage.blob_gc`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from postroom.documents.pipelines import Pipelines
from postroom.flow.mail import policy
from postroom.logs import Log
from postroom.model import ContentPolicy, StepResult
from postroom.store import feed, ledger, purge, work
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.work import Lease

EVERY_SECONDS: Final = 86_400.0
BATCH: Final = 500
FAILURE_DAYS: Final = 90.0

log = Log()


@dataclass(frozen=True, slots=True)
class RetentionPeriods:
    """How many days each kind of row is kept; None: forever."""

    events: float | None = None
    mail_events: float | None = None
    personal_values: float | None = None
    deleted_messages: float | None = None
    messages: Mapping[ContentPolicy, float | None] = field(default_factory=dict[ContentPolicy, float | None])


# Removes the next batch of rows older than this many days; how many were removed.
BatchRemoval = Callable[[Connection, float], Awaitable[int]]


async def run(
    database: Database, periods: RetentionPeriods, pipelines: Pipelines, lease: Lease
) -> StepResult:
    removed: dict[str, int] = {}
    for name, days, removal in _list_removals(periods):
        if days is not None:
            removed[name] = await _remove_in_batches(database, lease, removal, days)
    removed["unaccepted_attachments"] = await _remove_unaccepted(database, pipelines, lease)
    gone = {name: count for name, count in removed.items() if count}
    if gone:
        log.info("retention.applied", organization=lease.organization, count=sum(gone.values()))
        entry = NewLedgerEntry("RETENTION_APPLIED", "organization", str(lease.organization), payload=gone)
        async with work.fenced_transaction(database, lease) as connection:
            await ledger.append_entries(connection, lease.organization, [entry])
    return StepResult(again_after=EVERY_SECONDS)


async def _remove_in_batches(database: Database, lease: Lease, removal: BatchRemoval, days: float) -> int:
    total, last = 0, BATCH
    while last >= BATCH:
        async with work.fenced_transaction(database, lease) as connection:
            last = await removal(connection, days)
        total += last
    return total


async def _remove_unaccepted(database: Database, pipelines: Pipelines, lease: Lease) -> int:
    total, last = 0, policy.FIRST_ATTACHMENT
    while last is not None:
        async with work.fenced_transaction(database, lease) as connection:
            count, last = await policy.remove_unaccepted(connection, pipelines, last, limit=BATCH)
        total += count
    return total


def _list_removals(periods: RetentionPeriods) -> list[tuple[str, float | None, BatchRemoval]]:
    """List the removals in order: removing messages removes their events too."""
    return [
        *(
            (f"messages_{policy}", periods.messages.get(policy), _removing_old_messages(policy))
            for policy in ContentPolicy
        ),
        ("deleted_messages", periods.deleted_messages, _remove_deleted_messages),
        ("mail_events", periods.mail_events, _remove_mail_events),
        ("personal_values", periods.personal_values, _remove_personal_values),
        ("failures", FAILURE_DAYS, _remove_failures),
        ("events", periods.events, _remove_events),
    ]


def _removing_old_messages(policy: ContentPolicy) -> BatchRemoval:
    async def remove(connection: Connection, days: float) -> int:
        ids = await purge.list_old_messages(connection, policy, days=days, limit=BATCH)
        return await purge.delete_messages(connection, ids)

    return remove


async def _remove_deleted_messages(connection: Connection, days: float) -> int:
    return await purge.delete_messages(
        connection, await purge.list_deleted_messages(connection, days=days, limit=BATCH)
    )


async def _remove_mail_events(connection: Connection, days: float) -> int:
    return await purge.delete_old_mail_events(connection, days=days, limit=BATCH)


async def _remove_personal_values(connection: Connection, days: float) -> int:
    return await purge.delete_old_personal_values(connection, days=days, limit=BATCH)


async def _remove_failures(connection: Connection, days: float) -> int:
    return await purge.delete_resolved_failures(connection, days=days, limit=BATCH)


async def _remove_events(connection: Connection, days: float) -> int:
    return await feed.prune(connection, older_than_seconds=days * 86_400, limit=BATCH)
