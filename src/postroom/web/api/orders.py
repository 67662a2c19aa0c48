"""The API over orders: what is expected, so that documents can be matched with it."""

from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec

from postroom.flow.documents import orders as flow
from postroom.flow.documents.orders import Wanted
from postroom.model import Scope
from postroom.shapes import ImportedOrders, NewOrders, Order, Page
from postroom.store.database import Connection
from postroom.store.views import documents as shown
from postroom.web.api import contents, cursors
from postroom.web.api.operations import Call, Nothing, Operation, Paged, there


class OrderPath(msgspec.Struct, frozen=True):
    order: UUID


class OrdersQuery(Paged, frozen=True, forbid_unknown_fields=True):
    state: Literal["open", "matched", "closed"] | None = None


async def list_orders(call: Call[Nothing, OrdersQuery, None]) -> Page[Order]:
    """List the orders, the newest first."""
    after = cursors.key_of(call.query, tuple[datetime, UUID])
    async with call.transaction() as connection:
        found = await shown.orders(
            connection, state=call.query.state, after=after, limit=call.query.limit + 1
        )
    return cursors.page(found, call.query, lambda row: (row.created_at, row.id))


async def get_order(call: Call[OrderPath, Nothing, None]) -> Order:
    """One order."""
    async with call.transaction() as connection:
        return await _order(connection, call.path.order)


async def import_orders(call: Call[Nothing, Nothing, NewOrders]) -> ImportedOrders:
    """Import orders by their reference; an open one that is known already takes the newer values."""
    wanted = [Wanted(each.reference, each.username, each.fields) for each in call.body.orders]
    caller, routing = call.caller, call.parts.reviewing.routing
    async with call.transaction() as connection:
        new, changed = await flow.take(
            connection, routing, caller.organization, call.body.kind, wanted, actor=caller.actor
        )
    distinct = len({each.reference for each in wanted})
    return ImportedOrders(new, changed, distinct - new - changed)


async def close_order(call: Call[OrderPath, Nothing, None]) -> Order:
    """Close an open order: nothing is expected any more. `If-Match` guards against changes in between."""
    async with call.transaction() as connection:
        contents.require_match(call.request, await _order(connection, call.path.order))
        await flow.close(connection, call.caller.organization, call.path.order, actor=call.caller.actor)
        return await _order(connection, call.path.order)


async def _order(connection: Connection, order: UUID) -> Order:
    return there(await shown.order(connection, order), "order")


OPERATIONS = [
    Operation("GET", "/orders", list_orders, Scope.READ, "Orders"),
    Operation("POST", "/orders", import_orders, Scope.DOCUMENTS, "Orders"),
    Operation("GET", "/orders/{order}", get_order, Scope.READ, "Orders"),
    Operation("POST", "/orders/{order}/close", close_order, Scope.DOCUMENTS, "Orders", matched=True),
]
