"""The page of a supplier: its records, what identifies it, what was learned, trust, and spend per month."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.documents.supplier_trust import MIN_CONFIRMED
from postroom.flow.documents import supplier_trust
from postroom.flow.documents.route import MACHINE
from postroom.model import Role
from postroom.store import suppliers
from postroom.store.connection import Connection
from postroom.store.lists import list_reading
from postroom.store.lists.list_definition import TRADE_KIND, ListQuery
from postroom.store.lists.records import RECORDS
from postroom.store.suppliers import Supplier
from postroom.web import charts, field_labels, forms, pages
from postroom.web.charts import Chart, Tick
from postroom.web.document_context import DocumentPagesContext
from postroom.web.formats import Formats
from postroom.web.sessions import get_visitor, member_route

MONTHS: Final = 12
SHOWN_RECORDS: Final = 10
MAX_CHARTS: Final = 3
# What identifies the issuer of a document, by the shapes of its fields.
_IDENTIFYING: Final = ("party", "vat_id", "iban")


def routes(context: DocumentPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/suppliers/{supplier:uuid}", partial(supplier_page, context)),
        member_route(
            site,
            "/suppliers/{supplier:uuid}/trust",
            partial(set_trust, context),
            Role.REVIEWER,
            methods=["POST"],
        ),
    ]


async def supplier_page(context: DocumentPagesContext, request: Request) -> Response:
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        supplier = await _get_supplier(connection, request)
        values = await _load_page(connection, context, supplier, pages.get_formats(request))
    return pages.render_page(
        request,
        "supplier.html",
        supplier=supplier,
        kind=field_labels.kind_label(supplier.kind),
        field_label=partial(field_labels.field_label, supplier.kind),
        now=datetime.now(UTC),
        **values,
    )


async def set_trust(context: DocumentPagesContext, request: Request) -> Response:
    """Switch trust in the supplier on or off."""
    visitor, trusted = get_visitor(request), (await forms.read(request)).get("trusted")
    async with context.site.database.transaction(visitor.organization) as connection:
        supplier = await _get_supplier(connection, request)
        if trusted not in ("yes", "no"):
            raise HTTPException(400)
        await supplier_trust.set_trust(
            connection, visitor.organization, supplier.id, trusted=trusted == "yes", actor=visitor.actor
        )
    return RedirectResponse(f"/suppliers/{supplier.id}", 303)


async def _get_supplier(connection: Connection, request: Request) -> Supplier:
    supplier = await suppliers.get(connection, request.path_params["supplier"], machine=MACHINE)
    if supplier is None:
        raise HTTPException(404)
    return supplier


async def _load_page(
    connection: Connection, context: DocumentPagesContext, supplier: Supplier, formats: Formats
) -> dict[str, Any]:
    identity = context.review.routing.identities.get(supplier.kind)
    shapes: Mapping[str, str] = identity.shapes if identity else {}
    names = [name for shape in _IDENTIFYING for name in shapes if shapes[name] == shape]
    chosen = {"supplier": supplier.id, "state": "all", "kind": supplier.kind}
    newest = ListQuery(RECORDS, chosen, RECORDS.sorts[0], is_descending=True)
    rows, _ = await list_reading.read_page(connection, newest, SHOWN_RECORDS)
    spent = await suppliers.sum_by_month(connection, supplier.id, months=MONTHS)
    months = list_months(datetime.now(UTC))
    review = context.review
    kind = review.routing.kinds.get(supplier.kind)
    trust = await supplier_trust.load_trust(connection, supplier.id, kind, review.pipelines)
    return {
        "trust": trust,
        "needed": MIN_CONFIRMED,
        "identifiers": await suppliers.list_identifiers(connection, supplier.id, names),
        "corrections": await suppliers.list_corrections(connection, supplier.id),
        "rows": rows,
        "charts": build_charts(spent, months, formats, is_trade=supplier.kind == TRADE_KIND),
        "marks": [
            Tick(x + width / 2, _month(month, formats)) for (x, width, _), month in _place_months(months)
        ],
    }


def list_months(now: datetime) -> list[str]:
    """The last months up to this one, `2026-02`."""
    first = now.year * 12 + now.month - MONTHS
    return [f"{month // 12:04}-{month % 12 + 1:02}" for month in range(first, first + MONTHS)]


def _place_months(months: Sequence[str]) -> list[tuple[tuple[float, float, str], str]]:
    """Every third month, with its place on the axis."""
    return list(zip(charts.place_slots(months), months, strict=True))[1::3]


def build_charts(
    spent: Mapping[str, Mapping[str, Decimal]], months: Sequence[str], formats: Formats, *, is_trade: bool
) -> list[Chart]:
    """A chart of the amounts per month for each currency, the largest first."""
    what = "Traded" if is_trade else "Spend"
    by_size = sorted(spent, key=lambda currency: -sum(spent[currency].values()))
    return [
        _build_chart(currency, f"{what} per month in {currency}", spent[currency], months, formats)
        for currency in by_size[:MAX_CHARTS]
    ]


def _month(month: str, formats: Formats) -> str:
    return formats.month(date.fromisoformat(f"{month}-01"))


def _build_chart(
    currency: str, title: str, amounts: Mapping[str, Decimal], months: Sequence[str], formats: Formats
) -> Chart:
    values = [float(max(amounts.get(month, Decimal()), Decimal())) for month in months]
    scale = charts.scale_counts(values, formats)
    total = sum(amounts.values(), Decimal())
    texts = [
        f"{_month(month, formats)}: {formats.amount(amounts.get(month, Decimal()))} {currency}"
        for month in months
    ]
    highest = max(months, key=lambda month: amounts.get(month, Decimal()))
    return Chart(
        f"spend-{currency.lower()}",
        title,
        formats.amount(total),
        f"{currency} in 12 months",
        f"Highest: {formats.amount(amounts.get(highest, Decimal()))} {currency}"
        f" in {_month(highest, formats)}",
        scale,
        charts.place_slots(texts),
        charts.build_bars(scale, values),
    )
