"""API operation on suppliers: list them. The list of records has a filter for their records."""

from postroom.api_types import ResultPage
from postroom.api_types.suppliers import CurrencyAmount, SupplierResource
from postroom.flow.documents import route
from postroom.model import Scope
from postroom.store.lists.list_reading import ListRow
from postroom.store.lists.suppliers import SUPPLIERS
from postroom.web.api import list_queries
from postroom.web.api.list_queries import SuppliersQuery
from postroom.web.api.operations import ApiCall, NoParameters, Operation


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


OPERATIONS = [Operation("GET", "/suppliers", list_suppliers, Scope.READ, "Suppliers")]
