"""Verify that every blob exists and is unchanged, by recomputing its digest; request broken ones again.

Also lists objects without a row; garbage collection removes those once they are old enough.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from postroom.errors import NotFound
from postroom.model import OrganizationId, WorkKind
from postroom.ports import BlobStore
from postroom.store import blobs, failures, work
from postroom.store.blobs import BlobReferences, BlobRow
from postroom.store.database import Database
from postroom.store.failures import Failure, attachment_subject
from postroom.store.work import WorkRequest

BATCH: Final = 200
MISSING: Final = "missing"
CHANGED: Final = "changed"


@dataclass(frozen=True, slots=True)
class BlobFault:
    """A missing or changed blob, and what refers to it."""

    sha256: bytes
    problem: str
    referrers: BlobReferences


@dataclass
class BlobVerification:
    """The result of a verification."""

    checked: int = 0
    size: int = 0
    faults: list[BlobFault] = field(default_factory=list[BlobFault])
    extra: list[bytes] = field(default_factory=list[bytes])  # objects without a row
    refetched: int | None = None  # faults that the next sync may repair; None: not requested


async def verify(
    database: Database, store: BlobStore, organization: OrganizationId, *, checked: Callable[[int], None]
) -> BlobVerification:
    """Verify all blobs of one organization. Calls `checked` with the size of each."""
    result = BlobVerification()
    after = b""
    while True:
        async with database.transaction(organization) as connection:
            rows = await blobs.list_page(connection, after=after, limit=BATCH)
        if not rows:
            break
        for row in rows:
            await _check_blob(database, store, organization, row, result)
            checked(row.size)
        after = rows[-1].sha256
    await _list_extra(database, store, organization, result)
    return result


async def _check_blob(
    database: Database,
    store: BlobStore,
    organization: OrganizationId,
    row: BlobRow,
    result: BlobVerification,
) -> None:
    digest, size = sha256(), 0
    result.checked += 1
    try:
        async for piece in store.read(organization, row.sha256):
            digest.update(piece)
            size += len(piece)
    except NotFound:
        what = MISSING
    else:
        result.size += size
        if digest.digest() == row.sha256 and size == row.size:
            return
        what = CHANGED
    async with database.transaction(organization) as connection:
        if row.sha256 in await blobs.find_existing(
            connection, [row.sha256]
        ):  # not removed by garbage collection meanwhile
            result.faults.append(
                BlobFault(row.sha256, what, await blobs.list_references(connection, row.sha256))
            )


async def _list_extra(
    database: Database, store: BlobStore, organization: OrganizationId, result: BlobVerification
) -> None:
    group: list[bytes] = []
    async for blob in store.list_all(organization):
        group.append(blob.sha256)
        if len(group) == BATCH:
            result.extra += await _find_without_row(database, organization, group)
            group = []
    if group:
        result.extra += await _find_without_row(database, organization, group)


async def _find_without_row(
    database: Database, organization: OrganizationId, group: list[bytes]
) -> list[bytes]:
    async with database.transaction(organization) as connection:
        return sorted(set(group) - await blobs.find_existing(connection, group))


async def refetch(
    database: Database, store: BlobStore, organization: OrganizationId, faults: Sequence[BlobFault]
) -> int:
    """Have the next sync fetch the attachments of broken blobs again. Returns how many it may restore.

    Each becomes a failure that is due now, so the usual retry of failed attachments fetches and stores it.
    Changed bytes are removed first: a sync that stores the blob again would keep them.
    """
    requested = 0
    for fault in faults:
        async with database.transaction(organization) as connection:
            sources = await blobs.list_mail_sources(connection, fault.sha256)
        if not sources:
            continue
        if fault.problem == CHANGED:
            await store.delete(organization, fault.sha256)
        async with database.transaction(organization) as connection:
            for source in sources:
                subject = attachment_subject(source.provider_message_id, source.part)
                failure = Failure(
                    "attachment", subject, f"Its blob is {fault.problem}; fetching it again.", 0
                )
                await failures.record(connection, source.mailbox, [failure])
                await work.enqueue(
                    connection, [WorkRequest(organization, WorkKind.SYNC, str(source.mailbox))]
                )
        requested += 1
    return requested
