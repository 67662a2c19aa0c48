"""Document pages: the list, one document with its fields, page images, download, review decisions.

The fields are in `field_views`, the record in `records`. The decisions are in `flow.documents.review`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import quote
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.documents.fields.extraction_result import OFFLINE_READER
from postroom.documents.page_ranges import CHECK_NAME
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.documents.stored_extraction import StoredCheck
from postroom.errors import ChecksFailed, InvalidField, NotFound, PermanentError, UnreadableFile
from postroom.flow.documents import review, value_checks
from postroom.flow.documents.route import MACHINE
from postroom.flow.documents.split import PDF
from postroom.flow.documents.value_checks import ReviewContext
from postroom.flow.storage.blob_reading import read_blob
from postroom.model import DocumentState, Role
from postroom.ports import BlobStore
from postroom.store import document_files, documents, records, reviews
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.store.records import ExtractionRow, RecordState
from postroom.store.reviews import Correction
from postroom.store.views import actor_names
from postroom.web import field_labels, field_views, forms, pages
from postroom.web import records as record_pages
from postroom.web.field_views import RejectedDecision
from postroom.web.records import RecordView
from postroom.web.sessions import SiteContext, get_visitor, member_route

IMAGE_WIDTH: Final = 1100
PAGE_SIZE: Final = 50
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
_MAX_FORM_BYTES: Final = 2**20
_MAX_FORM_FIELDS: Final = 10_000
ACTIONS: Final = frozenset({"confirm", "reject", "again", "unlock", "split"})


@dataclass(frozen=True)
class DocumentPagesContext:
    """Collaborators of the document pages."""

    site: SiteContext
    blobs: BlobStore
    sandbox: FileSandbox
    review: ReviewContext


def routes(context: DocumentPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/documents", partial(list_page, context)),
        member_route(site, "/documents/next", partial(redirect_to_next, context)),
        member_route(site, "/documents/{document:uuid}", partial(document_page, context)),
        member_route(site, "/documents/{document:uuid}/pages/{page:int}", partial(page_image, context)),
        member_route(site, "/documents/{document:uuid}/file", partial(download, context)),
        member_route(site, "/records/{record:uuid}", partial(record_pages.redirect_to_document, site)),
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


async def list_page(context: DocumentPagesContext, request: Request) -> Response:
    """List all documents except skipped ones, or those in one state. A script reloads it on changes."""
    query = request.query_params
    state = DocumentState(query["state"]) if query.get("state") in set(DocumentState) else None
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await documents.list_summaries(
            connection,
            state=state,
            skipped=state is DocumentState.SKIPPED,
            before=_parse_position(query.get("before")),
            limit=PAGE_SIZE + 1,
        )
        counts = await documents.count_by_state(connection)
    return pages.render_page(
        request,
        "documents.html",
        documents=found[:PAGE_SIZE],
        older=_format_position(found) if len(found) > PAGE_SIZE else None,
        state=state,
        states=[(value, name, counts.get(value, 0)) for value, name in STATE_NAMES.items()],
        state_names=STATE_NAMES,
        total=sum(counts.values()),
        shown=sum(counts.values()) - counts.get(DocumentState.SKIPPED, 0),
        now=datetime.now(UTC),
    )


def _format_position(listed: list[documents.DocumentSummary]) -> str:
    last = listed[PAGE_SIZE - 1]
    return quote(f"{last.created_at.isoformat()}/{last.id}", safe="")


def _parse_position(text: str | None) -> tuple[datetime, UUID] | None:
    moment, _, document = (text or "").partition("/")
    try:
        return datetime.fromisoformat(moment), UUID(document)
    except ValueError:
        return None


async def redirect_to_next(context: DocumentPagesContext, request: Request) -> Response:
    """Open the next document that needs review: after the given one, or else the oldest."""
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await documents.find_next_for_review(
            connection, after=_parse_uuid(request.query_params.get("after"))
        )
    return RedirectResponse(f"/documents/{found}" if found else "/documents?state=needs_review", 303)


def _parse_uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text or "")
    except ValueError:
        return None


async def redirect_to_document(context: DocumentPagesContext, request: Request) -> Response:
    """Show the document when the URL of a decision is opened with GET, for example by a reload."""
    if request.path_params["action"] not in ACTIONS | record_pages.ACTIONS:
        raise HTTPException(404)
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        document = await _get_document(connection, request.path_params["document"])
    return RedirectResponse(f"/documents/{document.id}", 303)


async def document_page(
    context: DocumentPagesContext, request: Request, rejected: RejectedDecision | None = None
) -> Response:
    """Show a document; after a failed decision, with the submitted values and the error."""
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        document = await _get_document(connection, request.path_params["document"])
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
        document.state not in review.REPROCESSABLE
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
    view = await record_pages.load_view(connection, document)
    open_review = next((review for review in history if review.decision is None), None)
    correcting = _is_correcting(request, view)
    choices = shown = None
    if extraction and (open_review or correcting):
        choices = await record_pages.load_choices(connection, context.review, document, extraction)
        shown = await _get_form_fields(connection, document, extraction)
    corrections = await reviews.get_corrections(connection, document.id)
    layouts = await records.list_pages(connection, document.id)
    actors = [review.actor_id for review in history]
    actors += [version.actor_id for version in view.versions] if view else []
    checks = await _list_checks(connection, context, document, extraction, corrections, shown, rejected)
    identities = context.review.routing.identities
    fields = field_views.list_fields(identities, extraction, corrections, shown, rejected)
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
        "reviews": history,
        "open_review": open_review,
        "page_fields": [
            (number, [field for field in fields if field.page == number]) for number in range(len(layouts))
        ],
        "waiting": (await documents.count_by_state(connection)).get(DocumentState.NEEDS_REVIEW, 0),
        "people": {**await actor_names.find_names(connection, actors), MACHINE: "Postroom"},
    }


def _is_correcting(request: Request, view: RecordView | None) -> bool:
    """Whether the page shows the fields of a confirmed record for correction."""
    is_asked = "correct" in (request.path_params.get("action"), *request.query_params)
    return is_asked and view is not None and view.record.state is RecordState.CONFIRMED


async def _get_form_fields(
    connection: Connection, document: Document, extraction: ExtractionRow | None
) -> Mapping[str, Any]:
    """The fields that a form shows: as read, with the values of the record where there is one."""
    if extraction is None:
        return {}
    known = await value_checks.get_known_values(connection, document, extraction)
    return record_pages.overlay_values(extraction.fields, known)


async def _list_checks(
    connection: Connection,
    context: DocumentPagesContext,
    document: Document,
    extraction: ExtractionRow | None,
    corrections: Mapping[str, Correction],
    shown: Mapping[str, Any] | None,
    rejected: RejectedDecision | None,
) -> Sequence[StoredCheck]:
    """The checks of the values that the page shows: as entered, else as corrected, else as read."""
    if extraction is None:
        return []
    values = {name: correction.right_value for name, correction in corrections.items()}
    if shown is not None:
        entered = {name: field.get("value") for name, field in shown.items()}
        entered |= field_views.find_corrections(shown, rejected.form) if rejected else {}
        values = value_checks.find_changes(value_checks.get_read_values(extraction), entered)
    return await value_checks.check_values(connection, context.review, document, extraction, values)


async def _get_document(connection: Connection, document: UUID) -> Document:
    found = await documents.get(connection, document)
    if found is None:
        raise HTTPException(404)
    return found


async def page_image(context: DocumentPagesContext, request: Request) -> Response:
    """Render one page of the document as an image, in a sandboxed child process."""
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        document = await _get_document(connection, request.path_params["document"])
        page_layouts = await records.list_pages(connection, document.id)
    number: int = request.path_params["page"]
    if number >= len(page_layouts):
        raise HTTPException(404)
    rotation: Literal[0, 90, 180, 270] = page_layouts[number][2]
    content = await read_blob(context.blobs, organization, document.readable_sha256)
    try:
        image = await context.sandbox.page_image(content, page=number, width=IMAGE_WIDTH, rotation=rotation)
    except UnreadableFile:
        raise HTTPException(404) from None
    # The bytes of a document never change, but reading it again may detect another page rotation.
    return Response(image, media_type="image/webp", headers={"cache-control": "private, max-age=300"})


async def download(context: DocumentPagesContext, request: Request) -> Response:
    """Send the original file as a download: the browser must not render it."""
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        document = await _get_document(connection, request.path_params["document"])
        arrivals = await documents.list_arrivals(connection, document.id)
    content = await read_blob(context.blobs, organization, document.sha256)
    name = quote(arrivals[0].file_name or "document", safe="")
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"},
    )


async def decide(context: DocumentPagesContext, request: Request) -> Response:
    """Confirm, reject or reprocess the document, then open the next one that needs review."""
    visitor = get_visitor(request)
    document: UUID = request.path_params["document"]
    action: str = request.path_params["action"]
    form = await forms.read(request, max_bytes=_MAX_FORM_BYTES, max_fields=_MAX_FORM_FIELDS)
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
                        order=record_pages.parse_order(form),
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
                case "again":
                    await review.read_again(connection, visitor.organization, document, actor=visitor.actor)
                case _:
                    raise HTTPException(404)
    except PermanentError as error:
        return await _respond_to_error(context, request, form, error)
    target = f"/documents/{document}" if action == "again" else f"/documents/next?after={document}"
    return RedirectResponse(target, 303)


async def change_record(context: DocumentPagesContext, request: Request) -> Response:
    """Reopen, correct, void, merge or split the record of the document, then show the document."""
    document_id: UUID = request.path_params["document"]
    form = await forms.read(request, max_bytes=_MAX_FORM_BYTES, max_fields=_MAX_FORM_FIELDS)
    try:
        async with context.site.database.transaction(get_visitor(request).organization) as connection:
            document = await _get_document(connection, document_id)
            change = record_pages.build_change(request, document, form)
            corrections = await _read_corrections(connection, document_id, form)
            await record_pages.change_record(
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
            return await document_page(
                context, request, RejectedDecision(_describe_error(error), form, error)
            )
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


def _describe_error(error: InvalidField) -> str:
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
        await _get_form_fields(connection, found, extraction) if found else {}, form
    )


async def _find_replaced(connection: Connection, document: UUID, form: Mapping[str, str]) -> UUID | None:
    name, found = form.get("replaces", ""), await documents.get(connection, document)
    return (
        await record_pages.find_record(connection, name, found.pipeline) if name.strip() and found else None
    )
