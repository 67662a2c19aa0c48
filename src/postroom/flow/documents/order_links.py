"""Link records and orders: the order that a person chooses, and orders that arrive after their document."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from postroom.documents import record_matching
from postroom.documents.kinds.field_spec import FieldShape
from postroom.documents.record_matching import ExpectedOrder, OrderMatch
from postroom.errors import PermanentError
from postroom.flow.documents import route
from postroom.flow.documents.record_publishing import revise_record
from postroom.flow.documents.route import MACHINE, RouteContext
from postroom.model import OrganizationId
from postroom.store import documents, orders, records
from postroom.store.connection import Connection
from postroom.store.orders import Order
from postroom.store.record_versions import ChangeKind, VersionNote
from postroom.store.records import Record

# Fields of which one must agree before a waiting record is compared with an order: few records share a value.
IDENTIFYING_SHAPES: Final = frozenset[FieldShape](
    {"code", "isin", "iban", "vat_id", "symbol", "party", "recipient", "name"}
)


def choose_order(
    values: Mapping[str, Any],
    open_orders: Sequence[Order],
    shapes: Mapping[str, FieldShape],
    chosen: str | None,
) -> OrderMatch:
    """The order with the chosen reference; "" means none. Without a choice, the one that fits."""
    if chosen is None:
        expected = [ExpectedOrder(order.reference, order.fields) for order in open_orders]
        return record_matching.match_order(values, expected, shapes)
    if not chosen:
        return OrderMatch(None, "no order was chosen")
    if all(order.reference != chosen for order in open_orders):
        raise PermanentError(
            f"There is no open order {chosen} for this kind of document. Choose an open one, or none."
        )
    return OrderMatch(chosen, f"order {chosen}: chosen by a person")


def list_fitting(
    values: Mapping[str, Any], open_orders: Sequence[Order], shapes: Mapping[str, FieldShape]
) -> list[Order]:
    """The open orders that agree with these values."""
    return [
        order
        for order in open_orders
        if record_matching.match_order(
            values, [ExpectedOrder(order.reference, order.fields)], shapes
        ).reference
    ]


async def link_waiting_records(
    connection: Connection, context: RouteContext, organization: OrganizationId, kind: str
) -> list[UUID]:
    """Link confirmed records without an order to the open orders that only they fit.

    Call `records.lock` first.
    """
    identity = context.identities[kind]
    names = [name for name, shape in identity.shapes.items() if shape in IDENTIFYING_SHAPES]
    pairs = await orders.list_waiting_records(connection, kind, names)
    open_orders = (
        {order.id: order for order in await orders.list_open_orders(connection, kind)} if pairs else {}
    )
    expected = {id_: ExpectedOrder(order.reference, order.fields) for id_, order in open_orders.items()}
    waiting: dict[UUID, Record] = {}
    candidates: list[tuple[UUID, Mapping[str, Any], list[ExpectedOrder]]] = []
    for record_id, order_ids in pairs:
        record = await records.get(connection, record_id)
        if record is not None:
            waiting[record_id] = record
            known = [expected[order] for order in order_ids if order in expected]
            candidates.append((record_id, record.fields, known))
    fits = await asyncio.to_thread(record_matching.assign_orders, candidates, identity.shapes)
    by_reference = {order.reference: order for order in open_orders.values()}
    for fit in fits:
        record, order = waiting[fit.record], by_reference[fit.order.reference]
        await orders.match_order(connection, order.id)
        [source, *_] = await documents.list_by_record(connection, record.id) or [None]
        key = record.key
        if source:
            key = await route.build_key(connection, identity, source, record.fields, order) or key
        note = VersionNote(ChangeKind.LINKED, fit.match.reason, MACHINE)
        after = replace(record, order_id=order.id, key=key)
        await revise_record(connection, organization, record, after, note)
    return [fit.record for fit in fits]
