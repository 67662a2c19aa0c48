"""Validate, import and close orders: the purchases and trades that documents are expected for.

Each runs in the caller's transaction. `route` matches documents with open orders; `order_links` links the
records of documents that came before their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from postroom.documents.fields import field_validation, table_validation
from postroom.errors import PermanentError
from postroom.flow.documents import order_links
from postroom.flow.documents.route import RecordIdentity, RouteContext
from postroom.model import OrganizationId
from postroom.store import ledger, orders, records
from postroom.store.connection import Connection
from postroom.store.ledger import NewLedgerEntry

# Per kind: each document is compared with all open orders of its kind.
MAX_OPEN_ORDERS: Final = 20_000
MAX_REFERENCE: Final = 500  # characters that fit into an index


@dataclass(frozen=True, slots=True)
class OrderRequest:
    """One order to import. `fields` are fields of its kind, as the document will show them."""

    reference: str
    username: str | None
    fields: Mapping[str, str]


def find_fault(kind: str, identity: RecordIdentity, order: OrderRequest) -> str | None:
    """Describe the first unknown field or invalid value; None if there is none."""
    for name, value in order.fields.items():
        if name not in identity.shapes:
            return f"{name} is not a field of {kind}; its fields are {', '.join(identity.shapes)}"
        if identity.shapes[name] in table_validation.TABLE_SHAPES:
            return f"{name} is a table, which an order cannot contain"
        if right := field_validation.describe_expected_format(
            identity.shapes[name], value, identity.choices.get(name, ())
        ):
            return f"{name} must be {right}, not {value}"
    return None


async def import_orders(
    connection: Connection,
    context: RouteContext,
    organization: OrganizationId,
    kind: str,
    requests: Sequence[OrderRequest],
    *,
    actor: str | None = None,
) -> tuple[int, int]:
    """Import orders; how many are new, and how many open ones changed. One invalid order rejects all.

    Confirmed records that waited for one of them are linked to it.
    """
    identity = context.identities.get(kind)
    if identity is None:
        raise PermanentError(
            f"There is no document kind {kind}. Kinds: {', '.join(sorted(context.identities))}."
        )
    seen_references = set[str]()
    for order in requests:
        if order.reference in seen_references:
            raise PermanentError(f"Order {order.reference} is listed twice.")
        seen_references.add(order.reference)
        if len(order.reference) > MAX_REFERENCE:
            raise PermanentError(f"The reference of an order can have at most {MAX_REFERENCE} characters.")
        if why := find_fault(kind, identity, order):
            raise PermanentError(f"Order {order.reference}: {why}.")
    given = [(order.reference, order.username, order.fields) for order in requests]
    await records.lock(connection)
    new, changed = await orders.import_orders(connection, kind, given)
    if new and await orders.count_open(connection, kind) > MAX_OPEN_ORDERS:
        raise PermanentError(
            f"There can be at most {MAX_OPEN_ORDERS:,} open orders of a kind."
            " Close those for which no document is expected."
        )
    if new or changed:
        payload = {"new": new, "changed": changed}
        await ledger.append_entries(
            connection, organization, [NewLedgerEntry("ORDERS_IMPORTED", "kind", kind, actor, payload)]
        )
        await order_links.link_waiting_records(connection, context, organization, kind)
    return new, changed


async def close_order(
    connection: Connection, organization: OrganizationId, order: UUID, *, actor: str | None = None
) -> None:
    """Close an open order: no document is expected for it."""
    if not await orders.close_order(connection, order):
        raise PermanentError("Only an open order can be closed.")
    await ledger.append_entries(
        connection, organization, [NewLedgerEntry("ORDER_CLOSED", "order", str(order), actor)]
    )
