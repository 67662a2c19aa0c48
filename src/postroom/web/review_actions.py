"""Actions of the review page: open the next document, check values, comment, assign, undo.

The page itself, and confirming and rejecting, are in `documents`.
"""

from functools import partial
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import NotFound, PermanentError
from postroom.flow.documents import collaboration, review, value_checks
from postroom.model import MemberId, Role
from postroom.store import records, review_queue
from postroom.web import field_views, forms, pages, review_view
from postroom.web.document_context import DocumentPagesContext, get_document, parse_uuid
from postroom.web.documents import (
    MAX_FORM_BYTES,
    MAX_FORM_FIELDS,
    RejectedDecision,
    describe_error,
    document_page,
    get_form_fields,
)
from postroom.web.sessions import get_visitor, member_route


def routes(context: DocumentPagesContext) -> list[Route]:
    """The routes. They come before those of `documents`, which match every other action."""
    actions = {"checks": check_values, "comment": add_comment, "assign": assign, "undo": undo}
    return [
        member_route(context.site, "/documents/next", partial(redirect_to_next, context)),
        *(
            member_route(
                context.site,
                f"/documents/{{document:uuid}}/{name}",
                partial(endpoint, context),
                Role.REVIEWER,
                methods=["POST"],
            )
            for name, endpoint in actions.items()
        ),
    ]


async def redirect_to_next(context: DocumentPagesContext, request: Request) -> Response:
    """Open the next document in the visitor's queue: after the given one, or else the oldest."""
    visitor = get_visitor(request)
    async with context.site.database.transaction(visitor.organization) as connection:
        found = await review_queue.find_next(
            connection, visitor.member, after=parse_uuid(request.query_params.get("after"))
        )
    return RedirectResponse(f"/documents/{found}" if found else "/documents?state=needs_review", 303)


async def check_values(context: DocumentPagesContext, request: Request) -> Response:
    """The findings about the values in the form, computed as a decision would, as a part of the page."""
    form = await forms.read(request, max_bytes=MAX_FORM_BYTES, max_fields=MAX_FORM_FIELDS)
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        document = await get_document(connection, request.path_params["document"])
        extraction = await records.get_newest_extraction(connection, document.id)
        identity = context.review.routing.identities.get(extraction.kind) if extraction else None
        if extraction is None or identity is None:
            raise HTTPException(404)
        fields = await get_form_fields(connection, document, extraction)
        corrections = field_views.find_corrections(fields, form)
        valid, errors = value_checks.split_invalid(corrections, identity)
        entered = await value_checks.evaluate(connection, context.review, document, extraction, valid)
        conflict = await review_view.find_conflict(
            connection, context.review, document, extraction, entered.values
        )
    return pages.render_page(
        request,
        "findings.html",
        document=document,
        field_names=list(identity.shapes),
        checks=entered.checks,
        failed_checks=[check for check in entered.checks if check.needs_override],
        problems={name: describe_error(error) for name, error in errors.items()},
        conflict=conflict,
    )


async def add_comment(context: DocumentPagesContext, request: Request) -> Response:
    """Add a comment to the document."""
    visitor, document, form = get_visitor(request), request.path_params["document"], await forms.read(request)
    try:
        async with context.site.database.transaction(visitor.organization) as connection:
            text = form.get("text", "")
            await collaboration.add_comment(
                connection, visitor.organization, document, text, actor=visitor.actor
            )
    except PermanentError as error:
        return await _show_error(context, request, form, error)
    return RedirectResponse(f"/documents/{document}#comments", 303)


async def assign(context: DocumentPagesContext, request: Request) -> Response:
    """Assign the document, and open the next one if it went to another person."""
    visitor, form = get_visitor(request), await forms.read(request)
    document: UUID = request.path_params["document"]
    chosen = parse_uuid(form.get("assignee"))
    try:
        async with context.site.database.transaction(visitor.organization) as connection:
            assignee = MemberId(chosen) if chosen else None
            await collaboration.assign(
                connection, visitor.organization, document, assignee, actor=visitor.actor
            )
    except PermanentError as error:
        return await _show_error(context, request, form, error)
    is_own = chosen in {None, visitor.member}
    return RedirectResponse(f"/documents/{document}" if is_own else f"/documents/next?after={document}", 303)


async def undo(context: DocumentPagesContext, request: Request) -> Response:
    """Undo the visitor's decision about the document, and show it."""
    visitor, form = get_visitor(request), await forms.read(request)
    document: UUID = request.path_params["document"]
    try:
        async with context.site.database.transaction(visitor.organization) as connection:
            await review.undo(connection, context.review, visitor.organization, document, actor=visitor.actor)
    except PermanentError as error:
        return await _show_error(context, request, form, error)
    return RedirectResponse(f"/documents/{document}", 303)


async def _show_error(
    context: DocumentPagesContext, request: Request, form: dict[str, str], error: PermanentError
) -> Response:
    if isinstance(error, NotFound):
        raise HTTPException(404) from None
    return await document_page(context, request, RejectedDecision(str(error), form))
