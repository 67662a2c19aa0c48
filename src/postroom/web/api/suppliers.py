"""API operations on suppliers: list them, get and switch trust.

The list of records has a filter for their records.
"""

from uuid import UUID

import msgspec

from postroom.api_types import ResultPage
from postroom.api_types.suppliers import (
    CurrencyAmount,
    LayoutTrustResource,
    SupplierResource,
    SupplierTrustChange,
    SupplierTrustResource,
)
from postroom.flow.documents import route, supplier_trust
from postroom.model import Scope
from postroom.store import suppliers
from postroom.store.connection import Connection
from postroom.store.lists.list_reading import ListRow
from postroom.store.lists.suppliers import SUPPLIERS
from postroom.web.api import list_queries
from postroom.web.api.list_queries import SuppliersQuery
from postroom.web.api.operations import ApiCall, ApiContext, NoParameters, Operation, require_found


class SupplierPath(msgspec.Struct, frozen=True):
    supplier: UUID


async def list_suppliers(call: ApiCall[NoParameters, SuppliersQuery, None]) -> ResultPage[SupplierResource]:
    """List suppliers and brokers, the one with the newest record first unless sorted otherwise.

    Filters and sorts have the same names as in the URL of the page `/suppliers`.
    """
    async with call.transaction() as connection:
        # Records that an earlier version confirmed have no supplier yet.
        await route.identify_all_earlier_records(connection, call.context.review.routing)
        rows, following = await list_queries.read_rows(connection, SUPPLIERS, call.query)
    return ResultPage([_to_resource(row) for row in rows], following)


def _to_resource(row: ListRow) -> SupplierResource:
    amounts = [CurrencyAmount(currency, amount) for currency, amount in row["amounts"] or ()]
    return SupplierResource(
        row["id"],
        row["name"],
        row["vat_id"],
        row["kind"],
        row["records"],
        row["newest_on"],
        amounts,
        row["newest"],
    )


async def get_supplier_trust(call: ApiCall[SupplierPath, NoParameters, None]) -> SupplierTrustResource:
    """Get whether a supplier is trusted, and which uncertain fields of which layouts need no review."""
    async with call.transaction() as connection:
        return await _load_trust(connection, call.context, call.path.supplier)


async def set_supplier_trust(
    call: ApiCall[SupplierPath, NoParameters, SupplierTrustChange],
) -> SupplierTrustResource:
    """Switch trust in a supplier on or off. Without it, every uncertain value needs review."""
    caller, supplier = call.caller, call.path.supplier
    async with call.transaction() as connection:
        await _load_trust(connection, call.context, supplier)
        await supplier_trust.set_trust(
            connection, caller.organization, supplier, trusted=call.body.trusted, actor=caller.actor
        )
        return await _load_trust(connection, call.context, supplier)


async def _load_trust(connection: Connection, context: ApiContext, supplier: UUID) -> SupplierTrustResource:
    found = require_found(await suppliers.get(connection, supplier, machine=route.MACHINE), "supplier")
    review = context.review
    trust = await supplier_trust.load_trust(
        connection, supplier, review.routing.kinds.get(found.kind), review.pipelines
    )
    return SupplierTrustResource(
        trust.trusted,
        [LayoutTrustResource(each.layout, each.confirmed, list(each.fields)) for each in trust.layouts],
    )


OPERATIONS = [
    Operation("GET", "/suppliers", list_suppliers, Scope.READ, "Suppliers"),
    Operation("GET", "/suppliers/{supplier}/trust", get_supplier_trust, Scope.READ, "Suppliers"),
    Operation("POST", "/suppliers/{supplier}/trust", set_supplier_trust, Scope.DOCUMENTS, "Suppliers"),
]
