"""Split a PDF that holds several documents. Each part becomes a document of its own.

A person names the pages, or `process` splits a file whose parts are certain. The parts name the original,
which is completed without a record and archived as it came. A document is split once: the same pages again
return the same parts.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from uuid import UUID

from postroom.documents.page_ranges import PageRange, format_ranges
from postroom.errors import NotFound, PermanentError
from postroom.flow.documents import intake, record_changes, review, route
from postroom.flow.documents.route import DocumentCase
from postroom.flow.documents.value_checks import ReviewContext
from postroom.flow.storage.blob_reading import read_blob
from postroom.model import DocumentState, OrganizationId, WorkKind
from postroom.ports import Blob, BlobStore
from postroom.store import blobs as stored
from postroom.store import document_files, documents, feed, ledger, reviews, work
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.document_files import DocumentPart
from postroom.store.documents import Document
from postroom.store.ledger import NewLedgerEntry
from postroom.store.work import WorkRequest

if TYPE_CHECKING:
    from postroom.documents.sandbox.file_sandbox import FileSandbox

PDF: Final = "application/pdf"


async def split(
    database: Database,
    blobs: BlobStore,
    sandbox: "FileSandbox",
    context: ReviewContext,
    organization: OrganizationId,
    document_id: UUID,
    ranges: Sequence[PageRange],
    *,
    actor: str,
) -> list[DocumentPart]:
    """Split a document without a record at these pages, and return the parts."""
    async with database.transaction(organization) as connection:
        document, parts = await _load(connection, document_id, ranges)
    if parts:
        return parts
    content = await read_blob(blobs, organization, document.readable_sha256)
    split_files = await sandbox.for_organization(organization).split(content, ranges)
    files = [await blobs.put(organization, part) for part in split_files]
    async with database.transaction(organization) as connection:
        await document_files.lock(connection, document_id)
        document, parts = await _load(connection, document_id, ranges)
        if parts:
            return parts
        case = DocumentCase(organization, document, actor)
        archives = context.routing.archives and (
            (pipeline := context.pipelines.get(document.pipeline)) is not None and pipeline.archive
        )
        return await commit_parts(connection, case, ranges, files, archives=archives)


async def _load(
    connection: Connection, document_id: UUID, ranges: Sequence[PageRange]
) -> tuple[Document, list[DocumentPart]]:
    """The document, and its parts if it was split at the same pages."""
    document = await documents.get(connection, document_id)
    if document is None:
        raise NotFound("There is no such document.")
    parts = await document_files.list_parts(connection, document_id)
    if parts:
        pages = ",".join(part.pages for part in parts)
        if pages != format_ranges(ranges):
            raise PermanentError(f"The document was already split, into the pages {pages}.")
    elif document.state not in review.RETRYABLE:
        raise PermanentError(
            f"The document is {document.state}. Only documents without a record can be split."
        )
    elif reopened := await record_changes.get_reopened(connection, document):
        raise PermanentError(f"Record {reopened.name} is under review. Decide that review first.")
    elif document.media_type != PDF:
        raise PermanentError("Only a PDF can be split.")
    elif document.needs_password:
        raise PermanentError("The document is encrypted. Enter its password first.")
    return document, parts


async def commit_parts(
    connection: Connection,
    case: DocumentCase,
    ranges: Sequence[PageRange],
    files: Sequence[Blob],
    *,
    archives: bool,
) -> list[DocumentPart]:
    """Create the documents of the parts and complete the original, in the caller's transaction."""
    original = case.document
    await stored.record(connection, case.organization, files)
    origin, _ = route.get_origin(await documents.list_arrivals(connection, original.id))
    name = PurePosixPath(origin.file_name or "document.pdf")
    arrivals = [
        replace(
            origin,
            pipelines=original.pipelines or [original.pipeline],
            sha256=file.sha256,
            media_type=PDF,
            file_name=f"{name.stem} (pages {pages}){name.suffix}",
            part=f"{origin.part}#{pages}" if origin.part else None,
            part_of=original.id,
        )
        for pages, file in zip(ranges, files, strict=True)
    ]
    taken = await intake.record_arrivals(connection, case.organization, arrivals)
    parts = [DocumentPart(each.document, str(pages)) for each, pages in zip(taken, ranges, strict=True)]
    await document_files.set_parts(connection, original.id, parts)
    await reviews.withdraw(connection, original.id)
    await route.finish_document(connection, case, DocumentState.COMPLETED)
    await _announce(connection, case, parts)
    if archives:
        request = WorkRequest(case.organization, WorkKind.ARCHIVE, str(original.id))
        await work.enqueue(connection, [request])
    return parts


async def _announce(connection: Connection, case: DocumentCase, parts: Sequence[DocumentPart]) -> None:
    listed = [{"document": str(part.document), "pages": part.pages} for part in parts]
    id_ = str(case.document.id)
    await feed.append_event(connection, "document.changed", "document", id_, {"split_into": listed})
    entry = NewLedgerEntry(
        "DOCUMENT_SPLIT",
        "document",
        id_,
        actor_id=case.actor,
        payload={
            "parts": [str(part.document) for part in parts],
            "pages": ",".join(part.pages for part in parts),
        },
    )
    await ledger.append_entries(connection, case.organization, [entry])
