"""Orders: what is expected, told beforehand, so that a document can be matched with it (D8)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from postroom.documents.fields import field_validation
from postroom.errors import PermanentError
from postroom.flow.documents.route import RecordIdentity, RouteContext
from postroom.model import OrganizationId
from postroom.store import ledger, records
from postroom.store.database import Connection
from postroom.store.ledger import NewLedgerEntry


@dataclass(frozen=True, slots=True)
class OrderRequest:
    """One order as it was given: `fields` are some of its kind's, as the document will tell them."""

    reference: str
    username: str | None
    fields: Mapping[str, str]


def find_fault(kind: str, identity: RecordIdentity, order: OrderRequest) -> str | None:
    """The first field that is none of the kind's, or holds what does not fit it, in words."""
    for name, value in order.fields.items():
        if name not in identity.shapes:
            return f"{name} is no field of {kind}; there are {', '.join(identity.shapes)}"
        if right := field_validation.describe_expected_format(
            identity.shapes[name], value, identity.choices.get(name, ())
        ):
            return f"{name} is {right}, not {value}"
    return None


async def import_orders(
    connection: Connection,
    context: RouteContext,
    organization: OrganizationId,
    kind: str,
    orders: Sequence[OrderRequest],
    *,
    actor: str | None = None,
) -> tuple[int, int]:
    """How many are new, and how many open ones took newer values. One that does not fit refuses them all."""
    identity = context.identities.get(kind)
    if identity is None:
        raise PermanentError(f"There is no kind {kind}; there are {', '.join(sorted(context.identities))}.")
    given_before = set[str]()
    for each in orders:
        if each.reference in given_before:
            raise PermanentError(f"The order {each.reference} is given twice.")
        given_before.add(each.reference)
        if why := find_fault(kind, identity, each):
            raise PermanentError(f"The order {each.reference}: {why}.")
    given = [(each.reference, each.username, each.fields) for each in orders]
    new, changed = await records.import_orders(connection, kind, given)
    if new or changed:
        payload = {"new": new, "changed": changed}
        await ledger.append_entries(
            connection, organization, [NewLedgerEntry("ORDERS_IMPORTED", "kind", kind, actor, payload)]
        )
    return new, changed


async def close_order(
    connection: Connection, organization: OrganizationId, order: UUID, *, actor: str | None = None
) -> None:
    """Nothing is expected any more."""
    if not await records.close_order(connection, order):
        raise PermanentError("Only an open order can be closed.")
    await ledger.append_entries(
        connection, organization, [NewLedgerEntry("ORDER_CLOSED", "order", str(order), actor)]
    )
