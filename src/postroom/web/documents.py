"""Document pages: the list, one document with its fields, page images, download, review decisions.

Table fields of the form are in `table_fields`. The decisions themselves are in `flow.documents.review`.
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
from postroom.flow.documents import review
from postroom.flow.documents.review import ReviewContext
from postroom.flow.documents.route import MACHINE, RecordIdentity
from postroom.flow.documents.split import PDF
from postroom.flow.storage.blob_reading import read_blob
from postroom.model import DocumentState, Role
from postroom.ports import BlobStore
from postroom.store import document_files, documents, records, reviews
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.store.records import ExtractionRow
from postroom.store.reviews import Correction
from postroom.store.views import actor_names
from postroom.web import field_labels, forms, pages, table_fields
from postroom.web.sessions import SiteContext, get_visitor, member_route
from postroom.web.table_fields import TableField

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
# Shapes of fields that hold amounts of money.
_MONEY_SHAPES: Final = frozenset({"amount", "price", "rates", "lines"})
_PAGES: Final = re.compile(r"Pages (\S+) have")
_NOT_FOUND: Final[Mapping[str, Any]] = {}
# An invoice can have thousands of line items, each with several cells.
_MAX_FORM_BYTES: Final = 2**20
_MAX_FORM_FIELDS: Final = 10_000
ACTIONS: Final = frozenset({"confirm", "reject", "again", "unlock", "split"})


@dataclass(frozen=True, slots=True)
class RejectedDecision:
    """A decision that failed: the message, the submitted form, and the field that caused it."""

    message: str
    form: Mapping[str, str]
    error: InvalidField | None = None

    @property
    def field(self) -> str | None:
        return self.error.field if self.error else None


@dataclass(frozen=True)
class DocumentPagesContext:
    """Collaborators of the document pages."""

    site: SiteContext
    blobs: BlobStore
    sandbox: FileSandbox
    review: ReviewContext


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field as the page shows it.

    `box` is its position in thousandths of its page: left, top, width, height. `rejected_value` is what the
    reviewer submitted when the decision failed.
    """

    name: str
    label: str
    value: Any
    confidence: float
    evidence: str
    page: int | None
    box: tuple[int, int, int, int] | None
    rejected_value: str | None = None
    problem: str | None = None
    table: TableField | None = None
    correction: Correction | None = None

    @property
    def displayed_value(self) -> str:
        """The rejected value if there is one, else the extracted one."""
        if self.rejected_value is not None:
            return self.rejected_value
        return "" if self.value is None else str(self.value)

    @property
    def confidence_level(self) -> str:
        return "high" if self.confidence >= 0.95 else "middle" if self.confidence >= 0.8 else "low"


def routes(context: DocumentPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/documents", partial(list_page, context)),
        member_route(site, "/documents/next", partial(redirect_to_next, context)),
        member_route(site, "/documents/{document:uuid}", partial(document_page, context)),
        member_route(site, "/documents/{document:uuid}/pages/{page:int}", partial(page_image, context)),
        member_route(site, "/documents/{document:uuid}/file", partial(download, context)),
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
    if request.path_params["action"] not in ACTIONS:
        raise HTTPException(404)
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        document = await _get_document(connection, request.path_params["document"])
    return RedirectResponse(f"/documents/{document.id}", 303)


async def document_page(
    context: DocumentPagesContext, request: Request, rejected: RejectedDecision | None = None
) -> Response:
    """Show a document; after a failed decision, with the submitted values and the error."""
    document_id: UUID = request.path_params["document"]
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        document = await _get_document(connection, document_id)
        extraction = await records.get_newest_extraction(connection, document_id)
        history = await reviews.list_by_document(connection, document_id)
        arrivals = await documents.list_arrivals(connection, document_id)
        record = await records.get(connection, document.record_id) if document.record_id else None
        corrections = await reviews.get_corrections(connection, document_id)
        page_layouts = await records.list_pages(connection, document_id)
        parts = await document_files.list_parts(connection, document_id)
        actors = [review.actor_id for review in history] + ([record.confirmed_by] if record else [])
        people = await actor_names.find_names(connection, actors)
        waiting = (await documents.count_by_state(connection)).get(DocumentState.NEEDS_REVIEW, 0)
        checks = await _list_checks(connection, context, document, extraction, corrections, rejected)
    open_review = next((review for review in history if review.decision is None), None)
    fields = _list_fields(context, extraction, None if open_review else corrections, rejected)
    return pages.render_page(
        request,
        "document.html",
        409 if rejected else 200,
        document=document,
        state=STATE_NAMES[document.state],
        arrivals=arrivals,
        parts=parts,
        split_pages=_suggest_split(document, checks, len(page_layouts)),
        fields=fields,
        checks=checks,
        failed_checks=[check for check in checks if check.needs_override],
        kind=field_labels.kind_label(extraction.kind) if extraction else None,
        reader=_READER_NAMES.get(extraction.reader, extraction.reader) if extraction else None,
        record=record,
        reviews=history,
        open_review=open_review,
        page_fields=[
            (number, [field for field in fields if field.page == number])
            for number in range(len(page_layouts))
        ],
        waiting=waiting,
        people={**people, MACHINE: "Postroom"},
        problem=rejected.message if rejected else None,
        reason=rejected.form.get("reason", "") if rejected else "",
        now=datetime.now(UTC),
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


def _list_fields(
    context: DocumentPagesContext,
    extraction: ExtractionRow | None,
    corrections: Mapping[str, Correction] | None,
    rejected: RejectedDecision | None,
) -> list[FieldView]:
    """The fields as corrected; under review (without `corrections`), also those that were not found."""
    if extraction is None:
        return []
    kind = context.review.routing.identities.get(extraction.kind)
    extracted = extraction.fields
    if corrections is not None:
        extracted = {**extracted, **_apply_corrections(extracted, corrections)}
    elif kind:  # a reviewer can fill in the fields that were not found
        extracted = {**dict.fromkeys(kind.shapes, _NOT_FOUND), **extracted}
    return _build_fields(extracted, extraction.kind, kind, rejected)


async def _list_checks(
    connection: Connection,
    context: DocumentPagesContext,
    document: Document,
    extraction: ExtractionRow | None,
    corrections: Mapping[str, Correction],
    rejected: RejectedDecision | None,
) -> Sequence[StoredCheck]:
    """The checks of the values that the page shows: as entered, else as corrected, else as read."""
    if extraction is None:
        return []
    values = {name: correction.right_value for name, correction in corrections.items()}
    if rejected:
        values = _find_corrections(extraction.fields, rejected.form)
    return await review.check_values(connection, context.review, document, extraction, values)


async def _get_document(connection: Connection, document: UUID) -> Document:
    found = await documents.get(connection, document)
    if found is None:
        raise HTTPException(404)
    return found


def _apply_corrections(
    extracted: Mapping[str, Any], corrections: Mapping[str, Correction]
) -> dict[str, Mapping[str, Any]]:
    """Replace extracted values by the ones that a reviewer entered."""
    return {
        name: {
            **extracted.get(name, _NOT_FOUND),
            "value": correction.right_value,
            "confidence": 1.0,
            "correction": correction,
        }
        for name, correction in corrections.items()
    }


def _build_fields(
    extracted: Mapping[str, Any],
    kind_name: str | None,
    kind: RecordIdentity | None,
    rejected: RejectedDecision | None,
) -> list[FieldView]:
    """Order the fields as their kind declares them: a JSON object in the database has no order."""
    shapes: Mapping[str, str] = kind.shapes if kind else {}
    currency = str(extracted.get("currency", {}).get("value") or "")
    rank = {name: number for number, name in enumerate(shapes)}
    fields: list[FieldView] = []
    for name, field in sorted(extracted.items(), key=lambda item: rank.get(item[0], len(rank))):
        unit = currency if shapes.get(name) in _MONEY_SHAPES else ""
        table = _build_table(name, field.get("value"), unit, kind, rejected)
        label = field_labels.field_label(kind_name, name, "" if table is not None else unit)
        fields.append(_build_field(name, label, field, table, rejected))
    return fields


def _build_table(
    name: str, value: Any, unit: str, kind: RecordIdentity | None, rejected: RejectedDecision | None
) -> TableField | None:
    columns = kind.tables.get(name) if kind else None
    if columns is None and not isinstance(value, list):
        return None
    form, error = (rejected.form, rejected.error) if rejected else (None, None)
    return table_fields.build_table(name, value, columns or {}, unit, form, error)


def _build_field(
    name: str,
    label: str,
    extracted: Mapping[str, Any],
    table: TableField | None,
    rejected: RejectedDecision | None,
) -> FieldView:
    return FieldView(
        name,
        label,
        extracted.get("value"),
        extracted.get("confidence", 0.0),
        extracted.get("evidence", ""),
        extracted.get("page"),
        _to_svg_box(extracted.get("box")),
        rejected.form.get(f"field-{name}") if rejected else None,
        rejected.message if rejected and rejected.field == name else None,
        table,
        extracted.get("correction"),
    )


def _to_svg_box(box: Any) -> tuple[int, int, int, int] | None:
    """Convert a box in fractions of the page to left, top, width and height, with a small margin."""
    if not box:
        return None
    left, top, right, bottom = (round(1000 * edge) for edge in box)
    return left - 4, top - 3, right - left + 8, bottom - top + 6


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
    except NotFound:
        raise HTTPException(404) from None
    except InvalidField as error:
        return await document_page(context, request, RejectedDecision(_describe_error(error), form, error))
    except ChecksFailed as error:
        return await document_page(context, request, RejectedDecision(_describe_failed_checks(error), form))
    except PermanentError as error:
        return await document_page(context, request, RejectedDecision(str(error), form))
    target = f"/documents/{document}" if action == "again" else f"/documents/next?after={document}"
    return RedirectResponse(target, 303)


def _describe_failed_checks(error: ChecksFailed) -> str:
    count = "A check fails" if len(error.checks) == 1 else f"{len(error.checks)} checks fail"
    return (
        f"{count} with these values. Correct the values, or tick the box above “Confirm” to confirm anyway."
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
    return _find_corrections(extraction.fields if extraction else {}, form)


def _find_corrections(fields: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """Compare the form with the extracted values; an emptied field is a correction too."""
    extracted: dict[str, Any] = {name: field.get("value") for name, field in fields.items()}
    corrections: dict[str, Any] = {}
    for input_name, text in form.items():
        prefix, _, name = input_name.partition("-")
        if prefix == "table":
            rows = table_fields.find_changed_rows(name, extracted.get(name), form)
            if rows is not None:
                corrections[name] = rows
        elif prefix == "field" and not isinstance(extracted.get(name), list | dict):
            before = "" if extracted.get(name) is None else pages.neutralize_bidi(str(extracted[name]))
            if text.strip() != before:
                corrections[name] = text.strip() or None
    return corrections
