"""The API operation that lists the ledger."""

from postroom.api_types import LedgerEntryResource, ResultPage
from postroom.model import Scope
from postroom.store.views import admin
from postroom.web.api import paging
from postroom.web.api.documents import Name
from postroom.web.api.operations import ApiCall, NoParameters, Operation, PageQuery


class LedgerQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    entity_type: Name | None = None
    entity_id: Name | None = None


async def list_ledger_entries(
    call: ApiCall[NoParameters, LedgerQuery, None],
) -> ResultPage[LedgerEntryResource]:
    """List the entries of the audit trail, newest first."""
    below, query = paging.parse_number_cursor(call.query), call.query
    async with call.transaction() as connection:
        rows = await admin.list_ledger_entries(
            connection,
            entity_type=query.entity_type,
            entity_id=query.entity_id,
            below=below,
            limit=query.limit + 1,
        )
    return paging.build_page(rows, query, lambda row: row.id)


OPERATIONS = [Operation("GET", "/ledger", list_ledger_entries, Scope.LEDGER, "Ledger")]
