"""`postroom parked-work`: list and retry work that is no longer retried automatically."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption

if TYPE_CHECKING:
    from postroom.store.database import Database
    from postroom.store.parked_work import ParkedWork

EXAMPLES = """\b
Examples:
  postroom parked-work list
  postroom parked-work retry sync 6f1c…"""

group = typer.Typer(
    name="parked-work",
    help="List and retry parked work: work that failed permanently.",
    epilog=EXAMPLES,
    no_args_is_help=True,
)


@group.command(
    name="list",
    epilog="""\b
Examples:
  postroom parked-work list
  postroom parked-work list --json | jq length""",
)
def list_parked(*, json: JsonOption = False) -> None:
    """List parked work with its last error."""
    from postroom.cli import output, startup

    items = startup.run_with_database(_read_parked)
    if json:
        output.print_json([asdict(item) for item in items])
    elif not items:
        typer.echo("No work is parked.")
    else:
        headings = ["KIND", "SUBJECT", "ORGANIZATION", "ATTEMPTS", "ERROR"]
        rows = [[item.kind, item.subject, item.organization, item.attempts, item.error] for item in items]
        output.print_table(headings, rows)


@group.command(
    epilog="""\b
Examples:
  postroom parked-work retry sync 6f1c2a4e-…
  postroom parked-work retry sync   # all syncs"""
)
def retry(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Work kind, as shown by `postroom parked-work list`.")
    ],
    subject: Annotated[
        str | None, typer.Argument(metavar="SUBJECT", help="Subject of the work [default: all of this kind]")
    ] = None,
) -> ExitCode:
    """Retry parked work now, and reset its attempt count."""
    from postroom.cli import startup

    count = startup.run_with_database(lambda database: _unpark(database, kind, subject))
    if not count:
        typer.echo("No such work is parked. Run `postroom parked-work list` to see all.", err=True)
        return ExitCode.FAILED
    typer.echo(f"Retrying: {count}.")
    return ExitCode.OK


async def _read_parked(database: "Database") -> "list[ParkedWork]":
    from postroom.store import parked_work

    async with database.engine() as connection:
        return await parked_work.list_parked(connection)


async def _unpark(database: "Database", kind: str, subject: str | None) -> int:
    from postroom.store import parked_work

    async with database.engine() as connection:
        return await parked_work.unpark(connection, kind, subject)
