"""The API over documents, reviews and records: what there is to read. Decisions change them."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from starlette.responses import Response

from postroom.model import Scope
from postroom.shapes import Document, Number, Page, Record, Review, WholeDocument
from postroom.store.views import documents as shown
from postroom.web.api import contents, cursors
from postroom.web.api.operations import Call, Nothing, Operation, Paged, there

State = Literal["queued", "processing", "completed", "skipped", "needs_review", "failed"]
Name = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00]*$")]
_After = tuple[datetime, UUID]


class DocumentPath(msgspec.Struct, frozen=True):
    document: UUID


class ReviewPath(msgspec.Struct, frozen=True):
    review: Number


class RecordPath(msgspec.Struct, frozen=True):
    record: UUID


class DocumentsQuery(Paged, frozen=True, forbid_unknown_fields=True):
    state: State | None = None
    pipeline: Name | None = None


class ReviewsQuery(Paged, frozen=True, forbid_unknown_fields=True):
    open: bool | None = None


class RecordsQuery(Paged, frozen=True, forbid_unknown_fields=True):
    kind: Name | None = None


async def list_documents(call: Call[Nothing, DocumentsQuery, None]) -> Page[Document]:
    """List the documents, the newest first."""
    after, asked = cursors.key_of(call.query, _After), call.query
    async with call.transaction() as connection:
        found = await shown.documents(
            connection, state=asked.state, pipeline=asked.pipeline, after=after, limit=asked.limit + 1
        )
    return cursors.page(found, asked, lambda row: (row.created_at, row.id))


async def get_document(call: Call[DocumentPath, Nothing, None]) -> WholeDocument:
    """One document: its state, where it came from and what was read."""
    async with call.transaction() as connection:
        found = there(await shown.document(connection, call.path.document), "document")
        return WholeDocument(
            found,
            await shown.arrivals(connection, found.id),
            await shown.extraction(connection, found.id),
        )


async def get_document_content(call: Call[DocumentPath, Nothing, None]) -> Response:
    """The bytes of a document, or a range of them."""
    async with call.transaction() as connection:
        found = there(await shown.document(connection, call.path.document), "document")
        came = await shown.arrivals(connection, found.id)
    name = next((each.file_name for each in came if each.file_name), str(found.id))
    return await contents.of_blob(call, bytes.fromhex(found.sha256), found.media_type, name)


async def list_reviews(call: Call[Nothing, ReviewsQuery, None]) -> Page[Review]:
    """List the questions to people about documents, the newest first."""
    below = cursors.number_of(call.query)
    async with call.transaction() as connection:
        found = await shown.reviews(
            connection, undecided=call.query.open, below=below, limit=call.query.limit + 1
        )
    return cursors.page(found, call.query, lambda row: row.id)


async def get_review(call: Call[ReviewPath, Nothing, None]) -> Review:
    """One review."""
    async with call.transaction() as connection:
        return there(await shown.review(connection, call.path.review), "review")


async def list_records(call: Call[Nothing, RecordsQuery, None]) -> Page[Record]:
    """List the confirmed records, the newest first."""
    after = cursors.key_of(call.query, _After)
    async with call.transaction() as connection:
        found = await shown.records(connection, kind=call.query.kind, after=after, limit=call.query.limit + 1)
    return cursors.page(found, call.query, lambda row: (row.confirmed_at, row.id))


async def get_record(call: Call[RecordPath, Nothing, None]) -> Record:
    """One confirmed record."""
    async with call.transaction() as connection:
        return there(await shown.record(connection, call.path.record), "record")


OPERATIONS = [
    Operation("GET", "/documents", list_documents, Scope.READ, "Documents"),
    Operation("GET", "/documents/{document}", get_document, Scope.READ, "Documents"),
    Operation(
        "GET",
        "/documents/{document}/content",
        get_document_content,
        Scope.READ,
        "Documents",
        answers="application/octet-stream",
    ),
    Operation("GET", "/reviews", list_reviews, Scope.READ, "Documents"),
    Operation("GET", "/reviews/{review}", get_review, Scope.READ, "Documents"),
    Operation("GET", "/records", list_records, Scope.READ, "Records"),
    Operation("GET", "/records/{record}", get_record, Scope.READ, "Records"),
]
