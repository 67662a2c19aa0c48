"""`postroom orders`: what is expected, so that documents can be matched with it."""

import csv
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from postroom.errors import PermanentError

if TYPE_CHECKING:
    from postroom.flow.documents.orders import OrderRequest
    from postroom.flow.documents.route import RouteContext
    from postroom.model import OrganizationId
    from postroom.store.database import Connection
    from postroom.store.records import Order

group = typer.Typer(
    name="orders",
    help="Open orders that documents are matched with: import, list, close.",
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
The first line names the columns: reference, username (if any), and fields of the kind:
  reference,username,isin,direction,quantity,trade_date
  O-4711,ldeburna,US0378331005,buy,100,2026-02-04""",
)
def import_orders(
    file: Annotated[Path, typer.Argument(help="A CSV file with a line of column names.")],
    kind: Annotated[str, typer.Option(help="The kind of document that fulfils them.")],
) -> None:
    """Import orders; an open one that is known already takes the newer values."""
    from postroom import config
    from postroom.cli import startup
    from postroom.flow.documents import orders as flow
    from postroom.wiring import documents as wired

    routing = wired.build_route_context(config.load())
    orders = _read_orders(file, kind, routing)

    async def write(connection: "Connection", organization: "OrganizationId") -> tuple[int, int]:
        return await flow.import_orders(connection, routing, organization, kind, orders)

    new, changed = startup.run_in_transaction(write)
    typer.echo(f"{new} new, {changed} changed, {len(orders) - new - changed} as they were.")


@group.command(name="list", epilog="\b\nExamples:\n  postroom orders list --json")
def list_orders(
    kind: Annotated[str | None, typer.Option(help="Only those of this kind.")] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List orders, the newest first."""
    from postroom.cli import output, startup
    from postroom.documents.kinds import kind_registry as kinds
    from postroom.store import records

    kinds.require_installed(kind)

    async def read(connection: "Connection", _: "OrganizationId") -> "list[Order]":
        return await records.list_orders(connection, kind)

    found = startup.run_in_transaction(read)
    if json:
        output.print_json([asdict(each) for each in found])
    elif not found:
        typer.echo("No orders. Import some: `postroom orders import FILE --kind KIND`.")
    else:
        rows = [
            [each.reference, each.kind, each.state, each.username, _format_fields(each.fields)]
            for each in found
        ]
        output.print_table(["ORDER", "KIND", "STATE", "USERNAME", "FIELDS"], rows)


@group.command(name="close", epilog="\b\nExamples:\n  postroom orders close O-4711 --kind contract-note")
def close_order(
    reference: Annotated[str, typer.Argument(help="Its reference.")],
    kind: Annotated[str, typer.Option(help="The kind of document that would fulfil it.")],
) -> None:
    """Close an open order: nothing is expected any more."""
    from postroom.cli import startup
    from postroom.flow.documents import orders as flow
    from postroom.store import records

    async def write(connection: "Connection", organization: "OrganizationId") -> None:
        found = [each for each in await records.list_orders(connection, kind) if each.reference == reference]
        if not found:
            raise PermanentError(f"There is no order {reference} of the kind {kind}.")
        await flow.close_order(connection, organization, found[0].id)

    startup.run_in_transaction(write)
    typer.echo(f"{reference} is closed.")


def _format_fields(fields: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def _read_orders(file: Path, kind: str, by: "RouteContext") -> "list[OrderRequest]":
    """Every line, or one error that says which is wrong."""
    from postroom.flow.documents.orders import OrderRequest, find_fault

    known = by.identities.get(kind)
    if known is None:
        raise PermanentError(f"There is no kind {kind}; there are {', '.join(sorted(by.identities))}.")
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            reader = csv.DictReader(opened)
            rows, columns = list(reader), list(reader.fieldnames or ())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PermanentError(f"{file} cannot be read as CSV ({type(error).__name__}).") from error
    if twice := sorted(name for name, count in Counter(columns).items() if count > 1):
        raise PermanentError(f"{file} has the column {twice[0]} twice.")
    strange = set(columns) - set(known.shapes) - {"reference", "username"}
    if "reference" not in columns or strange:
        problem = (
            "has no column `reference`"
            if not strange
            else f"has columns of no field: {', '.join(sorted(strange))}"
        )
        raise PermanentError(f"{file} {problem}. Fields of {kind}: {', '.join(known.shapes)}.")
    orders = dict[str, OrderRequest]()
    for number, row in enumerate(rows, start=2):
        order = _parse_row(file, number, row)
        why = (
            "the reference was there before" if order.reference in orders else find_fault(kind, known, order)
        )
        if why:
            raise PermanentError(f"{file}, line {number}: {why}.")
        orders[order.reference] = order
    return list(orders.values())


def _parse_row(file: Path, number: int, row: dict[str | Any, str | Any]) -> "OrderRequest":
    from postroom.flow.documents.orders import OrderRequest

    if None in row:
        raise PermanentError(f"{file}, line {number}: it has more values than columns.")
    if not (row.get("reference") or "").strip():
        raise PermanentError(f"{file}, line {number}: the reference is missing.")
    fields = {
        name: value.strip()
        for name, value in row.items()
        if name not in {"reference", "username"} and (value or "").strip()
    }
    return OrderRequest(row["reference"].strip(), (row.get("username") or "").strip() or None, fields)
