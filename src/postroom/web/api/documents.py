"""The API over documents, reviews and records: what there is to read. Decisions change them."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from starlette.responses import Response

from postroom.api_types import (
    BigInt,
    DocumentDetail,
    DocumentResource,
    RecordResource,
    ResultPage,
    ReviewResource,
)
from postroom.model import Scope
from postroom.store.views import documents as shown
from postroom.web.api import http_content, paging
from postroom.web.api.operations import ApiCall, NoParameters, Operation, PageQuery, require_found

State = Literal["queued", "processing", "completed", "skipped", "needs_review", "failed"]
Name = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00]*$")]
_After = tuple[datetime, UUID]


class DocumentPath(msgspec.Struct, frozen=True):
    document: UUID


class ReviewPath(msgspec.Struct, frozen=True):
    review: BigInt


class RecordPath(msgspec.Struct, frozen=True):
    record: UUID


class DocumentsQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    state: State | None = None
    pipeline: Name | None = None


class ReviewsQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    open: bool | None = None


class RecordsQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    kind: Name | None = None


async def list_documents(call: ApiCall[NoParameters, DocumentsQuery, None]) -> ResultPage[DocumentResource]:
    """List the documents, the newest first."""
    after, asked = paging.parse_cursor(call.query, _After), call.query
    async with call.transaction() as connection:
        found = await shown.documents(
            connection, state=asked.state, pipeline=asked.pipeline, after=after, limit=asked.limit + 1
        )
    return paging.build_page(found, asked, lambda row: (row.created_at, row.id))


async def get_document(call: ApiCall[DocumentPath, NoParameters, None]) -> DocumentDetail:
    """One document: its state, where it came from and what was read."""
    async with call.transaction() as connection:
        found = require_found(await shown.document(connection, call.path.document), "document")
        return DocumentDetail(
            found,
            await shown.arrivals(connection, found.id),
            await shown.extraction(connection, found.id),
        )


async def get_document_content(call: ApiCall[DocumentPath, NoParameters, None]) -> Response:
    """The bytes of a document, or a range of them."""
    async with call.transaction() as connection:
        found = require_found(await shown.document(connection, call.path.document), "document")
        came = await shown.arrivals(connection, found.id)
    name = next((each.file_name for each in came if each.file_name), str(found.id))
    return await http_content.respond_with_blob(call, bytes.fromhex(found.sha256), found.media_type, name)


async def list_reviews(call: ApiCall[NoParameters, ReviewsQuery, None]) -> ResultPage[ReviewResource]:
    """List the questions to people about documents, the newest first."""
    below = paging.parse_number_cursor(call.query)
    async with call.transaction() as connection:
        found = await shown.reviews(
            connection, undecided=call.query.open, below=below, limit=call.query.limit + 1
        )
    return paging.build_page(found, call.query, lambda row: row.id)


async def get_review(call: ApiCall[ReviewPath, NoParameters, None]) -> ReviewResource:
    """One review."""
    async with call.transaction() as connection:
        return require_found(await shown.review(connection, call.path.review), "review")


async def list_records(call: ApiCall[NoParameters, RecordsQuery, None]) -> ResultPage[RecordResource]:
    """List the confirmed records, the newest first."""
    after = paging.parse_cursor(call.query, _After)
    async with call.transaction() as connection:
        found = await shown.records(connection, kind=call.query.kind, after=after, limit=call.query.limit + 1)
    return paging.build_page(found, call.query, lambda row: (row.confirmed_at, row.id))


async def get_record(call: ApiCall[RecordPath, NoParameters, None]) -> RecordResource:
    """One confirmed record."""
    async with call.transaction() as connection:
        return require_found(await shown.record(connection, call.path.record), "record")


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
