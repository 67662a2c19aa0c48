"""The API where documents are taken in and decided about, as people do it on the pages."""

from typing import Annotated
from uuid import UUID

import msgspec
from starlette.requests import Request

from postroom.api_types import Confirmation, DocumentResource, RecordResource, Rejection, ReviewResource
from postroom.flow.documents import review as flow
from postroom.flow.documents import upload
from postroom.flow.documents.upload import UPLOADER, Upload
from postroom.model import Scope
from postroom.store.database import Connection
from postroom.store.views import documents as shown
from postroom.web.api import http_content
from postroom.web.api.documents import DocumentPath, Name, ReviewPath
from postroom.web.api.operations import ApiCall, ApiProblem, NoParameters, Operation, require_found


class UploadQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pipeline: Name
    file_name: Annotated[Name, msgspec.Meta(min_length=1)]
    sender: Annotated[Name, msgspec.Meta(description="Whom the archive names as sender.")] = UPLOADER


async def upload_document(call: ApiCall[NoParameters, UploadQuery, bytes]) -> list[DocumentResource]:
    """Take in a file, as if it had come by mail: its document, or those of the files inside it.

    The body is the file. The same bytes are the same document, however often they come.
    """
    pipeline = call.context.reviewing.pipelines.get(call.query.pipeline)
    if pipeline is None:
        raise ApiProblem(404, "not-found", "There is no such pipeline.")
    database, organization = call.context.desk.database, call.caller.organization
    given = Upload(call.query.file_name, call.body, call.query.sender)
    taken = await upload.add(database, call.context.blobs, organization, pipeline, given)
    async with call.transaction() as connection:
        found = [await shown.document(connection, each.document) for each in taken]
    return [each for each in found if each is not None]


async def read_document_again(call: ApiCall[DocumentPath, NoParameters, None]) -> DocumentResource:
    """Read a document anew that failed, was skipped, or waits for a person."""
    caller, document = call.caller, call.path.document
    async with call.transaction() as connection:
        await _document(connection, document)
        await flow.read_again(connection, caller.organization, document, actor=caller.actor)
        return await _document(connection, document)


async def confirm_review(call: ApiCall[ReviewPath, NoParameters, Confirmation]) -> RecordResource:
    """Vouch for what was read, with corrections where it is wrong; the record that came of it.

    A correction that is empty or null says that the document does not tell that field. Of a table, such as
    the lines of an invoice, all rows are given. `If-Match` guards against decisions in between.
    """
    caller = call.caller
    async with call.transaction() as connection:
        asked = await _get_open_review(connection, call.path.review, call.request)
        record = await flow.confirm(
            connection,
            call.context.reviewing,
            caller.organization,
            asked.document_id,
            actor=caller.actor,
            corrections=call.body.corrections,
        )
        found = await shown.record(connection, record)
    assert found, "the decision made it or found it"
    return found


async def reject_review(call: ApiCall[ReviewPath, NoParameters, Rejection]) -> ReviewResource:
    """Say that the document is nothing for its pipeline. `If-Match` guards against decisions in between."""
    caller = call.caller
    async with call.transaction() as connection:
        asked = await _get_open_review(connection, call.path.review, call.request)
        await flow.reject(
            connection,
            call.context.reviewing,
            caller.organization,
            asked.document_id,
            actor=caller.actor,
            reason=call.body.reason,
        )
        return await _review(connection, asked.id)


async def _get_open_review(connection: Connection, review: int, request: Request) -> ReviewResource:
    """The review, while it is open and as the caller thinks it is."""
    found = await _review(connection, review)
    http_content.require_if_match(request, found)
    if found.decision is not None:
        raise ApiProblem(409, "decided", f"This review was {found.decision} before.")
    return found


async def _review(connection: Connection, review: int) -> ReviewResource:
    return require_found(await shown.review(connection, review), "review")


async def _document(connection: Connection, document: UUID) -> DocumentResource:
    return require_found(await shown.document(connection, document), "document")


OPERATIONS = [
    Operation("POST", "/documents", upload_document, Scope.DOCUMENTS, "Documents", 201),
    Operation("POST", "/documents/{document}/again", read_document_again, Scope.DOCUMENTS, "Documents", 202),
    Operation(
        "POST", "/reviews/{review}/confirm", confirm_review, Scope.DOCUMENTS, "Documents", matched=True
    ),
    Operation("POST", "/reviews/{review}/reject", reject_review, Scope.DOCUMENTS, "Documents", matched=True),
]
