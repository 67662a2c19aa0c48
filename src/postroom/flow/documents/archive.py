"""The work `archive`: write a completed document to the archive once, and verify the copy.

It is separate work, so that a crash or an unavailable archive only delays it. The path is chosen by
`documents.archive_path`. If a change of the record changes the path, another copy is written and the earlier
one stays. After a purge, the copy moves to the path that it has without the purged names, and earlier copies
are removed.

Each path is recorded before it is written. So a purge also finds the copy of a worker that crashed, or lost
its lease, before it could commit; and if the path has changed by the next attempt, for example because
retention removed the message, that copy is removed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID

from postroom.documents import archive_path
from postroom.documents.archive_path import ArchiveItem
from postroom.errors import LeaseLost, NotFound, PermanentError, PostroomError, TransientError
from postroom.flow.documents.route import get_origin, wake_shared_state
from postroom.flow.storage.blob_reading import read_blob
from postroom.model import StepResult, WorkKind
from postroom.ports import Archive, BlobStore
from postroom.store import archive_copies, documents, feed, ledger, records, work
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.documents import Arrival, Document
from postroom.store.ledger import NewLedgerEntry
from postroom.store.records import Record
from postroom.store.work import Lease, WorkRequest

MAX_SAME_NAME: Final = 1000


@dataclass(frozen=True)
class ArchiveContext:
    """The dependencies of the step."""

    database: Database
    blobs: BlobStore
    archive: Archive


@dataclass(frozen=True, slots=True)
class WrittenCopy:
    """A copy in the archive. `taken_paths` were tried before and hold other files."""

    item: ArchiveItem
    path: str
    taken_paths: Sequence[str]


async def run(context: ArchiveContext, lease: Lease) -> StepResult:
    """Archive one document, or move its copy. Repeated after a crash, it finds its own bytes there."""
    document_id = UUID(lease.subject)
    async with context.database.transaction(lease.organization) as connection:
        document = await documents.get(connection, document_id)
        if document is None or (document.archived_at is not None and document.archive_outdated_at is None):
            return StepResult()
        arrivals = await documents.list_arrivals(connection, document_id)
        record = await records.get(connection, document.record_id) if document.record_id else None
        earlier = await archive_copies.list_earlier(connection, document_id)
    item = _build_item(document, arrivals, record)
    try:
        copy = await _write_and_verify(context, lease, document, item)
        if not _keeps_earlier(document):
            for old in [*earlier, document.archive_path]:
                if old is not None and old != copy.path:
                    await _remove_copy(context, document, old)
    except PostroomError as error:
        async with work.fenced_transaction(context.database, lease) as connection:
            await archive_copies.record_error(connection, document_id, f"Not archived yet: {error}")
        raise
    try:
        return await _commit(context, lease, document, copy)
    except LeaseLost:
        await _record_late_copy(context, lease, copy)
        raise


async def _commit(context: ArchiveContext, lease: Lease, document: Document, copy: WrittenCopy) -> StepResult:
    is_outdated = document.archive_outdated_at is not None
    async with work.fenced_transaction(context.database, lease) as connection:
        was_purged = await _is_purged(connection, document.id, copy.item)
        was_revised = await _get_record_key(connection, document.id) != copy.item.record_key
        await archive_copies.forget_paths(connection, document.id, copy.taken_paths)
        await archive_copies.mark_archived(
            connection, document.id, copy.path, keep_earlier=_keeps_earlier(document)
        )
        if is_outdated:
            await ledger.purge_personal(connection, "document", [lease.subject])
        if was_purged:  # meanwhile, and the path names a person
            await archive_copies.mark_outdated(connection, document.id)
        if was_revised:
            await archive_copies.mark_revised(connection, [document.id])
        await wake_shared_state(connection, document.id)
        await _publish(connection, lease, document, copy.path)
    return StepResult(again_after=0) if was_purged or was_revised else StepResult()


def _keeps_earlier(document: Document) -> bool:
    """Whether earlier copies stay: not if a purge made them outdated, or if none was recorded as archived."""
    return document.archive_path is not None and document.archive_outdated_at is None


async def _record_late_copy(context: ArchiveContext, lease: Lease, copy: WrittenCopy) -> None:
    """Record a copy that was written after the lease was lost. After a purge, the next step removes it."""
    document_id = UUID(lease.subject)
    async with context.database.transaction(lease.organization) as connection:
        await archive_copies.record_path(connection, document_id, copy.path)
        if await _is_purged(connection, document_id, copy.item):
            await archive_copies.mark_outdated(connection, document_id)
            await work.enqueue(connection, [WorkRequest(lease.organization, WorkKind.ARCHIVE, lease.subject)])


async def _is_purged(connection: Connection, document: UUID, item: ArchiveItem) -> bool:
    """Whether the sender was purged since the item was built. The next purge waits for this transaction."""
    await archive_copies.lock_arrivals(connection, document)
    _, sender = get_origin(await documents.list_arrivals(connection, document))
    return sender != item.sender


async def _publish(connection: Connection, lease: Lease, document: Document, path: str) -> None:
    await feed.append_event(connection, "document.changed", "document", lease.subject, {"archived": True})
    entry = NewLedgerEntry(
        "DOCUMENT_ARCHIVED",
        "document",
        lease.subject,
        payload={"sha256": document.sha256.hex()},
        personal={"path": path},
    )
    await ledger.append_entries(connection, lease.organization, [entry])


async def _get_record_key(connection: Connection, document: UUID) -> str | None:
    """The key of the document's record now. A change of the record waits for this transaction."""
    current = await documents.get(connection, document)
    if current is None or current.record_id is None:
        return None
    await archive_copies.hold_record(connection, current.record_id)
    record = await records.get(connection, current.record_id)
    return record.key if record else None


async def _remove_copy(context: ArchiveContext, document: Document, path: str) -> None:
    """Remove the copy at the old path, unless another document shares it or another file is there."""
    async with context.database.engine() as engine:
        shared = await archive_copies.is_shared(engine, document.id, sha256=document.sha256, path=path)
    if not shared and await _is_copy(context, document, path):
        await context.archive.remove(path)


async def _is_copy(context: ArchiveContext, document: Document, path: str) -> bool:
    try:
        return sha256(await context.archive.fetch(path)).digest() == document.sha256
    except NotFound:
        return False


def _build_item(document: Document, arrivals: Sequence[Arrival], record: Record | None) -> ArchiveItem:
    first, sender = get_origin(arrivals)
    return ArchiveItem(
        sender=sender,
        received_at=first.received_at or document.created_at,
        file_name=first.file_name or "",  # `archive_path` supplies a name
        media_type=document.media_type,
        source=first.source,
        fallback_id=str(document.id),
        record_key=record.key if record else None,
        message_id=first.provider_message_id,
        bucket_generation=first.bucket_generation,
    )


async def _write_and_verify(
    context: ArchiveContext, lease: Lease, document: Document, item: ArchiveItem
) -> WrittenCopy:
    """Write to the first free name, or find the name that already holds these bytes; verify by reading."""
    content = await read_blob(context.blobs, lease.organization, document.sha256)
    metadata = archive_path.build_metadata(item, processed_at=document.state_since)
    taken = list[str]()
    for number in range(1, MAX_SAME_NAME):
        path = archive_path.build_path(item, number=number)
        async with work.fenced_transaction(context.database, lease) as connection:
            if await _is_purged(connection, document.id, item):
                raise TransientError("The sender was purged while the document was being archived.")
            await archive_copies.record_path(connection, document.id, path)
        await context.archive.put_once(path, content, metadata)
        if await _is_copy(context, document, path):
            return WrittenCopy(item, path, taken)
        taken.append(path)
    raise PermanentError(
        "The archive already holds a thousand other files with this name in this folder."
        " Move them elsewhere, then retry the document."
    )
