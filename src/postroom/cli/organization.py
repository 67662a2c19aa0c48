"""`postroom organization`: the names by which suppliers address the organization."""

from typing import TYPE_CHECKING, Annotated

import typer

from postroom.errors import PermanentError

if TYPE_CHECKING:
    from postroom.model import OrganizationId
    from postroom.store.database import Connection

group = typer.Typer(
    name="organization",
    help="Show and set the names by which suppliers address your organization.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom organization names
  postroom organization names "Nordwind AG" "Nordwind Logistik GmbH\"""",
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
