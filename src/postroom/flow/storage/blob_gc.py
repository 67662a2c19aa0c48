"""Collects what nothing refers to: rows of blobs, objects that have no row, and then the objects themselves.

Work that is due for each organization, once a day. A crash leaves marks from which the next run goes on.
"""

import asyncio
import random
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from postroom.errors import DatabaseUnavailable, TransientError
from postroom.logs import Log
from postroom.model import StepResult
from postroom.ports import BlobStore, StoredBlob
from postroom.store import blobs, organizations, work
from postroom.store.database import Database
from postroom.store.work import Lease, WorkRequest

EVERY_SECONDS: Final = 86_400.0
BATCH: Final = 500

log = Log()


@dataclass(frozen=True, slots=True)
class BlobGcContext:
    """Nothing goes that was stored within the grace; it is longer than any put needs to its commit."""

    database: Database
    store: BlobStore
    grace_seconds: float


async def keep_scheduled(database: Database, kinds: Sequence[str]) -> None:
    """Every organization has its daily work of these kinds, for ever; at first spread over an hour."""
    while True:
        with suppress(DatabaseUnavailable, TransientError):
            async with database.engine() as connection:
                every = await organizations.every(connection)
                await work.ensure_scheduled(
                    connection,
                    [
                        WorkRequest(each, kind, str(each), random.uniform(0, 3600))
                        for each in every
                        for kind in kinds
                    ],
                )
        await asyncio.sleep(3600)


async def run(context: BlobGcContext, lease: Lease) -> StepResult:
    doomed = await _mark_rows(context, lease) + await _mark_objects(context, lease)
    removed = await _remove_marked(context, lease)
    async with work.fenced_transaction(context.database, lease) as connection:
        await blobs.forget_removed(connection, grace_seconds=context.grace_seconds)
    if doomed or removed:
        log.info("blobs.collected", organization=lease.organization, count=removed)
    return StepResult(again_after=EVERY_SECONDS)


async def _mark_rows(context: BlobGcContext, lease: Lease) -> int:
    total, last = 0, BATCH
    while last == BATCH:
        async with work.fenced_transaction(context.database, lease) as connection:
            last = await blobs.doom(
                connection, lease.organization, grace_seconds=context.grace_seconds, batch=BATCH
            )
        total += last
    return total


async def _mark_objects(context: BlobGcContext, lease: Lease) -> int:
    """Objects without a row: put by somebody who never committed."""
    async with context.database.transaction(lease.organization) as connection:
        _, now = await blobs.to_remove(connection, limit=0)
    total = 0
    old = _older_than(context.store.list_all(lease.organization), now - _grace(context))
    async for group in _in_batches(old):
        async with context.database.transaction(lease.organization) as connection:
            unknown = set(group) - await blobs.known(connection, group)
        if unknown:
            async with work.fenced_transaction(context.database, lease) as connection:
                total += await blobs.doom_unknown(connection, lease.organization, sorted(unknown))
    return total


async def _remove_marked(context: BlobGcContext, lease: Lease) -> int:
    total = 0
    while True:
        async with context.database.transaction(lease.organization) as connection:
            digests, now = await blobs.to_remove(connection, limit=BATCH)
        if not digests:
            return total
        for digest in digests:
            async with context.database.transaction(lease.organization) as connection:
                if not await blobs.removes_alone(connection, lease.organization):
                    return (
                        total  # somebody whose lease ended is still at it; what is left is for the next run
                    )
                gone = await _remove_object(context, lease, digest, now - _grace(context))
            async with work.fenced_transaction(context.database, lease) as connection:
                await blobs.settle(
                    connection, removed=[digest] if gone else [], spared=[] if gone else [digest]
                )
            total += gone


async def _remove_object(context: BlobGcContext, lease: Lease, digest: bytes, before: datetime) -> bool:
    """Remove one object; one that was put again after the mark is spared.

    The caller lets nobody else remove: however long it takes, no other collector can remove the object before
    it, so that nobody puts it anew and loses it to a removal that comes late. The row of this work is not
    held meanwhile, so that its lease can be prolonged.
    """
    found = await context.store.find(lease.organization, digest)
    if found is not None and found.modified_at >= before:
        return False
    if found is not None:
        await context.store.delete(lease.organization, digest)
    return True


def _grace(context: BlobGcContext) -> timedelta:
    return timedelta(seconds=context.grace_seconds)


async def _older_than(found: AsyncIterable[StoredBlob], before: datetime) -> AsyncIterator[bytes]:
    async for each in found:
        if each.modified_at < before:
            yield each.sha256


async def _in_batches(digests: AsyncIterable[bytes]) -> AsyncIterator[list[bytes]]:
    group: list[bytes] = []
    async for digest in digests:
        group.append(digest)
        if len(group) == BATCH:
            yield group
            group = []
    if group:
        yield group
