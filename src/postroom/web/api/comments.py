"""API operations on comments and assignment: how people share the work on documents."""

from dataclasses import asdict
from typing import Annotated

import msgspec

from postroom.api_types import CommentResource, DocumentResource, ResultPage, Text
from postroom.flow.documents import collaboration
from postroom.flow.documents.collaboration import MAX_COMMENT
from postroom.model import Scope
from postroom.store import comments
from postroom.store.views import documents as views
from postroom.web.api import paging
from postroom.web.api.documents import DocumentPath
from postroom.web.api.operations import ApiCall, NoParameters, Operation, PageQuery, require_found


class NewComment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_COMMENT, pattern=r"^[^\x00]*$")]


class Assignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address of the member who is to review a document; null for no one."""

    assignee: Text | None


async def list_comments(call: ApiCall[DocumentPath, PageQuery, None]) -> ResultPage[CommentResource]:
    """List the comments on a document, newest first."""
    document, below = call.path.document, paging.parse_number_cursor(call.query)
    async with call.transaction() as connection:
        require_found(await views.get_document(connection, document), "document")
        found = await comments.list_by_document(connection, document, below=below, limit=call.query.limit + 1)
    rows = [CommentResource(**asdict(comment)) for comment in found]
    return paging.build_page(rows, call.query, lambda row: row.id)


async def add_comment(call: ApiCall[DocumentPath, NoParameters, NewComment]) -> CommentResource:
    """Comment on a document."""
    caller, document = call.caller, call.path.document
    async with call.transaction() as connection:
        require_found(await views.get_document(connection, document), "document")
        comment = await collaboration.add_comment(
            connection, caller.organization, document, call.body.text, actor=caller.actor
        )
    return CommentResource(**asdict(comment))


async def assign_document(call: ApiCall[DocumentPath, NoParameters, Assignment]) -> DocumentResource:
    """Assign a document that needs review to a member, or to no one.

    It leaves the review queues of the other members. They can still confirm or reject it.
    """
    caller, document = call.caller, call.path.document
    async with call.transaction() as connection:
        require_found(await views.get_document(connection, document), "document")
        address = call.body.assignee
        assignee = await collaboration.find_member(connection, address) if address else None
        await collaboration.assign(connection, caller.organization, document, assignee, actor=caller.actor)
        return require_found(await views.get_document(connection, document), "document")


OPERATIONS = [
    Operation("GET", "/documents/{document}/comments", list_comments, Scope.READ, "Documents"),
    Operation("POST", "/documents/{document}/comments", add_comment, Scope.DOCUMENTS, "Documents", 201),
    Operation("POST", "/documents/{document}/assign", assign_document, Scope.DOCUMENTS, "Documents"),
]
