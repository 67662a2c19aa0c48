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

from postroom.documents.isolation import Readers
from postroom.errors import FieldRefused, Gone, PermanentError, Unreadable
from postroom.flow.documents import review
from postroom.flow.documents.process import content_of
from postroom.flow.documents.review import Reviewing
from postroom.flow.documents.route import MACHINE, Identity
from postroom.model import DocumentState, Role
from postroom.ports import BlobStore
from postroom.store import documents, records, reviews
from postroom.store.database import Connection
from postroom.store.documents import Document
from postroom.store.reviews import Correction
from postroom.store.views import actors
from postroom.web import forms, pages, tables
from postroom.web.sessions import Gate, guarded, visitor_of
from postroom.web.tables import Table

WIDTH: Final = 1100
PAGE: Final = 50
WORDS: Final[Mapping[DocumentState, str]] = {
    DocumentState.NEEDS_REVIEW: "Needs review",
    DocumentState.QUEUED: "Queued",
    DocumentState.PROCESSING: "Being read",
    DocumentState.COMPLETED: "Completed",
    DocumentState.SKIPPED: "Skipped",
    DocumentState.FAILED: "Failed",
}


# Shapes of fields that are sums of money, or hold some.
_IN_MONEY: Final = frozenset({"amount", "price", "rates", "lines"})
_NOTHING: Final[Mapping[str, Any]] = {}
# A table of goods may be long.
_LARGEST_FORM: Final = 2**20
_MOST_CELLS: Final = 10_000
ACTIONS: Final = frozenset({"confirm", "reject", "again"})


@dataclass(frozen=True, slots=True)
class Refused:
    """A decision that was not carried out: why, what was typed, and the field that is to blame."""

    words: str
    typed: Mapping[str, str]
    error: FieldRefused | None = None

    @property
    def field(self) -> str | None:
        return self.error.field if self.error else None


@dataclass(frozen=True)
class Desk:
    """What the pages need."""

    gate: Gate
    blobs: BlobStore
    readers: Readers
    reviewing: Reviewing


@dataclass(frozen=True, slots=True)
class Field:
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
    table: Table | None = None
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


def routes(desk: Desk) -> list[Route]:
    gate = desk.gate
    return [
        guarded(gate, "/documents", partial(listing, desk)),
        guarded(gate, "/documents/next", partial(next_one, desk)),
        guarded(gate, "/documents/{document:uuid}", partial(one, desk)),
        guarded(gate, "/documents/{document:uuid}/pages/{page:int}", partial(image, desk)),
        guarded(gate, "/documents/{document:uuid}/file", partial(file, desk)),
        guarded(
            gate,
            "/documents/{document:uuid}/{action}",
            partial(decide, desk),
            Role.REVIEWER,
            methods=["POST"],
        ),
        guarded(gate, "/documents/{document:uuid}/{action}", partial(back, desk)),
    ]


async def listing(desk: Desk, request: Request) -> Response:
    """All documents but skipped ones, or those in one state; the script asks again when something changed."""
    asked = request.query_params
    state = DocumentState(asked["state"]) if asked.get("state") in set(DocumentState) else None
    async with desk.gate.database.transaction(visitor_of(request).organization) as connection:
        found = await documents.listed(
            connection,
            state=state,
            skipped=state is DocumentState.SKIPPED,
            before=_before(asked.get("before")),
            limit=PAGE + 1,
        )
        counts = await documents.counts(connection)
    return pages.page(
        "documents.html",
        documents=found[:PAGE],
        older=_older(found) if len(found) > PAGE else None,
        state=state,
        states=[(each, words, counts.get(each, 0)) for each, words in WORDS.items()],
        words=WORDS,
        total=sum(counts.values()),
        shown=sum(counts.values()) - counts.get(DocumentState.SKIPPED, 0),
        now=datetime.now(UTC),
    )


def _older(found: list[documents.Listed]) -> str:
    last = found[PAGE - 1]
    return quote(f"{last.created_at.isoformat()}/{last.id}", safe="")


def _before(given: str | None) -> tuple[datetime, UUID] | None:
    moment, _, document = (given or "").partition("/")
    try:
        return datetime.fromisoformat(moment), UUID(document)
    except ValueError:
        return None


async def next_one(desk: Desk, request: Request) -> Response:
    """The document that waits for a person after the one given, or the one that has waited the longest."""
    async with desk.gate.database.transaction(visitor_of(request).organization) as connection:
        found = await documents.awaiting_review(connection, after=_uuid(request.query_params.get("after")))
    return RedirectResponse(f"/documents/{found}" if found else "/documents?state=needs_review", 303)


def _uuid(given: str | None) -> UUID | None:
    try:
        return UUID(given or "")
    except ValueError:
        return None


async def back(desk: Desk, request: Request) -> Response:
    """Who opens the address of a decision again, by its line or by reloading, sees the document."""
    if request.path_params["action"] not in ACTIONS:
        raise HTTPException(404)
    async with desk.gate.database.transaction(visitor_of(request).organization) as connection:
        document = await _found(connection, request.path_params["document"])
    return RedirectResponse(f"/documents/{document.id}", 303)


async def one(desk: Desk, request: Request, refused: Refused | None = None) -> Response:
    """A document. What was typed and `refused` is shown again, with the reason."""
    document_id: UUID = request.path_params["document"]
    async with desk.gate.database.transaction(visitor_of(request).organization) as connection:
        document = await _found(connection, document_id)
        extraction = await records.newest_extraction(connection, document_id)
        history = await reviews.of_document(connection, document_id)
        arrivals = await documents.arrivals(connection, document_id)
        record = await records.get(connection, document.record_id) if document.record_id else None
        corrections = await reviews.corrected(connection, document_id)
        shown = await records.pages_of(connection, document_id)
        by = [each.actor_id for each in history] + ([record.confirmed_by] if record else [])
        people = await actors.names(connection, by)
        waiting = (await documents.counts(connection)).get(DocumentState.NEEDS_REVIEW, 0)
    kind = desk.reviewing.routing.identities.get(extraction.kind) if extraction else None
    asked = next((each for each in history if each.decision is None), None)
    read: Mapping[str, Any] = extraction.fields if extraction else {}
    if asked and kind:  # what was not found can be typed
        read = {**dict.fromkeys(kind.shapes, _NOTHING), **read}
    if not asked:
        read = {**read, **_put_right(read, corrections)}
    fields = _fields(read, kind, refused)
    return pages.page(
        "document.html",
        409 if refused else 200,
        document=document,
        state=WORDS[document.state],
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


async def _found(connection: Connection, document: UUID) -> Document:
    found = await documents.get(connection, document)
    if found is None:
        raise HTTPException(404)
    return found


def _put_right(
    read: Mapping[str, Any], corrections: Mapping[str, Correction]
) -> dict[str, Mapping[str, Any]]:
    """What a person vouched for, in the place of what was read."""
    return {
        name: {**read.get(name, _NOTHING), "value": each.right_value, "confidence": 1.0, "corrected": each}
        for name, each in corrections.items()
    }


def _fields(given: Mapping[str, Any], kind: Identity | None, refused: Refused | None) -> list[Field]:
    """In the order in which the kind declares them; the database keeps none."""
    shapes: Mapping[str, str] = kind.shapes if kind else {}
    currency = str(given.get("currency", {}).get("value") or "")
    place = {name: number for number, name in enumerate(shapes)}
    return [
        _field(name, each, currency if shapes.get(name) in _IN_MONEY else "", kind, refused)
        for name, each in sorted(given.items(), key=lambda field: place.get(field[0], len(place)))
    ]


def _field(
    name: str, read: Mapping[str, Any], unit: str, kind: Identity | None, refused: Refused | None
) -> Field:
    value = read.get("value")
    columns = kind.tables.get(name) if kind else None
    typed, error = (refused.typed, refused.error) if refused else (None, None)
    return Field(
        name,
        value,
        read.get("confidence", 0.0),
        read.get("evidence", ""),
        read.get("page"),
        _place(read.get("box")),
        unit,
        typed.get(f"field-{name}") if typed else None,
        refused.words if refused and refused.field == name else None,
        tables.table(name, value, columns or {}, unit, typed, error)
        if columns is not None or isinstance(value, list)
        else None,
        read.get("corrected"),
    )


def _place(box: Any) -> tuple[int, int, int, int] | None:
    """Left, top, width and height, with a little room around the words."""
    if not box:
        return None
    left, top, right, bottom = (round(1000 * edge) for edge in box)
    return left - 4, top - 3, right - left + 8, bottom - top + 6


async def image(desk: Desk, request: Request) -> Response:
    """A page of the document as a picture, rendered in a child with limits."""
    organization = visitor_of(request).organization
    async with desk.gate.database.transaction(organization) as connection:
        document = await _found(connection, request.path_params["document"])
        shown = await records.pages_of(connection, document.id)
    number: int = request.path_params["page"]
    if number >= len(shown):
        raise HTTPException(404)
    turned: Literal[0, 90, 180, 270] = shown[number][2]
    content = await content_of(desk.blobs, organization, document.sha256)
    try:
        picture = await desk.readers.page_image(content, page=number, width=WIDTH, turned=turned)
    except Unreadable:
        raise HTTPException(404) from None
    # The bytes of a document never change; a reading may turn its pages otherwise.
    return Response(picture, media_type="image/webp", headers={"cache-control": "private, max-age=300"})


async def file(desk: Desk, request: Request) -> Response:
    """The bytes as they came: saved by the browser, never shown by it."""
    organization = visitor_of(request).organization
    async with desk.gate.database.transaction(organization) as connection:
        document = await _found(connection, request.path_params["document"])
        arrivals = await documents.arrivals(connection, document.id)
    content = await content_of(desk.blobs, organization, document.sha256)
    name = quote(arrivals[0].file_name or "document", safe="")
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"content-disposition": f"attachment; filename*=UTF-8''{name}"},
    )


async def decide(desk: Desk, request: Request) -> Response:
    """Confirm, reject or read again; then on to the next that waits."""
    visitor = visitor_of(request)
    document: UUID = request.path_params["document"]
    action: str = request.path_params["action"]
    given = await forms.read(request, largest=_LARGEST_FORM, most=_MOST_CELLS)
    try:
        async with desk.gate.database.transaction(visitor.organization) as connection:
            match action:
                case "confirm":
                    await review.confirm(
                        connection,
                        desk.reviewing,
                        visitor.organization,
                        document,
                        actor=visitor.actor,
                        corrections=await _corrections(connection, document, given),
                    )
                case "reject":
                    reason = given.get("reason", "").strip() or "not for this pipeline"
                    await review.reject(
                        connection,
                        desk.reviewing,
                        visitor.organization,
                        document,
                        actor=visitor.actor,
                        reason=reason,
                    )
                case "again":
                    await review.read_again(connection, visitor.organization, document, actor=visitor.actor)
                case _:
                    raise HTTPException(404)
    except Gone:
        raise HTTPException(404) from None
    except FieldRefused as error:
        return await one(desk, request, Refused(_spoken(error), given, error))
    except PermanentError as error:
        return await one(desk, request, Refused(str(error), given))
    after = f"/documents/{document}" if action == "again" else f"/documents/next?after={document}"
    return RedirectResponse(after, 303)


def _spoken(error: FieldRefused) -> str:
    """Fields and columns as people say them."""
    words = str(error)
    for name in (error.field, error.column or ""):
        words = words.replace(name, name.replace("_", " "))
    return words


async def _corrections(connection: Connection, document: UUID, given: Mapping[str, str]) -> dict[str, Any]:
    """What of the form differs from what was read; an emptied field is a correction too."""
    extraction = await records.newest_extraction(connection, document)
    fields: Mapping[str, Any] = extraction.fields if extraction else {}
    read: dict[str, Any] = {name: each.get("value") for name, each in fields.items()}
    found: dict[str, Any] = {}
    for name, value in given.items():
        prefix, _, field = name.partition("-")
        if prefix == "table":
            rows = tables.changed(field, read.get(field), given)
            if rows is not None:
                found[field] = rows
        elif prefix == "field" and not isinstance(read.get(field), list | dict):
            before = "" if read.get(field) is None else pages.plain(str(read[field]))
            if value.strip() != before:
                found[field] = value.strip() or None
    return found
