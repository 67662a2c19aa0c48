"""API operations on orders: list, get, import and close."""

from uuid import UUID

import msgspec

from postroom.api_types import NewOrders, OrderImportResult, OrderResource, ResultPage
from postroom.flow.documents import orders as flow
from postroom.flow.documents.orders import OrderRequest
from postroom.model import Scope
from postroom.store.connection import Connection
from postroom.store.lists.orders import ORDERS
from postroom.store.views import documents as views
from postroom.web.api import http_content, list_queries
from postroom.web.api.list_queries import OrdersQuery
from postroom.web.api.operations import ApiCall, NoParameters, Operation, require_found


class OrderPath(msgspec.Struct, frozen=True):
    order: UUID


async def list_orders(call: ApiCall[NoParameters, OrdersQuery, None]) -> ResultPage[OrderResource]:
    """List orders, newest first unless sorted otherwise.

    Filters and sorts have the same names as in the URL of the page `/orders`.
    """
    async with call.transaction() as connection:
        ids, following = await list_queries.read_ids(connection, ORDERS, call.query)
        return ResultPage(await views.list_orders(connection, ids), following)


async def get_order(call: ApiCall[OrderPath, NoParameters, None]) -> OrderResource:
    """Get an order."""
    async with call.transaction() as connection:
        return await _get_order(connection, call.path.order)


async def import_orders(call: ApiCall[NoParameters, NoParameters, NewOrders]) -> OrderImportResult:
    """Import orders, identified by their reference.

    An open order with the same reference gets the new values.
    """
    requests = [OrderRequest(order.reference, order.username, order.fields) for order in call.body.orders]
    caller, routing = call.caller, call.context.review.routing
    async with call.transaction() as connection:
        new, changed = await flow.import_orders(
            connection, routing, caller.organization, call.body.kind, requests, actor=caller.actor
        )
    distinct = len({request.reference for request in requests})
    return OrderImportResult(new, changed, distinct - new - changed)


async def close_order(call: ApiCall[OrderPath, NoParameters, None]) -> OrderResource:
    """Close an open order, so that no document is matched with it.

    With `If-Match`, the call fails if the order has changed.
    """
    async with call.transaction() as connection:
        http_content.require_if_match(call.request, await _get_order(connection, call.path.order))
        await flow.close_order(connection, call.caller.organization, call.path.order, actor=call.caller.actor)
        return await _get_order(connection, call.path.order)


async def _get_order(connection: Connection, order: UUID) -> OrderResource:
    return require_found(await views.get_order(connection, order), "order")


OPERATIONS = [
    Operation("GET", "/orders", list_orders, Scope.READ, "Orders"),
    Operation("POST", "/orders", import_orders, Scope.DOCUMENTS, "Orders"),
    Operation("GET", "/orders/{order}", get_order, Scope.READ, "Orders"),
    Operation("POST", "/orders/{order}/close", close_order, Scope.DOCUMENTS, "Orders", matched=True),
]
