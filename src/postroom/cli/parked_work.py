"""`postroom parked`: work that failed too often and waits for a person."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from postroom.store.database import Database
    from postroom.store.work import ParkedWork

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
    from postroom.cli import output, startup

    found = startup.run_with_database(_read_parked)
    if json:
        output.print_json([asdict(each) for each in found])
    elif not found:
        typer.echo("Nothing is parked.")
    else:
        headings = ["KIND", "SUBJECT", "ORGANIZATION", "ATTEMPTS", "ERROR"]
        rows = [[each.kind, each.subject, each.organization, each.attempts, each.error] for each in found]
        output.print_table(headings, rows)


@group.command(
    epilog="""\b
Examples:
  postroom parked retry sync 6f1c2a4e-…
  postroom parked retry sync  (all of that kind)"""
)
def retry(
    kind: Annotated[str, typer.Argument(help="The kind of work, as `parked list` shows it.")],
    subject: Annotated[str | None, typer.Argument(help="Its subject [default: all of the kind]")] = None,
) -> ExitCode:
    """Give parked work another round of attempts, now."""
    from postroom.cli import startup

    count = startup.run_with_database(lambda database: _unpark(database, kind, subject))
    if not count:
        typer.echo("No such work is parked; see `postroom parked list`.", err=True)
        return ExitCode.FAILED
    typer.echo(f"{count} due again.")
    return ExitCode.OK


async def _read_parked(database: "Database") -> "list[ParkedWork]":
    from postroom.store import work

    async with database.engine() as connection:
        return await work.list_parked(connection)


async def _unpark(database: "Database", kind: str, subject: str | None) -> int:
    from postroom.store import work

    async with database.engine() as connection:
        return await work.unpark(connection, kind, subject)
