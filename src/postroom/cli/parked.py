"""`postroom parked`: work that failed too often and waits for a person."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.exits import Exit

if TYPE_CHECKING:
    from postroom.store.database import Database
    from postroom.store.work import Parked

EXAMPLES = """\b
Examples:
  postroom parked list
  postroom parked retry sync 6f1c…"""

group = typer.Typer(
    name="parked",
    help="Work that failed too often and waits for you.",
    epilog=EXAMPLES,
    no_args_is_help=True,
)


@group.command(
    name="list",
    epilog="""\b
Examples:
  postroom parked list
  postroom parked list --json | jq length""",
)
def list_parked(*, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List what is parked, with the error of its last attempt."""
    from postroom.cli import opening, output

    found = opening.in_database(_list)
    if json:
        output.as_json([asdict(each) for each in found])
    elif not found:
        typer.echo("Nothing is parked.")
    else:
        headings = ["KIND", "SUBJECT", "ORGANIZATION", "ATTEMPTS", "ERROR"]
        rows = [[each.kind, each.subject, each.organization, each.attempts, each.error] for each in found]
        output.table(headings, rows)


@group.command(
    epilog="""\b
Examples:
  postroom parked retry sync 6f1c2a4e-…
  postroom parked retry sync  (all of that kind)"""
)
def retry(
    kind: Annotated[str, typer.Argument(help="The kind of work, as `parked list` shows it.")],
    subject: Annotated[str | None, typer.Argument(help="Its subject [default: all of the kind]")] = None,
) -> Exit:
    """Give parked work another round of attempts, now."""
    from postroom.cli import opening

    count = opening.in_database(lambda database: _retry(database, kind, subject))
    if not count:
        typer.echo("No such work is parked; see `postroom parked list`.", err=True)
        return Exit.FAILED
    typer.echo(f"{count} due again.")
    return Exit.OK


async def _list(database: "Database") -> "list[Parked]":
    from postroom.store import work

    async with database.engine() as connection:
        return await work.parked(connection)


async def _retry(database: "Database", kind: str, subject: str | None) -> int:
    from postroom.store import work

    async with database.engine() as connection:
        return await work.unpark(connection, kind, subject)
