"""API operations on documents: list, get, download, upload, unlock, split, retry and reject."""

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

import msgspec
from starlette.responses import Response

from postroom.api_types import (
    DocumentDetail,
    DocumentPassword,
    DocumentResource,
    DocumentSplit,
    Rejection,
    ResultPage,
)
from postroom.documents.page_ranges import parse_ranges
from postroom.flow.documents import review as flow
from postroom.flow.documents import split, unlock, upload, value_checks
from postroom.flow.documents.upload import Upload
from postroom.flow.documents.value_checks import ReviewContext
from postroom.model import UPLOADER, Scope, Secret
from postroom.store import document_files, documents, records, reviews
from postroom.store.connection import Connection
from postroom.store.lists.documents import DOCUMENTS
from postroom.store.views import documents as views
from postroom.web.api import http_content, list_queries
from postroom.web.api.list_queries import DocumentsQuery
from postroom.web.api.operations import ApiCall, NoParameters, Operation, not_found, require_found

Name = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00]*$")]


class DocumentPath(msgspec.Struct, frozen=True):
    document: UUID


class UploadQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pipeline: Name
    file_name: Annotated[Name, msgspec.Meta(min_length=1)]
    sender: Annotated[Name, msgspec.Meta(description="The sender to record in the archive.")] = UPLOADER


async def list_documents(call: ApiCall[NoParameters, DocumentsQuery, None]) -> ResultPage[DocumentResource]:
    """List documents, newest first unless sorted otherwise.

    Filters and sorts have the same names as in the URL of the page `/documents`.
    """
    async with call.transaction() as connection:
        ids, following = await list_queries.read_ids(connection, DOCUMENTS, call.query)
        return ResultPage(await views.list_documents(connection, ids), following)


async def get_document(call: ApiCall[DocumentPath, NoParameters, None]) -> DocumentDetail:
    """Get a document with its arrivals and its latest extraction.

    `fields` are the values as read. `checks` are those of the values as corrected.
    """
    async with call.transaction() as connection:
        document = await _get_document(connection, call.path.document)
        arrivals = await views.list_arrivals(connection, document.id)
        extraction = await views.get_extraction(connection, document.id)
        if extraction:
            checks = await _compute_checks(connection, call.context.review, document.id)
            extraction = msgspec.structs.replace(extraction, checks=checks)
        parts = await document_files.list_parts(connection, document.id)
    return DocumentDetail(document, arrivals, extraction, [part.document for part in parts])


async def _compute_checks(
    connection: Connection, context: ReviewContext, document_id: UUID
) -> list[dict[str, Any]]:
    document = require_found(await documents.get(connection, document_id), "document")
    extraction = require_found(await records.get_newest_extraction(connection, document_id), "document")
    corrections = await reviews.get_corrections(connection, document_id)
    right = {name: correction.right_value for name, correction in corrections.items()}
    checks = await value_checks.check_values(connection, context, document, extraction, right)
    return [asdict(check) for check in checks]


async def get_document_content(call: ApiCall[DocumentPath, NoParameters, None]) -> Response:
    """Download the content of a document, or a range of it."""
    async with call.transaction() as connection:
        document = await _get_document(connection, call.path.document)
        arrivals = await views.list_arrivals(connection, document.id)
    name = next((arrival.file_name for arrival in arrivals if arrival.file_name), str(document.id))
    digest = bytes.fromhex(document.sha256)
    return await http_content.respond_with_blob(call, digest, document.media_type, name)


async def upload_document(call: ApiCall[NoParameters, UploadQuery, bytes]) -> list[DocumentResource]:
    """Upload a file to a pipeline, as if it had arrived by mail.

    The request body is the file. Returns its document, or for an archive one document per file inside.
    Uploading the same bytes again returns the same document.
    """
    pipeline = call.context.review.pipelines.get(call.query.pipeline)
    if pipeline is None:
        raise not_found("pipeline")
    context, organization = call.context, call.caller.organization
    file = Upload(call.query.file_name, call.body, call.query.sender)
    results = await upload.add(
        context.connect.database, context.blobs, context.sandbox, organization, pipeline, file
    )
    async with call.transaction() as connection:
        uploaded = [await views.get_document(connection, result.document) for result in results]
    return [document for document in uploaded if document is not None]


async def retry_document(call: ApiCall[DocumentPath, NoParameters, None]) -> DocumentResource:
    """Retry a document that failed, was skipped or needs review."""
    caller, document = call.caller, call.path.document
    async with call.transaction() as connection:
        await _get_document(connection, document)
        await flow.retry(connection, caller.organization, document, actor=caller.actor)
        return await _get_document(connection, document)


async def unlock_document(call: ApiCall[DocumentPath, NoParameters, DocumentPassword]) -> DocumentResource:
    """Unlock an encrypted document with its password, and process it.

    The password is used once and not stored. A wrong password is an error (409).
    """
    caller, document, context = call.caller, call.path.document, call.context
    async with call.transaction() as connection:
        await _get_document(connection, document)
    await unlock.unlock(
        context.connect.database,
        context.blobs,
        context.sandbox,
        caller.organization,
        document,
        Secret(call.body.password),
        actor=caller.actor,
    )
    async with call.transaction() as connection:
        return await _get_document(connection, document)


async def split_document(call: ApiCall[DocumentPath, NoParameters, DocumentSplit]) -> list[DocumentResource]:
    """Split a PDF that holds several documents, and get the documents of its parts.

    Every page belongs to one part. The original must have no record. It is marked completed and
    archived unchanged. Repeating the call with the same pages returns the same documents.
    """
    caller, document, context = call.caller, call.path.document, call.context
    async with call.transaction() as connection:
        await _get_document(connection, document)
    parts = await split.split(
        context.connect.database,
        context.blobs,
        context.sandbox,
        context.review,
        caller.organization,
        document,
        parse_ranges(call.body.pages),
        actor=caller.actor,
    )
    async with call.transaction() as connection:
        return [await _get_document(connection, part.document) for part in parts]


async def reject_document(call: ApiCall[DocumentPath, NoParameters, Rejection]) -> DocumentResource:
    """Reject a document that needs review, or dismiss one that failed."""
    caller, document = call.caller, call.path.document
    async with call.transaction() as connection:
        await _get_document(connection, document)
        await flow.reject(
            connection,
            call.context.review,
            caller.organization,
            document,
            actor=caller.actor,
            reason=call.body.reason,
        )
        return await _get_document(connection, document)


async def _get_document(connection: Connection, document: UUID) -> DocumentResource:
    return require_found(await views.get_document(connection, document), "document")


OPERATIONS = [
    Operation("GET", "/documents", list_documents, Scope.READ, "Documents"),
    Operation("POST", "/documents", upload_document, Scope.DOCUMENTS, "Documents", 201),
    Operation("GET", "/documents/{document}", get_document, Scope.READ, "Documents"),
    Operation(
        "GET",
        "/documents/{document}/content",
        get_document_content,
        Scope.READ,
        "Documents",
        media_type="application/octet-stream",
    ),
    Operation("POST", "/documents/{document}/retry", retry_document, Scope.DOCUMENTS, "Documents", 202),
    Operation(
        "POST",
        "/documents/{document}/unlock",
        unlock_document,
        Scope.DOCUMENTS,
        "Documents",
        202,
        secret_body=True,  # people's passwords can be guessed from a digest
    ),
    Operation("POST", "/documents/{document}/split", split_document, Scope.DOCUMENTS, "Documents", 201),
    Operation("POST", "/documents/{document}/reject", reject_document, Scope.DOCUMENTS, "Documents"),
]
