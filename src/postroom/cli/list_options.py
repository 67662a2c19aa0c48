"""Options of commands that list: the filters and sorts of the pages, by the same names."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from postroom.store.database import Connection
    from postroom.store.lists.list_definition import ListDefinition, ListQuery

SearchOption = Annotated[
    str | None,
    typer.Option("--q", metavar="WORDS", help="Search for these words or prefixes."),
]
KindOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only this kind.")]
DueOption = Annotated[str | None, typer.Option(metavar="overdue|week", help="Overdue, or due within 7 days.")]
FromOption = Annotated[str | None, typer.Option("--from", metavar="DATE", help="Dated on this day or later.")]
UntilOption = Annotated[str | None, typer.Option(metavar="DATE", help="Dated on this day or earlier.")]
MinOption = Annotated[str | None, typer.Option("--min", metavar="AMOUNT", help="Minimum amount.")]
MaxOption = Annotated[str | None, typer.Option("--max", metavar="AMOUNT", help="Maximum amount.")]
RecordStateOption = Annotated[
    str | None, typer.Option("--state", metavar="STATE", help="confirmed, reopened, voided or merged.")
]
EveryStateOption = Annotated[bool, typer.Option("--all", help="Include reopened, voided and merged records.")]
OrderFilterOption = Annotated[
    str | None, typer.Option("--order", metavar="linked|missing", help="Only with an order, or without one.")
]
SupplierOption = Annotated[
    str | None,
    typer.Option(
        metavar="ID", help="Only records of this supplier; `postroom suppliers list --json` prints IDs."
    ),
]
SortOption = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Sort by this column; -COLUMN sorts descending.")
]
LimitOption = Annotated[int, typer.Option(min=1, max=1000, metavar="COUNT", help="Maximum number of rows.")]


def build_query(definition: "ListDefinition", given: Mapping[str, str | None]) -> "ListQuery":
    """The query of these options. One that the list does not know is an error."""
    from postroom.store.lists.list_parameters import find_problem, parse_query

    params = {name: value for name, value in given.items() if value is not None}
    if problem := find_problem(definition, params, {}):
        raise typer.BadParameter(problem.replace("`", ""))
    return parse_query(definition, params, {})


async def find_ids(connection: "Connection", query: "ListQuery", limit: int) -> list[Any]:
    """The ids of the first rows."""
    from postroom.store.lists import list_reading

    ids, _ = await list_reading.read_ids(connection, await list_reading.search(connection, query), limit)
    return ids


def print_list(query: "ListQuery", limit: int, *, json: bool, empty: str) -> None:
    """Print the columns of a list, as its page has them."""
    from postroom.cli import output, startup
    from postroom.store.lists import list_reading

    async def read(connection: "Connection", _: object) -> list[list_reading.ListRow]:
        found = await list_reading.search(connection, query)
        rows, _position = await list_reading.read_page(connection, found, limit)
        return rows

    rows = startup.run_in_transaction(read)
    columns = query.definition.list_columns(is_trade=query.is_trade)
    if json:
        names = ["id", *(column.name for column in columns)]
        output.print_json([{name: row[name] for name in names} for row in rows])
    elif not rows:
        typer.echo(empty)
    else:
        shown = [column for column in columns if column.placement in ("heading", "column")]
        headings = [query.definition.noun[0].upper(), *(column.label.upper() for column in shown)]
        output.print_table(
            headings,
            [[str(row["id"])[:8], *(_shorten(row[column.name]) for column in shown)] for row in rows],
        )


def _shorten(value: Any) -> Any:
    match value:
        case list():
            amounts = cast("list[tuple[str | None, str]]", value)
            return ", ".join(f"{amount} {currency or ''}".strip() for currency, amount in amounts)
        case str():
            return value if len(value) <= 60 else f"{value[:59]}…"
        case _:
            return value
