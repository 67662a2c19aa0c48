"""`postroom keys`: API keys, for programs."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.errors import PermanentError
from postroom.model import OrganizationId, Scope

if TYPE_CHECKING:
    from postroom.model import Secret
    from postroom.store.api_keys import ApiKey
    from postroom.store.database import Database

group = typer.Typer(
    name="keys",
    help="API keys: what programs show to be let in.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom keys create reporting --scope read
  postroom keys list""",
)
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@group.command(
    epilog="""\b
Examples:
  postroom keys create reporting --scope read --days 90
  postroom keys create robot --scope read --scope documents"""
)
def create(
    name: Annotated[str, typer.Argument(help="What it is for, so that you know it again.")],
    scope: Annotated[list[Scope] | None, typer.Option(help="What it opens; may be repeated.")] = None,
    days: Annotated[
        float | None, typer.Option(min=0.01, max=36_500, help="How long it is good [default: for ever]")
    ] = None,
    *,
    json: JsonOption = False,
) -> None:
    """Make a key and print it, this once: only its digest is kept."""
    scopes = frozenset(scope or [Scope.READ])

    async def act(database: "Database", organization: OrganizationId) -> "tuple[ApiKey, Secret]":
        from postroom.flow.access import api_keys

        return await api_keys.create(database, organization, name, scopes, days=days)

    from postroom.cli import output, startup

    made, key = startup.run_for_organization(act)
    if json:
        output.print_json(asdict(made) | {"key": key.reveal()})
    else:
        typer.echo(key.reveal())


@group.command("list", epilog="\b\nExamples:\n  postroom keys list\n  postroom keys list --json | jq length")
def list_(*, json: JsonOption = False) -> None:
    """List the keys: what each opens, and when it was last used."""

    async def act(database: "Database", organization: OrganizationId) -> "list[ApiKey]":
        from postroom.store import api_keys

        async with database.transaction(organization) as connection:
            return await api_keys.list_all(connection)

    from postroom.cli import output, startup

    found = startup.run_for_organization(act)
    if json:
        output.print_json([asdict(each) for each in found])
        return
    rows = [
        (each.prefix, each.name, " ".join(each.scopes), _describe_state(each), each.last_used_at)
        for each in found
    ]
    output.print_table(("KEY", "NAME", "SCOPES", "STATE", "LAST USED"), rows)


@group.command(epilog="\b\nExamples:\n  postroom keys revoke reporting\n  postroom keys revoke pr_a1b2c3d4")
def revoke(
    key_name: Annotated[
        str, typer.Argument(metavar="KEY", help="Its name, its beginning or its id, as `keys list` has it.")
    ],
) -> None:
    """Let a key count no more. Web processes know within seconds."""

    async def act(database: "Database", organization: OrganizationId) -> int:
        from postroom.flow.access import api_keys

        return await api_keys.revoke(database, organization, key_name)

    from postroom.cli import startup

    if not startup.run_for_organization(act):
        raise PermanentError("No key is called so, or it is revoked already. `postroom keys list` shows all.")
    typer.echo("Revoked.")


def _describe_state(key: "ApiKey") -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "good" if key.expires_at is None else f"until {key.expires_at:%Y-%m-%d %H:%M}"
