"""`postroom api-keys`: create, list and revoke API keys.

`flow.access.api_keys` does the work.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.options import JsonOption
from postroom.errors import PermanentError
from postroom.model import OrganizationId, Scope

if TYPE_CHECKING:
    from postroom.model import Secret
    from postroom.store.api_keys import ApiKey
    from postroom.store.database import Database

group = typer.Typer(
    name="api-keys",
    help="Manage API keys for programs.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom api-keys create reporting --scope read
  postroom api-keys list""",
)


@group.command(
    epilog="""\b
Examples:
  postroom api-keys create reporting --scope read --days 90
  postroom api-keys create robot --scope read --scope documents
  postroom api-keys create assistant --record-calls > assistant.key"""
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key, such as its purpose.")],
    scope: Annotated[
        list[Scope] | None,
        typer.Option(metavar="|".join(Scope), help="Permission of the key; repeatable [default: read]"),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(
            min=0.01, max=36_500, metavar="DAYS", help="Days until the key expires [default: never]"
        ),
    ] = None,
    *,
    record_calls: Annotated[
        bool,
        typer.Option(
            "--record-calls",
            help="Record in the ledger every call with this key that passes the access checks.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Create an API key and print it.

    It is shown only once; Postroom stores its digest.
    """
    scopes = frozenset(scope or [Scope.READ])

    async def act(database: "Database", organization: OrganizationId) -> "tuple[ApiKey, Secret]":
        from postroom.flow.access import api_keys

        return await api_keys.create(
            database, organization, name, scopes, days=days, records_calls=record_calls
        )

    from postroom.cli import output, startup

    api_key, key = startup.run_for_organization(act)
    if json:
        output.print_json(asdict(api_key) | {"key": key.reveal()})
    else:
        typer.echo(key.reveal())


@group.command(
    "list", epilog="\b\nExamples:\n  postroom api-keys list\n  postroom api-keys list --json | jq length"
)
def list_(*, json: JsonOption = False) -> None:
    """List API keys with their scopes, state and last use."""

    async def act(database: "Database", organization: OrganizationId) -> "list[ApiKey]":
        from postroom.store import api_keys

        async with database.transaction(organization) as connection:
            return await api_keys.list_all(connection)

    from postroom.cli import output, startup

    keys = startup.run_for_organization(act)
    if json:
        output.print_json([asdict(key) for key in keys])
        return
    rows = [
        (key.prefix, key.name, " ".join(key.scopes), _describe_state(key), key.last_used_at) for key in keys
    ]
    output.print_table(("KEY", "NAME", "SCOPES", "STATE", "LAST USED"), rows)


@group.command(
    epilog="\b\nExamples:\n  postroom api-keys revoke reporting\n  postroom api-keys revoke pr_a1b2c3d4"
)
def revoke(
    key_name: Annotated[
        str, typer.Argument(metavar="KEY", help="Name, prefix or ID, as shown by `postroom api-keys list`.")
    ],
) -> None:
    """Revoke an API key. It takes effect within seconds."""

    async def act(database: "Database", organization: OrganizationId) -> int:
        from postroom.flow.access import api_keys

        return await api_keys.revoke(database, organization, key_name)

    from postroom.cli import startup

    if not startup.run_for_organization(act):
        raise PermanentError(
            "No such key, or it is already revoked. Run `postroom api-keys list` to see all."
        )
    typer.echo("Revoked.")


def _describe_state(key: "ApiKey") -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "active" if key.expires_at is None else f"expires {key.expires_at:%Y-%m-%d %H:%M}"
