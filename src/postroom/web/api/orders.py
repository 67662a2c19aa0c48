"""The API over orders: what is expected, so that documents can be matched with it."""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from postroom.api_types import ImportedOrders, NewOrders, OrderResource, ResultPage
from postroom.flow.documents import orders as flow
from postroom.flow.documents.orders import Wanted
from postroom.model import Scope
from postroom.store.database import Connection
from postroom.store.views import documents as shown
from postroom.web.api import http_content, paging
from postroom.web.api.operations import ApiCall, NoParameters, Operation, PageQuery, require_found


class OrderPath(msgspec.Struct, frozen=True):
    order: UUID


class OrdersQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    state: Literal["open", "matched", "closed"] | None = None


async def list_orders(call: ApiCall[NoParameters, OrdersQuery, None]) -> ResultPage[OrderResource]:
    """List the orders, the newest first."""
    after = paging.parse_cursor(call.query, tuple[datetime, UUID])
    async with call.transaction() as connection:
        found = await shown.orders(
            connection, state=call.query.state, after=after, limit=call.query.limit + 1
        )
    return paging.build_page(found, call.query, lambda row: (row.created_at, row.id))


async def get_order(call: ApiCall[OrderPath, NoParameters, None]) -> OrderResource:
    """One order."""
    async with call.transaction() as connection:
        return await _order(connection, call.path.order)


async def import_orders(call: ApiCall[NoParameters, NoParameters, NewOrders]) -> ImportedOrders:
    """Import orders by their reference; an open one that is known already takes the newer values."""
    wanted = [Wanted(each.reference, each.username, each.fields) for each in call.body.orders]
    caller, routing = call.caller, call.context.reviewing.routing
    async with call.transaction() as connection:
        new, changed = await flow.take(
            connection, routing, caller.organization, call.body.kind, wanted, actor=caller.actor
        )
    distinct = len({each.reference for each in wanted})
    return ImportedOrders(new, changed, distinct - new - changed)


async def close_order(call: ApiCall[OrderPath, NoParameters, None]) -> OrderResource:
    """Close an open order: nothing is expected any more. `If-Match` guards against changes in between."""
    async with call.transaction() as connection:
        http_content.require_if_match(call.request, await _order(connection, call.path.order))
        await flow.close(connection, call.caller.organization, call.path.order, actor=call.caller.actor)
        return await _order(connection, call.path.order)


async def _order(connection: Connection, order: UUID) -> OrderResource:
    return require_found(await shown.order(connection, order), "order")


OPERATIONS = [
    Operation("GET", "/orders", list_orders, Scope.READ, "Orders"),
    Operation("POST", "/orders", import_orders, Scope.DOCUMENTS, "Orders"),
    Operation("GET", "/orders/{order}", get_order, Scope.READ, "Orders"),
    Operation("POST", "/orders/{order}/close", close_order, Scope.DOCUMENTS, "Orders", matched=True),
]
