"""The page of an order: what was ordered, and the record that it matched or could match.

Also imports orders, links one to a record, unlinks it, or closes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.documents import record_matching
from postroom.documents.fields.table_validation import TABLE_SHAPES
from postroom.errors import NotFound, PermanentError
from postroom.flow.documents import order_files, order_links, record_changes
from postroom.flow.documents import orders as flow
from postroom.flow.documents.record_changes import RecordChange
from postroom.flow.documents.route import MACHINE, RecordIdentity
from postroom.model import Role
from postroom.store import orders, records
from postroom.store.connection import Connection
from postroom.store.lists.list_definition import FilterChoice
from postroom.store.orders import Order
from postroom.store.records import Record
from postroom.store.views import actor_names, admin
from postroom.web import field_labels, forms, pages, record_page
from postroom.web.document_context import DocumentPagesContext, parse_uuid
from postroom.web.ledger import EVENT_NAMES
from postroom.web.sessions import get_visitor, member_route

ACTIONS: Final = frozenset({"link", "unlink", "close"})
MAX_IMPORT_BYTES: Final = 2**20
MAX_IMPORT_ORDERS: Final = 5000  # as in the API


@dataclass(frozen=True, slots=True)
class OrderImportReport:
    """How many orders an import added and updated, and how many it left unchanged."""

    new: int
    updated: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class OrderFieldComparison:
    """A field of an order beside that of a record."""

    label: str
    shape: str
    ordered: str
    recorded: str
    agrees: bool | None  # None: one of them has no value


@dataclass(frozen=True, slots=True)
class OrderCandidate:
    """A record without an order. `fits`: it agrees with the order in all fields that both have."""

    record: Record
    fields: Sequence[OrderFieldComparison]
    fits: bool

    @property
    def agreements(self) -> int:
        return sum(field.agrees is True for field in self.fields)


def routes(context: DocumentPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/orders/import", partial(import_page, context), Role.REVIEWER),
        member_route(
            site, "/orders/import", partial(import_orders, context), Role.REVIEWER, methods=["POST"]
        ),
        member_route(site, "/orders/{order:uuid}", partial(order_page, context)),
        member_route(
            site,
            "/orders/{order:uuid}/{action}",
            partial(change_order, context),
            Role.REVIEWER,
            methods=["POST"],
        ),
    ]


async def import_page(
    context: DocumentPagesContext,
    request: Request,
    form: Mapping[str, str] | None = None,
    problem: str | None = None,
) -> Response:
    """Ask for orders; after a failed import, with the submitted text and the error."""
    identities = context.review.routing.identities
    kinds = [FilterChoice(name, field_labels.kind_label(name)) for name in context.review.routing.kinds]
    return pages.render_page(
        request,
        "order_import.html",
        400 if problem else 200,
        kinds=kinds,
        fields={
            kind.value: [
                name for name, shape in identities[kind.value].shapes.items() if shape not in TABLE_SHAPES
            ]
            for kind in kinds
        },
        form=form or {},
        problem=problem,
    )


async def import_orders(context: DocumentPagesContext, request: Request) -> Response:
    """Import the orders that were pasted or read from a file, and list them."""
    form, visitor = await forms.read(request, max_bytes=MAX_IMPORT_BYTES), get_visitor(request)
    kind, routing = form.get("kind", ""), context.review.routing
    if kind not in routing.identities:
        raise HTTPException(400)
    try:
        identity, text = routing.identities[kind], form.get("orders", "").lstrip("\ufeff")
        parsed = order_files.parse_orders(text, kind, identity, source="The list", most=MAX_IMPORT_ORDERS)
        async with context.site.database.transaction(visitor.organization) as connection:
            new, updated = await flow.import_orders(
                connection, routing, visitor.organization, kind, parsed, actor=visitor.actor
            )
    except PermanentError as error:
        return await import_page(context, request, form, str(error))
    report = OrderImportReport(new, updated, len(parsed) - new - updated)
    return RedirectResponse(f"/orders?{urlencode({'kind': kind, **asdict(report)})}", 303)


def read_import_report(params: Mapping[str, str]) -> OrderImportReport | None:
    """Read the result of an import from the URL of the list that follows it."""
    texts = [params.get(each.name, "") for each in fields(OrderImportReport)]
    if not all(text.isascii() and text.isdecimal() and len(text) < 6 for text in texts):
        return None
    return OrderImportReport(*map(int, texts))


async def order_page(context: DocumentPagesContext, request: Request, problem: str | None = None) -> Response:
    """Show an order; after a failed change, with the error."""
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        order = await _get_order(connection, request.path_params["order"])
        values = await _load_page(connection, context, order)
    return pages.render_page(
        request,
        "order.html",
        409 if problem else 200,
        order=order,
        problem=problem,
        kind=field_labels.kind_label(order.kind),
        event_names=EVENT_NAMES,
        now=datetime.now(UTC),
        **values,
    )


async def _get_order(connection: Connection, order: UUID) -> Order:
    found = await orders.get(connection, order)
    if found is None:
        raise HTTPException(404)
    return found


async def _load_page(connection: Connection, context: DocumentPagesContext, order: Order) -> dict[str, Any]:
    record = await records.get(connection, order.record_id) if order.record_id else None
    identity = context.review.routing.identities.get(order.kind)
    candidates: list[OrderCandidate] = []
    if order.state == "open" and identity:
        candidates = [
            _compare_candidate(order, each, identity)
            for each in await _list_candidates(connection, order, identity)
        ]
    entries = await admin.list_ledger_entries(
        connection, entity_type="order", entity_id=str(order.id), below=None, limit=50
    )
    actors = [entry.actor_id for entry in entries]
    return {
        "fields": record_page.list_values(context, order.kind, order.fields),
        "record": record,
        "compared": _compare(order, record, identity) if record and identity else (),
        "candidates": sorted(candidates, key=lambda each: (not each.fits, -each.agreements)),
        "entries": entries,
        "people": {**await actor_names.find_names(connection, actors), MACHINE: "Postroom"},
    }


async def _list_candidates(connection: Connection, order: Order, identity: RecordIdentity) -> list[Record]:
    """Confirmed records without an order that share an identifying field with this one."""
    names = [name for name, shape in identity.shapes.items() if shape in order_links.IDENTIFYING_SHAPES]
    pairs = await orders.list_waiting_records(connection, order.kind, names, order=order.id)
    found = [await records.get(connection, record) for record, _ in pairs[:50]]
    return [record for record in found if record is not None]


def _compare_candidate(order: Order, record: Record, identity: RecordIdentity) -> OrderCandidate:
    fits = bool(order_links.list_fitting(record.fields, [order], identity.shapes))
    return OrderCandidate(record, _compare(order, record, identity), fits)


def _compare(order: Order, record: Record, identity: RecordIdentity) -> list[OrderFieldComparison]:
    """The fields of the order beside those of the record."""
    compared: list[OrderFieldComparison] = []
    for name in [name for name in identity.shapes if name in order.fields]:
        ordered, recorded = order.fields[name], record.fields.get(name)
        agrees = (
            record_matching.agree_within_tolerance(ordered, recorded, identity.shapes[name])
            if ordered not in (None, "") and recorded not in (None, "")
            else None
        )
        compared.append(
            OrderFieldComparison(
                field_labels.field_label(order.kind, name),
                identity.shapes[name],
                str(ordered),
                str(recorded or ""),
                agrees,
            )
        )
    return compared


async def change_order(context: DocumentPagesContext, request: Request) -> Response:
    """Link an order to a record, undo that, or close the order; then show it."""
    action = request.path_params["action"]
    if action not in ACTIONS:
        raise HTTPException(404)
    form = await forms.read(request)
    try:
        async with context.site.database.transaction(get_visitor(request).organization) as connection:
            order = await _get_order(connection, request.path_params["order"])
            await _change(connection, context, request, order, action, parse_uuid(form.get("record")))
    except NotFound:
        raise HTTPException(404) from None
    except PermanentError as error:
        return await order_page(context, request, str(error))
    return RedirectResponse(f"/orders/{order.id}", 303)


async def _change(
    connection: Connection,
    context: DocumentPagesContext,
    request: Request,
    order: Order,
    action: str,
    chosen: UUID | None,
) -> None:
    visitor = get_visitor(request)
    if action == "close":
        await flow.close_order(connection, visitor.organization, order.id, actor=visitor.actor)
        return
    record = chosen if action == "link" else order.record_id
    if record is None:
        raise PermanentError("Choose a record to link.")
    words = (
        f"linked to order {order.reference}" if action == "link" else f"unlinked from order {order.reference}"
    )
    change = RecordChange(visitor.organization, record, visitor.actor, words)
    reference = order.reference if action == "link" else ""
    await record_changes.correct(connection, context.review, change, {}, order=reference)
