"""The work `collect_garbage`: remove blobs that nothing refers to, once a day per organization.

Unreferenced rows and objects without a row are marked first, then removed. After a crash the next run
continues from the marks. `keep_scheduled` also schedules the other daily work.
"""

import random
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from postroom.logs import Log
from postroom.model import StepResult
from postroom.ports import BlobStore, StoredBlob
from postroom.store import blobs, organizations, work
from postroom.store.database import Database, repeat_hourly
from postroom.store.work import Lease, WorkRequest

EVERY_SECONDS: Final = 86_400.0
BATCH: Final = 500

log = Log()


@dataclass(frozen=True, slots=True)
class BlobGcContext:
    """The dependencies of the step.

    Blobs stored within the grace period are spared. It is longer than any put takes until its commit.
    """

    database: Database
    store: BlobStore
    grace_seconds: float


async def keep_scheduled(database: Database, kinds: Sequence[str]) -> None:
    """Ensure that every organization has its daily work of these kinds, forever.

    New work is spread over an hour.
    """

    async def schedule() -> None:
        async with database.engine() as connection:
            every = await organizations.list_ids(connection)
            requests = [
                WorkRequest(each, kind, str(each), random.uniform(0, 3600))
                for each in every
                for kind in kinds
            ]
            await work.ensure_scheduled(connection, requests)

    await repeat_hourly(schedule)


async def run(context: BlobGcContext, lease: Lease) -> StepResult:
    earliest, _ = await _read_clocks(context, lease)
    before = earliest - _grace(context)
    marked = await _mark_rows(context, lease) + await _mark_objects(context, lease, before)
    removed = await _remove_marked(context, lease, before)
    async with work.fenced_transaction(context.database, lease) as connection:
        await blobs.delete_old_marks(connection, before=before)
    if marked or removed:
        log.info("blobs.collected", organization=lease.organization, count=removed)
    return StepResult(again_after=EVERY_SECONDS)


async def _mark_rows(context: BlobGcContext, lease: Lease) -> int:
    total, last = 0, BATCH
    while last == BATCH:
        async with work.fenced_transaction(context.database, lease) as connection:
            last = await blobs.mark_unreferenced(
                connection, lease.organization, grace_seconds=context.grace_seconds, batch=BATCH
            )
        total += last
    return total


async def _mark_objects(context: BlobGcContext, lease: Lease, before: datetime) -> int:
    """Mark objects without a row: their writer never committed."""
    total = 0
    old = _older_than(context.store.list_all(lease.organization), before)
    async for group in _in_batches(old):
        async with context.database.transaction(lease.organization) as connection:
            orphans = set(group) - await blobs.find_existing(connection, group)
        if orphans:
            async with work.fenced_transaction(context.database, lease) as connection:
                total += await blobs.mark_orphans(connection, lease.organization, sorted(orphans))
    return total


async def _remove_marked(context: BlobGcContext, lease: Lease, before: datetime) -> int:
    total = 0
    while True:
        async with context.database.transaction(lease.organization) as connection:
            digests = await blobs.list_marked(connection, limit=BATCH)
        if not digests:
            return total
        _, latest = await _read_clocks(context, lease)
        for digest in digests:
            async with context.database.transaction(lease.organization) as connection:
                if not await blobs.try_removal_lock(connection, lease.organization):
                    # A process with an expired lease is still removing: leave the rest to the next run.
                    return total
                is_removed = await _remove_object(context, lease, digest, before)
            async with work.fenced_transaction(context.database, lease) as connection:
                await blobs.record_removals(
                    connection,
                    removed=[digest] if is_removed else [],
                    removed_at=latest,
                    spared=[] if is_removed else [digest],
                )
            total += is_removed


async def _remove_object(context: BlobGcContext, lease: Lease, digest: bytes, before: datetime) -> bool:
    """Remove one object, unless it was put again after it was marked. Whether it is gone.

    The caller holds the removal lock, so no other collector can remove the object first. Otherwise a process
    could put it again and lose it to this late removal. The work row is not locked meanwhile, so its lease
    can be extended.
    """
    found = await context.store.find(lease.organization, digest)
    if found is not None and found.modified_at >= before:
        return False
    if found is not None:
        await context.store.delete(lease.organization, digest)
    return True


async def _read_clocks(context: BlobGcContext, lease: Lease) -> tuple[datetime, datetime]:
    """The time by the blob store's clock and by the database's, the earlier one first.

    The clocks may differ, and either may jump. The grace period must have passed on both, or a jump could let
    an object be removed between its put and its commit. So ages are measured up to the earlier time, and
    removals are dated with the later one.
    """
    async with context.database.transaction(lease.organization) as connection:
        in_database = await blobs.get_time(connection)
    in_store = await context.store.get_time()
    return min(in_database, in_store), max(in_database, in_store)


def _grace(context: BlobGcContext) -> timedelta:
    return timedelta(seconds=context.grace_seconds)


async def _older_than(found: AsyncIterable[StoredBlob], before: datetime) -> AsyncIterator[bytes]:
    async for blob in found:
        if blob.modified_at < before:
            yield blob.sha256


async def _in_batches(digests: AsyncIterable[bytes]) -> AsyncIterator[list[bytes]]:
    group: list[bytes] = []
    async for digest in digests:
        group.append(digest)
        if len(group) == BATCH:
            yield group
            group = []
    if group:
        yield group
