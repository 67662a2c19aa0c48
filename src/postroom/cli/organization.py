"""`postroom organization`: the organization's names, and what the work of each organization used."""

from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.options import JsonOption
from postroom.errors import PermanentError

if TYPE_CHECKING:
    from postroom.model import OrganizationId
    from postroom.store.database import Connection, Database
    from postroom.store.resource_uses import OrganizationUse

group = typer.Typer(
    name="organization",
    help="Set the names by which suppliers address your organization; show what each organization uses.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom organization names
  postroom organization names "Nordwind AG" "Nordwind Logistik GmbH"
  postroom organization usage""",
)


@group.command(
    epilog="""\b
Examples:
  postroom organization names
  postroom organization names "Nordwind AG" "Nordwind Logistik GmbH"
  postroom organization names --clear"""
)
def names(
    name: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="New names, with their legal form.")
    ] = None,
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all names.")] = False,
    actor: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Name of the person, for the ledger.")
    ] = "command line",
) -> None:
    """Show the names, or replace them.

    An invoice addressed to any other name needs review. If no name is set, addressees are not checked.
    """
    from postroom.cli import startup
    from postroom.flow.access import organization_names as flow
    from postroom.store import organizations

    if name and clear:
        raise PermanentError("Give either names or --clear.")

    async def act(connection: "Connection", organization: "OrganizationId") -> list[str]:
        if name or clear:
            return await flow.set_names(connection, organization, name or [], actor=actor)
        return await organizations.list_names(connection)

    for line in startup.run_in_transaction(act) or ["No names: addressees are not checked."]:
        typer.echo(line)


@group.command(
    epilog="""\b
Examples:
  postroom organization usage
  postroom organization usage --hours 168
  postroom organization usage --json | jq 'map(.cpu_seconds) | add'"""
)
def usage(
    *,
    hours: Annotated[int, typer.Option(min=1, max=720, metavar="COUNT", help="Hours to look back.")] = 24,
    json: JsonOption = False,
) -> None:
    """Show what each organization used: time in the queue, running time, CPU time and storage.

    Organizations that used less are served first. `postroom blobs usage` shows the storage limit.
    """
    from dataclasses import asdict

    from postroom.cli import output, startup

    uses, stored = startup.run_with_database(lambda database: _list_uses(database, hours))
    if json:
        output.print_json([{**asdict(use), "stored_bytes": stored[use.organization_id]} for use in uses])
        return
    rows = [
        (
            use.name,
            f"{use.steps:,}",
            f"{use.queue_seconds / max(use.steps, 1):,.1f} s",
            f"{use.run_seconds:,.0f} s",
            f"{use.cpu_seconds:,.0f} s",
            f"{stored[use.organization_id] / 1e9:,.2f} GB",
        )
        for use in uses
    ]
    output.print_table(("ORGANIZATION", "STEPS", "MEAN WAIT", "RUNNING", "CPU", "STORED"), rows)


async def _list_uses(
    database: "Database", hours: int
) -> "tuple[list[OrganizationUse], dict[OrganizationId, int]]":
    from postroom.flow.storage import storage_limit
    from postroom.store import resource_uses

    async with database.engine() as connection:
        uses = await resource_uses.list_recent(connection, hours)
    return list(uses), dict(await storage_limit.list_use(database))
