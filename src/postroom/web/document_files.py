"""What a person does with the file of a document: give its password, split it.

The page itself and the decisions about fields are in `documents`.
"""

from functools import partial
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.documents.page_ranges import parse_ranges
from postroom.errors import NotFound, PermanentError
from postroom.flow.documents import split, unlock
from postroom.model import Role, Secret
from postroom.web import forms
from postroom.web.document_context import DocumentPagesContext
from postroom.web.documents import RejectedDecision, document_page
from postroom.web.sessions import get_visitor, member_route


def routes(context: DocumentPagesContext) -> list[Route]:
    """The routes. They come before those of `documents`, which match every other action."""
    return [
        member_route(
            context.site,
            "/documents/{document:uuid}/unlock",
            partial(unlock_document, context),
            Role.REVIEWER,
            methods=["POST"],
        ),
        member_route(
            context.site,
            "/documents/{document:uuid}/split",
            partial(split_document, context),
            Role.REVIEWER,
            methods=["POST"],
        ),
    ]


async def split_document(context: DocumentPagesContext, request: Request) -> Response:
    """Split the file at the submitted pages, and show the original with links to its parts."""
    visitor = get_visitor(request)
    document: UUID = request.path_params["document"]
    form = await forms.read(request)
    try:
        await split.split(
            context.site.database,
            context.blobs,
            context.sandbox,
            context.review,
            visitor.organization,
            document,
            parse_ranges(form.get("pages", "")),
            actor=visitor.actor,
        )
    except NotFound:
        raise HTTPException(404) from None
    except PermanentError as error:
        return await document_page(context, request, RejectedDecision(str(error), form))
    return RedirectResponse(f"/documents/{document}", 303)


async def unlock_document(context: DocumentPagesContext, request: Request) -> Response:
    """Open the file with the submitted password, which is not stored, and queue the document."""
    visitor = get_visitor(request)
    document: UUID = request.path_params["document"]
    password = Secret((await forms.read(request)).get("password", ""))
    try:
        await unlock.unlock(
            context.site.database,
            context.blobs,
            context.sandbox,
            visitor.organization,
            document,
            password,
            actor=visitor.actor,
        )
    except NotFound:
        raise HTTPException(404) from None
    except PermanentError as error:
        return await document_page(context, request, RejectedDecision(str(error), {}))
    return RedirectResponse(f"/documents/{document}", 303)
