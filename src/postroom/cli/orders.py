"""`postroom orders`: import orders from CSV, list and close them.

`flow.documents.order_files` reads the file, `flow.documents.orders` stores the orders.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli import list_options
from postroom.cli.list_options import KindOption, SearchOption, SortOption
from postroom.cli.options import JsonOption
from postroom.errors import PermanentError

if TYPE_CHECKING:
    from postroom.flow.documents.orders import OrderRequest
    from postroom.flow.documents.route import RouteContext
    from postroom.model import OrganizationId
    from postroom.store.database import Connection
    from postroom.store.orders import Order

group = typer.Typer(
    name="orders",
    help="Import, list and close orders for which documents are expected.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom orders import orders.csv --kind contract-note
  postroom orders list""",
)


@group.command(
    name="import",
    epilog="""\b
Examples:
  postroom orders import orders.csv --kind contract-note
The header line names the columns: reference, username (optional) and fields of the kind:
  reference,username,isin,direction,quantity,trade_date
  O-4711,ldeburna,US0378331005,buy,100,2026-02-04""",
)
def import_orders(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV file with a header line.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help="Kind of document that fulfills the orders.")],
) -> None:
    """Import orders from a CSV file. Open orders that exist already are updated."""
    from postroom.cli import startup
    from postroom.flow.documents import orders as flow
    from postroom.wiring import documents as wired

    settings = startup.load_command_settings("cli")
    routing = wired.build_route_context(settings)
    orders = _read_orders(file, kind, routing)

    async def write(connection: "Connection", organization: "OrganizationId") -> tuple[int, int]:
        return await flow.import_orders(connection, routing, organization, kind, orders)

    new, changed = startup.run_in_transaction(write, settings)
    typer.echo(f"{new} new, {changed} updated, {len(orders) - new - changed} unchanged.")


@group.command(
    name="list",
    epilog="\b\nExamples:\n  postroom orders list --json\n  postroom orders list --state open --q acme",
)
def list_orders(
    kind: KindOption = None,
    q: SearchOption = None,
    state: Annotated[
        str | None, typer.Option(metavar="open|matched|closed", help="Only orders in this state.")
    ] = None,
    sort: SortOption = None,
    *,
    json: JsonOption = False,
) -> None:
    """List orders, newest first."""
    from postroom.cli import output, startup
    from postroom.documents.kinds import kind_registry as kinds
    from postroom.store import orders as store
    from postroom.store.lists.list_reading import MAX_EXPORTED
    from postroom.store.lists.orders import ORDERS

    kinds.require_installed(kind)
    query = list_options.build_query(ORDERS, {"kind": kind, "q": q, "state": state, "sort": sort})

    async def read(connection: "Connection", _: "OrganizationId") -> "list[Order]":
        return await store.list_orders(
            connection, await list_options.find_ids(connection, query, MAX_EXPORTED)
        )

    orders = startup.run_in_transaction(read)
    if json:
        output.print_json([asdict(order) for order in orders])
    elif not orders:
        typer.echo("No orders. Import some with `postroom orders import FILE --kind KIND`.")
    else:
        rows = [
            [
                order.reference,
                order.kind,
                order.state,
                str(order.record_id)[:8] if order.record_id else None,
                order.username,
                _format_fields(order.fields),
            ]
            for order in orders
        ]
        output.print_table(["ORDER", "KIND", "STATE", "RECORD", "USERNAME", "FIELDS"], rows)


@group.command(name="close", epilog="\b\nExamples:\n  postroom orders close O-4711 --kind contract-note")
def close_order(
    reference: Annotated[str, typer.Argument(metavar="REFERENCE", help="Reference of the order.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help="Kind of document that would fulfill the order.")],
) -> None:
    """Close an open order: stop expecting a document for it."""
    from postroom.cli import startup
    from postroom.flow.documents import orders as flow
    from postroom.store import orders as store

    async def write(connection: "Connection", organization: "OrganizationId") -> None:
        matches = [
            order for order in await store.list_by_kind(connection, kind) if order.reference == reference
        ]
        if not matches:
            raise PermanentError(
                f"No order {reference} of kind {kind}. Run `postroom orders list` to see all."
            )
        await flow.close_order(connection, organization, matches[0].id)

    startup.run_in_transaction(write)
    typer.echo(f"Closed {reference}.")


def _format_fields(fields: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def _read_orders(file: Path, kind: str, context: "RouteContext") -> "list[OrderRequest]":
    """Read and validate all orders of a CSV file.

    The error names the first invalid line.
    """
    from postroom.flow.documents.order_files import parse_orders

    identity = context.identities.get(kind)
    if identity is None:
        raise PermanentError(f"No such kind: {kind}. Choose one of: {', '.join(sorted(context.identities))}.")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise PermanentError(
            f"{file} cannot be read as a CSV file in UTF-8 ({type(error).__name__}). Check the file."
        ) from error
    return parse_orders(text, kind, identity, source=str(file))
