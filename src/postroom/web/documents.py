"""The pages of documents: the list, live, and one document beside its fields, where a person decides."""

from collections.abc import Mapping
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

from postroom.documents.sandbox.file_sandbox import Readers
from postroom.errors import InvalidField, NotFound, PermanentError, UnreadableFile
from postroom.flow.documents import review
from postroom.flow.documents.process import content_of
from postroom.flow.documents.review import ReviewContext
from postroom.flow.documents.route import MACHINE, RecordIdentity
from postroom.model import DocumentState, Role
from postroom.ports import BlobStore
from postroom.store import documents, records, reviews
from postroom.store.database import Connection
from postroom.store.documents import Document
from postroom.store.reviews import Correction
from postroom.store.views import actor_names
from postroom.web import forms, pages, table_fields
from postroom.web.sessions import SiteContext, get_visitor, member_route
from postroom.web.table_fields import TableField

IMAGE_WIDTH: Final = 1100
PAGE_SIZE: Final = 50
STATE_NAMES: Final[Mapping[DocumentState, str]] = {
    DocumentState.NEEDS_REVIEW: "Needs review",
    DocumentState.QUEUED: "Queued",
    DocumentState.PROCESSING: "Being read",
    DocumentState.COMPLETED: "Completed",
    DocumentState.SKIPPED: "Skipped",
    DocumentState.FAILED: "Failed",
}


# Shapes of fields that are sums of money, or hold some.
_MONEY_SHAPES: Final = frozenset({"amount", "price", "rates", "lines"})
_NOT_FOUND: Final[Mapping[str, Any]] = {}
# A table of goods may be long.
_MAX_FORM_BYTES: Final = 2**20
_MAX_FORM_FIELDS: Final = 10_000
ACTIONS: Final = frozenset({"confirm", "reject", "again"})


@dataclass(frozen=True, slots=True)
class RejectedDecision:
    """A decision that was not carried out: why, what was typed, and the field that is to blame."""

    words: str
    typed: Mapping[str, str]
    error: InvalidField | None = None

    @property
    def field(self) -> str | None:
        return self.error.field if self.error else None


@dataclass(frozen=True)
class DocumentPagesContext:
    """What the pages need."""

    site: SiteContext
    blobs: BlobStore
    readers: Readers
    reviewing: ReviewContext


@dataclass(frozen=True, slots=True)
class FieldView:
    """One field as the page shows it. `place` is its box in thousandths of its page; `typed` was refused."""

    name: str
    value: Any
    confidence: float
    evidence: str
    page: int | None
    place: tuple[int, int, int, int] | None
    unit: str = ""
    typed: str | None = None
    problem: str | None = None
    table: TableField | None = None
    corrected: Correction | None = None

    @property
    def shown(self) -> str:
        """What somebody typed and was refused, else what was read."""
        return self.typed if self.typed is not None else "" if self.value is None else str(self.value)

    @property
    def words(self) -> str:
        words = self.name.replace("_", " ")
        return words if self.table is not None or not self.unit else f"{words}, {self.unit}"

    @property
    def sure(self) -> str:
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
    """All documents but skipped ones, or those in one state; the script asks again when something changed."""
    asked = request.query_params
    state = DocumentState(asked["state"]) if asked.get("state") in set(DocumentState) else None
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await documents.listed(
            connection,
            state=state,
            skipped=state is DocumentState.SKIPPED,
            before=_parse_position(asked.get("before")),
            limit=PAGE_SIZE + 1,
        )
        counts = await documents.counts(connection)
    return pages.render_page(
        "documents.html",
        documents=found[:PAGE_SIZE],
        older=_format_position(found) if len(found) > PAGE_SIZE else None,
        state=state,
        states=[(each, words, counts.get(each, 0)) for each, words in STATE_NAMES.items()],
        words=STATE_NAMES,
        total=sum(counts.values()),
        shown=sum(counts.values()) - counts.get(DocumentState.SKIPPED, 0),
        now=datetime.now(UTC),
    )


def _format_position(found: list[documents.Listed]) -> str:
    last = found[PAGE_SIZE - 1]
    return quote(f"{last.created_at.isoformat()}/{last.id}", safe="")


def _parse_position(given: str | None) -> tuple[datetime, UUID] | None:
    moment, _, document = (given or "").partition("/")
    try:
        return datetime.fromisoformat(moment), UUID(document)
    except ValueError:
        return None


async def redirect_to_next(context: DocumentPagesContext, request: Request) -> Response:
    """The document that waits for a person after the one given, or the one that has waited the longest."""
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await documents.awaiting_review(
            connection, after=_parse_uuid(request.query_params.get("after"))
        )
    return RedirectResponse(f"/documents/{found}" if found else "/documents?state=needs_review", 303)


def _parse_uuid(given: str | None) -> UUID | None:
    try:
        return UUID(given or "")
    except ValueError:
        return None


async def redirect_to_document(context: DocumentPagesContext, request: Request) -> Response:
    """Who opens the address of a decision again, by its line or by reloading, sees the document."""
    if request.path_params["action"] not in ACTIONS:
        raise HTTPException(404)
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        document = await _get_document(connection, request.path_params["document"])
    return RedirectResponse(f"/documents/{document.id}", 303)


async def document_page(
    context: DocumentPagesContext, request: Request, refused: RejectedDecision | None = None
) -> Response:
    """A document. What was typed and `refused` is shown again, with the reason."""
    document_id: UUID = request.path_params["document"]
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        document = await _get_document(connection, document_id)
        extraction = await records.newest_extraction(connection, document_id)
        history = await reviews.of_document(connection, document_id)
        arrivals = await documents.arrivals(connection, document_id)
        record = await records.get(connection, document.record_id) if document.record_id else None
        corrections = await reviews.corrected(connection, document_id)
        shown = await records.pages_of(connection, document_id)
        by = [each.actor_id for each in history] + ([record.confirmed_by] if record else [])
        people = await actor_names.names(connection, by)
        waiting = (await documents.counts(connection)).get(DocumentState.NEEDS_REVIEW, 0)
    kind = context.reviewing.routing.identities.get(extraction.kind) if extraction else None
    asked = next((each for each in history if each.decision is None), None)
    read: Mapping[str, Any] = extraction.fields if extraction else {}
    if asked and kind:  # what was not found can be typed
        read = {**dict.fromkeys(kind.shapes, _NOT_FOUND), **read}
    if not asked:
        read = {**read, **_apply_corrections(read, corrections)}
    fields = _build_fields(read, kind, refused)
    return pages.render_page(
        "document.html",
        409 if refused else 200,
        document=document,
        state=STATE_NAMES[document.state],
        arrivals=arrivals,
        fields=fields,
        checks=extraction.checks if extraction else [],
        reader=extraction.reader if extraction else None,
        record=record,
        reviews=history,
        asked=asked,
        shown=[(number, [each for each in fields if each.page == number]) for number in range(len(shown))],
        waiting=waiting,
        people={**people, MACHINE: "Postroom"},
        problem=refused.words if refused else None,
        reason=refused.typed.get("reason", "") if refused else "",
        now=datetime.now(UTC),
    )


async def _get_document(connection: Connection, document: UUID) -> Document:
    found = await documents.get(connection, document)
    if found is None:
        raise HTTPException(404)
    return found


def _apply_corrections(
    read: Mapping[str, Any], corrections: Mapping[str, Correction]
) -> dict[str, Mapping[str, Any]]:
    """What a person vouched for, in the place of what was read."""
    return {
        name: {**read.get(name, _NOT_FOUND), "value": each.right_value, "confidence": 1.0, "corrected": each}
        for name, each in corrections.items()
    }


def _build_fields(
    given: Mapping[str, Any], kind: RecordIdentity | None, refused: RejectedDecision | None
) -> list[FieldView]:
    """In the order in which the kind declares them; the database keeps none."""
    shapes: Mapping[str, str] = kind.shapes if kind else {}
    currency = str(given.get("currency", {}).get("value") or "")
    place = {name: number for number, name in enumerate(shapes)}
    return [
        _build_field(name, each, currency if shapes.get(name) in _MONEY_SHAPES else "", kind, refused)
        for name, each in sorted(given.items(), key=lambda field: place.get(field[0], len(place)))
    ]


def _build_field(
    name: str,
    read: Mapping[str, Any],
    unit: str,
    kind: RecordIdentity | None,
    refused: RejectedDecision | None,
) -> FieldView:
    value = read.get("value")
    columns = kind.tables.get(name) if kind else None
    typed, error = (refused.typed, refused.error) if refused else (None, None)
    return FieldView(
        name,
        value,
        read.get("confidence", 0.0),
        read.get("evidence", ""),
        read.get("page"),
        _to_svg_box(read.get("box")),
        unit,
        typed.get(f"field-{name}") if typed else None,
        refused.words if refused and refused.field == name else None,
        table_fields.build_table(name, value, columns or {}, unit, typed, error)
        if columns is not None or isinstance(value, list)
        else None,
        read.get("corrected"),
    )


def _to_svg_box(box: Any) -> tuple[int, int, int, int] | None:
    """Left, top, width and height, with a little room around the words."""
    if not box:
        return None
    left, top, right, bottom = (round(1000 * edge) for edge in box)
    return left - 4, top - 3, right - left + 8, bottom - top + 6


async def page_image(context: DocumentPagesContext, request: Request) -> Response:
    """A page of the document as a picture, rendered in a child with limits."""
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        document = await _get_document(connection, request.path_params["document"])
        shown = await records.pages_of(connection, document.id)
    number: int = request.path_params["page"]
    if number >= len(shown):
        raise HTTPException(404)
    turned: Literal[0, 90, 180, 270] = shown[number][2]
    content = await content_of(context.blobs, organization, document.sha256)
    try:
        picture = await context.readers.page_image(content, page=number, width=IMAGE_WIDTH, turned=turned)
    except UnreadableFile:
        raise HTTPException(404) from None
    # The bytes of a document never change; a reading may turn its pages otherwise.
    return Response(picture, media_type="image/webp", headers={"cache-control": "private, max-age=300"})


async def download(context: DocumentPagesContext, request: Request) -> Response:
    """The bytes as they came: saved by the browser, never shown by it."""
    organization = get_visitor(request).organization
    async with context.site.database.transaction(organization) as connection:
        document = await _get_document(connection, request.path_params["document"])
        arrivals = await documents.arrivals(connection, document.id)
    content = await content_of(context.blobs, organization, document.sha256)
    name = quote(arrivals[0].file_name or "document", safe="")
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"},
    )


async def decide(context: DocumentPagesContext, request: Request) -> Response:
    """Confirm, reject or read again; then on to the next that waits."""
    visitor = get_visitor(request)
    document: UUID = request.path_params["document"]
    action: str = request.path_params["action"]
    given = await forms.read(request, largest=_MAX_FORM_BYTES, most=_MAX_FORM_FIELDS)
    try:
        async with context.site.database.transaction(visitor.organization) as connection:
            match action:
                case "confirm":
                    await review.confirm(
                        connection,
                        context.reviewing,
                        visitor.organization,
                        document,
                        actor=visitor.actor,
                        corrections=await _find_corrections(connection, document, given),
                    )
                case "reject":
                    reason = given.get("reason", "").strip() or "not for this pipeline"
                    await review.reject(
                        connection,
                        context.reviewing,
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
        return await document_page(context, request, RejectedDecision(_describe_refusal(error), given, error))
    except PermanentError as error:
        return await document_page(context, request, RejectedDecision(str(error), given))
    after = f"/documents/{document}" if action == "again" else f"/documents/next?after={document}"
    return RedirectResponse(after, 303)


def _describe_refusal(error: InvalidField) -> str:
    """Fields and columns as people say them."""
    words = str(error)
    for name in (error.field, error.column or ""):
        words = words.replace(name, name.replace("_", " "))
    return words


async def _find_corrections(
    connection: Connection, document: UUID, given: Mapping[str, str]
) -> dict[str, Any]:
    """What of the form differs from what was read; an emptied field is a correction too."""
    extraction = await records.newest_extraction(connection, document)
    fields: Mapping[str, Any] = extraction.fields if extraction else {}
    read: dict[str, Any] = {name: each.get("value") for name, each in fields.items()}
    found: dict[str, Any] = {}
    for name, value in given.items():
        prefix, _, field = name.partition("-")
        if prefix == "table":
            rows = table_fields.find_changed_rows(field, read.get(field), given)
            if rows is not None:
                found[field] = rows
        elif prefix == "field" and not isinstance(read.get(field), list | dict):
            before = "" if read.get(field) is None else pages.neutralize_bidi(str(read[field]))
            if value.strip() != before:
                found[field] = value.strip() or None
    return found
