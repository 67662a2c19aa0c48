"""Document pages: one document with its fields, and the decisions of its review.

The list is in `business_lists`, the fields are in `field_views`, what surrounds a review in `review_view`,
the record in `record_changes`, images in `document_viewer`. The decisions are in `flow.documents.review`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.documents.fields.extraction_result import OFFLINE_READER
from postroom.documents.page_ranges import CHECK_NAME
from postroom.documents.stored_extraction import StoredCheck
from postroom.errors import ChecksFailed, InvalidField, NotFound, PermanentError
from postroom.flow.documents import review, value_checks
from postroom.flow.documents.route import MACHINE
from postroom.flow.documents.split import PDF
from postroom.model import DocumentState, Role
from postroom.store import document_files, documents, records, reviews
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.store.records import ExtractionRow, RecordState
from postroom.store.reviews import Correction, Review
from postroom.store.views import actor_names
from postroom.web import field_labels, field_views, forms, pages, record_changes, review_view
from postroom.web.document_context import DocumentPagesContext, get_document
from postroom.web.field_views import RejectedDecision
from postroom.web.record_changes import RecordView
from postroom.web.review_view import ReviewPanel
from postroom.web.sessions import get_visitor, member_route

STATE_NAMES: Final[Mapping[DocumentState, str]] = {
    DocumentState.NEEDS_REVIEW: "Needs review",
    DocumentState.QUEUED: "Queued",
    DocumentState.PROCESSING: "Processing",
    DocumentState.COMPLETED: "Completed",
    DocumentState.SKIPPED: "Skipped",
    DocumentState.FAILED: "Failed",
}


# Other readers are shown by their own name, such as `anthropic:claude-sonnet-4`.
_READER_NAMES: Final[Mapping[str, str]] = {OFFLINE_READER: "offline reader"}
_PAGES: Final = re.compile(r"Pages (\S+) have")
# An invoice can have thousands of line items, each with several cells.
MAX_FORM_BYTES: Final = 2**20
MAX_FORM_FIELDS: Final = 10_000
ACTIONS: Final = frozenset(
    {"confirm", "reject", "retry", "unlock", "split", "checks", "comment", "assign", "undo"}
)


def routes(context: DocumentPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/documents/{document:uuid}", partial(document_page, context)),
        member_route(
            site,
            "/documents/{document:uuid}/record/{action}",
            partial(change_record, context),
            Role.REVIEWER,
            methods=["POST"],
        ),
        member_route(
            site, "/documents/{document:uuid}/record/{action}", partial(redirect_to_document, context)
        ),
        member_route(
            site,
            "/documents/{document:uuid}/{action}",
            partial(decide, context),
            Role.REVIEWER,
            methods=["POST"],
        ),
        member_route(site, "/documents/{document:uuid}/{action}", partial(redirect_to_document, context)),
    ]


async def redirect_to_document(context: DocumentPagesContext, request: Request) -> Response:
    """Show the document when the URL of a decision is opened with GET, for example by a reload."""
    if request.path_params["action"] not in ACTIONS | record_changes.ACTIONS:
        raise HTTPException(404)
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        document = await get_document(connection, request.path_params["document"])
    return RedirectResponse(f"/documents/{document.id}", 303)


async def document_page(
    context: DocumentPagesContext, request: Request, rejected: RejectedDecision | None = None
) -> Response:
    """Show a document; after a failed decision, with the submitted values and the error."""
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        document = await get_document(connection, request.path_params["document"])
        values = await _load_page(connection, context, request, document, rejected)
    return pages.render_page(
        request,
        "document.html",
        409 if rejected else 200,
        document=document,
        state=STATE_NAMES[document.state],
        problem=rejected.message if rejected else None,
        form=rejected.form if rejected else {},
        now=datetime.now(UTC),
        **values,
    )


def _suggest_split(document: Document, checks: Sequence[StoredCheck], pages: int) -> str | None:
    """The pages at which a document could be split; empty if only a person knows; None if it cannot be."""
    if (
        document.state not in review.RETRYABLE
        or document.media_type != PDF
        or pages < 2
        or document.needs_password
    ):
        return None
    found = next((_PAGES.search(check.words) for check in checks if check.name == CHECK_NAME), None)
    return found[1] if found else ""


async def _load_page(
    connection: Connection,
    context: DocumentPagesContext,
    request: Request,
    document: Document,
    rejected: RejectedDecision | None,
) -> dict[str, Any]:
    extraction = await records.get_newest_extraction(connection, document.id)
    history = await reviews.list_by_document(connection, document.id)
    view = await record_changes.load_view(connection, document)
    panel = await review_view.load_panel(connection, get_visitor(request), document)
    open_review = next((review for review in history if review.decision is None), None)
    correcting = _is_correcting(request, view)
    choices = shown = conflict = None
    if extraction and (open_review or correcting):
        choices = await record_changes.load_choices(connection, context.review, document, extraction)
        shown = await get_form_fields(connection, document, extraction)
    corrections = await reviews.get_corrections(connection, document.id)
    values = _get_shown_values(extraction, corrections, shown, rejected)
    if extraction and open_review:
        entered = value_checks.get_read_values(extraction) | values
        conflict = await review_view.find_conflict(connection, context.review, document, extraction, entered)
    layouts = await records.list_pages(connection, document.id)
    checks = await _list_checks(connection, context, document, extraction, values)
    fields = field_views.list_fields(
        context.review, document.pipeline, extraction, corrections, shown, rejected
    )
    return {
        "arrivals": await documents.list_arrivals(connection, document.id),
        "fields": fields,
        "checks": checks,
        "failed_checks": [check for check in checks if check.needs_override],
        "kind": field_labels.kind_label(extraction.kind) if extraction else None,
        "reader": _READER_NAMES.get(extraction.reader, extraction.reader) if extraction else None,
        "parts": await document_files.list_parts(connection, document.id),
        "split_pages": _suggest_split(document, checks, len(layouts)),
        "view": view,
        "correcting": correcting,
        "choices": choices,
        "conflict": conflict,
        "panel": panel,
        "reviews": history,
        "open_review": open_review,
        "sheets": [
            (number, layout[0], layout[1], [field for field in fields if field.page == number])
            for number, layout in enumerate(layouts)
        ],
        "people": await _find_people(connection, history, view, panel),
    }


async def _find_people(
    connection: Connection, history: Sequence[Review], view: RecordView | None, panel: ReviewPanel
) -> dict[str, str]:
    """The names of those who decided, changed the record, or commented, by actor."""
    actors = [review.actor_id for review in history] + [comment.actor_id for comment in panel.comments]
    actors += [version.actor_id for version in view.versions] if view else []
    return {**await actor_names.find_names(connection, actors), MACHINE: "Postroom"}


def _is_correcting(request: Request, view: RecordView | None) -> bool:
    """Whether the page shows the fields of a confirmed record for correction."""
    is_asked = "correct" in (request.path_params.get("action"), *request.query_params)
    return is_asked and view is not None and view.record.state is RecordState.CONFIRMED


async def get_form_fields(
    connection: Connection, document: Document, extraction: ExtractionRow | None
) -> Mapping[str, Any]:
    """The fields that a form shows: as read, with the values of the record where there is one."""
    if extraction is None:
        return {}
    known = await value_checks.get_known_values(connection, document, extraction)
    return record_changes.overlay_values(extraction.fields, known)


def _get_shown_values(
    extraction: ExtractionRow | None,
    corrections: Mapping[str, Correction],
    shown: Mapping[str, Any] | None,
    rejected: RejectedDecision | None,
) -> dict[str, Any]:
    """Those of the values that the page shows which differ from what was read: entered, else corrected."""
    if extraction is None or shown is None:
        return {name: correction.right_value for name, correction in corrections.items()}
    entered = {name: field.get("value") for name, field in shown.items()}
    entered |= field_views.find_corrections(shown, rejected.form) if rejected else {}
    return value_checks.find_changes(value_checks.get_read_values(extraction), entered)


async def _list_checks(
    connection: Connection,
    context: DocumentPagesContext,
    document: Document,
    extraction: ExtractionRow | None,
    values: Mapping[str, Any],
) -> Sequence[StoredCheck]:
    """The checks of the values that the page shows."""
    if extraction is None:
        return []
    return await value_checks.check_values(connection, context.review, document, extraction, values)


async def decide(context: DocumentPagesContext, request: Request) -> Response:
    """Confirm, reject or retry the document, then open the next one that needs review."""
    visitor = get_visitor(request)
    document: UUID = request.path_params["document"]
    action: str = request.path_params["action"]
    form = await forms.read(request, max_bytes=MAX_FORM_BYTES, max_fields=MAX_FORM_FIELDS)
    try:
        async with context.site.database.transaction(visitor.organization) as connection:
            match action:
                case "confirm":
                    await review.confirm(
                        connection,
                        context.review,
                        visitor.organization,
                        document,
                        actor=visitor.actor,
                        corrections=await _read_corrections(connection, document, form),
                        override=form.get("override", "").splitlines(),
                        order=record_changes.parse_order(form),
                        replaces=await _find_replaced(connection, document, form),
                    )
                case "reject":
                    reason = form.get("reason", "").strip() or "not for this pipeline"
                    await review.reject(
                        connection,
                        context.review,
                        visitor.organization,
                        document,
                        actor=visitor.actor,
                        reason=reason,
                    )
                case "retry":
                    await review.retry(connection, visitor.organization, document, actor=visitor.actor)
                case _:
                    raise HTTPException(404)
    except PermanentError as error:
        return await _respond_to_error(context, request, form, error)
    target = f"/documents/{document}" if action == "retry" else f"/documents/next?after={document}"
    return RedirectResponse(target, 303)


async def change_record(context: DocumentPagesContext, request: Request) -> Response:
    """Reopen, correct, void, merge or split the record of the document, then show the document."""
    document_id: UUID = request.path_params["document"]
    form = await forms.read(request, max_bytes=MAX_FORM_BYTES, max_fields=MAX_FORM_FIELDS)
    try:
        async with context.site.database.transaction(get_visitor(request).organization) as connection:
            document = await get_document(connection, document_id)
            change = record_changes.build_change(request, document, form)
            corrections = await _read_corrections(connection, document_id, form)
            await record_changes.change_record(
                connection, context.review, change, document, request.path_params["action"], form, corrections
            )
    except PermanentError as error:
        return await _respond_to_error(context, request, form, error)
    return RedirectResponse(f"/documents/{document_id}", 303)


async def _respond_to_error(
    context: DocumentPagesContext, request: Request, form: Mapping[str, str], error: PermanentError
) -> Response:
    """Show the document with the submitted values and the error."""
    match error:
        case NotFound():
            raise HTTPException(404) from None
        case InvalidField():
            return await document_page(context, request, RejectedDecision(describe_error(error), form, error))
        case ChecksFailed():
            return await document_page(
                context, request, RejectedDecision(_describe_failed_checks(error), form)
            )
        case _:
            return await document_page(context, request, RejectedDecision(str(error), form))


def _describe_failed_checks(error: ChecksFailed) -> str:
    count = "A check fails" if len(error.checks) == 1 else f"{len(error.checks)} checks fail"
    return (
        f"{count} with these values. Correct them, or tick the box under “Failed checks” to save them anyway."
    )


def describe_error(error: InvalidField) -> str:
    """The error's message, with labels in place of field and column names."""
    message = str(error)
    for name in filter(None, (error.field, error.column)):
        message = re.sub(rf"\b{re.escape(name)}\b", field_labels.in_sentence(name), message, count=1)
    return message


async def _read_corrections(
    connection: Connection, document: UUID, form: Mapping[str, str]
) -> dict[str, Any]:
    extraction = await records.get_newest_extraction(connection, document)
    found = await documents.get(connection, document)
    return field_views.find_corrections(
        await get_form_fields(connection, found, extraction) if found else {}, form
    )


async def _find_replaced(connection: Connection, document: UUID, form: Mapping[str, str]) -> UUID | None:
    name = form.get("replaced_record") or form.get("replaces", "")
    found = await documents.get(connection, document)
    return (
        await record_changes.find_record(connection, name, found.pipeline) if name.strip() and found else None
    )
