"""The work `archive`: write a completed document to the archive once, and verify the copy.

It is separate work, so that a crash or an unavailable archive only delays it. The path is chosen by
`documents.archive_path`. After a purge, the copy moves to the path that it has without the purged names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID

from postroom.documents import archive_path
from postroom.documents.archive_path import ArchiveItem
from postroom.errors import PermanentError, PostroomError
from postroom.flow.documents.route import get_origin, wake_shared_state
from postroom.flow.storage.blob_reading import read_blob
from postroom.model import OrganizationId, StepResult
from postroom.ports import Archive, BlobStore
from postroom.store import documents, feed, ledger, records, work
from postroom.store.database import Database
from postroom.store.documents import Arrival, Document
from postroom.store.ledger import NewLedgerEntry
from postroom.store.records import Record
from postroom.store.work import Lease

MAX_SAME_NAME: Final = 1000


@dataclass(frozen=True)
class ArchiveContext:
    """The dependencies of the step."""

    database: Database
    blobs: BlobStore
    archive: Archive


async def run(context: ArchiveContext, lease: Lease) -> StepResult:
    """Archive one document, or move its copy. Repeated after a crash, it finds its own bytes there."""
    document_id = UUID(lease.subject)
    async with context.database.transaction(lease.organization) as connection:
        document = await documents.get(connection, document_id)
        if document is None or (document.archived_at is not None and document.archive_outdated_at is None):
            return StepResult()
        arrivals = await documents.list_arrivals(connection, document_id)
        record = await records.get(connection, document.record_id) if document.record_id else None
    item = _build_item(document, arrivals, record)
    try:
        path = await _write_and_verify(context, lease.organization, document, item)
        if document.archive_path is not None and document.archive_path != path:
            await _remove_copy(context, document, document.archive_path)
    except PostroomError as error:
        async with work.fenced_transaction(context.database, lease) as connection:
            await documents.record_archive_error(connection, document_id, f"Not archived yet: {error}")
        raise
    async with work.fenced_transaction(context.database, lease) as connection:
        await documents.lock_arrivals(connection, document_id)
        _, sender = get_origin(await documents.list_arrivals(connection, document_id))
        was_purged = sender != item.sender
        await documents.mark_archived(connection, document_id, path)
        if document.archive_outdated_at is not None:
            await ledger.purge_personal(connection, "document", [lease.subject])
        if was_purged:  # meanwhile, and the path names a person
            await documents.mark_archive_outdated(connection, document_id)
        await wake_shared_state(connection, document_id)
        data = {"archived": True}
        await feed.append_event(connection, "document.changed", "document", lease.subject, data)
        await ledger.append_entries(
            connection,
            lease.organization,
            [
                NewLedgerEntry(
                    "DOCUMENT_ARCHIVED",
                    "document",
                    lease.subject,
                    payload={"sha256": document.sha256.hex()},
                    personal={"path": path},
                )
            ],
        )
    return StepResult(again_after=0) if was_purged else StepResult()


async def _remove_copy(context: ArchiveContext, document: Document, path: str) -> None:
    """Remove the copy at the old path, unless another document shares it."""
    async with context.database.engine() as engine:
        shared = await documents.is_copy_shared(engine, document.id, sha256=document.sha256, path=path)
    if not shared:
        await context.archive.remove(path)


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
    context: ArchiveContext, organization: OrganizationId, document: Document, item: ArchiveItem
) -> str:
    """Write to the first free name, or find the name that already holds these bytes; verify by reading."""
    content = await read_blob(context.blobs, organization, document.sha256)
    metadata = archive_path.build_metadata(item, processed_at=document.state_since)
    for number in range(1, MAX_SAME_NAME):
        path = archive_path.build_path(item, number=number)
        await context.archive.put_once(path, content, metadata)
        if sha256(await context.archive.fetch(path)).digest() == document.sha256:
            return path
    raise PermanentError(
        "The archive already holds a thousand other files with this name in this folder."
        " Move them elsewhere, then retry the document."
    )
