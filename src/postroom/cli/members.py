"""`postroom members`: manage members, their roles and passwords, and sign-in links.

`flow.access` does the work.
"""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from postroom.cli.options import JsonOption
from postroom.errors import PermanentError, SettingsError
from postroom.model import OrganizationId, Role, Secret

if TYPE_CHECKING:
    from postroom.store.database import Database
    from postroom.store.members import Member

Result = TypeVar("Result")

# The actor that the ledger records.
_ACTOR = "command line"

group = typer.Typer(
    name="members",
    help="Manage members: the people who may sign in, and their roles.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom members add ann@example.org --role admin
  postroom members link ann@example.org""",
)
AddressArgument = Annotated[str, typer.Argument(metavar="ADDRESS", help="Email address of the member.")]


class MemberCommandContext(NamedTuple):
    database: "Database"
    organization: OrganizationId
    url: str


@group.command(
    epilog="""\b
Examples:
  postroom members add ann@example.org --role admin
  postroom members add bob@example.org --name Bob"""
)
def add(
    address: AddressArgument,
    role: Annotated[Role, typer.Option(help="Role of the member.")] = Role.READER,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Display name [default: derived from the address]")
    ] = None,
) -> None:
    """Add a member and print a sign-in link.

    The link works once, within one hour.
    """

    async def act(context: MemberCommandContext) -> str:
        from postroom.flow.access import members

        member = await members.add(
            context.database, context.organization, address, role=role, name=name, actor=_ACTOR
        )
        return await _create_sign_in_link(context, member)

    typer.echo(_run_command(act))


@group.command(epilog="\b\nExamples:\n  postroom members link ann@example.org")
def link(address: AddressArgument) -> None:
    """Print a sign-in link for a member. It works once, within one hour."""

    async def act(context: MemberCommandContext) -> str:
        return await _create_sign_in_link(context, await _find_member(context, address))

    typer.echo(_run_command(act))


@group.command(
    "list",
    epilog="""\b
Examples:
  postroom members list
  postroom members list --json | jq -r '.[].address'""",
)
def list_(*, json: JsonOption = False) -> None:
    """List members: roles, sign-in methods, and when last seen."""

    async def act(context: MemberCommandContext) -> "list[Member]":
        from postroom.store import members

        async with context.database.transaction(context.organization) as connection:
            return await members.list_all(connection)

    from postroom.cli import output

    members = _run_command(act)
    if json:
        output.print_json([asdict(member) for member in members])
        return
    rows = [
        (member.address, member.name, member.role, _describe_sign_in_methods(member), member.last_seen_at)
        for member in members
    ]
    output.print_table(("ADDRESS", "NAME", "ROLE", "SIGN-IN METHODS", "LAST SEEN"), rows)


@group.command(
    epilog="""\b
Examples:
  postroom members role ann@example.org reviewer"""
)
def role(
    address: AddressArgument,
    role: Annotated[Role, typer.Argument(metavar="ROLE", help="Role of the member.")],
) -> None:
    """Change the role of a member. It takes effect with the next request."""

    async def act(context: MemberCommandContext) -> bool:
        from postroom.flow.access import members

        return await members.set_role(
            context.database, await _find_member(context, address), role, actor=_ACTOR
        )

    typer.echo("Changed." if _run_command(act) else "Unchanged: the member already has this role.")


@group.command(
    epilog="""\b
Examples:
  postroom members password ann@example.org
  postroom members password ann@example.org --file /run/secrets/ann
  postroom members password ann@example.org --remove"""
)
def password(
    address: AddressArgument,
    *,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the password from the first line of this file.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the password.")] = False,
) -> None:
    """Set or remove a member's password.

    This unlocks the member and ends all their sessions.
    """
    new_password = None if remove else _read_password(file)

    async def act(context: MemberCommandContext) -> None:
        from postroom.flow.access import members

        await members.set_password(
            context.database, await _find_member(context, address), new_password, actor=_ACTOR
        )

    _run_command(act)
    typer.echo("Removed." if remove else "Changed.")


@group.command(epilog="\b\nExamples:\n  postroom members remove ann@example.org")
def remove(address: AddressArgument) -> None:
    """Remove a member and end all their sessions."""

    async def act(context: MemberCommandContext) -> None:
        from postroom.flow.access import members

        await members.remove(context.database, await _find_member(context, address), actor=_ACTOR)

    _run_command(act)
    typer.echo("Removed.")


def _run_command(act: Callable[[MemberCommandContext], Awaitable[Result]]) -> Result:
    from postroom import config
    from postroom.cli import startup

    settings = config.load()

    async def run(database: "Database") -> Result:
        return await act(
            MemberCommandContext(database, OrganizationId(settings.organization), startup.web_url(settings))
        )

    return startup.run_with_database(run)


async def _find_member(context: MemberCommandContext, address: str) -> "Member":
    from postroom.flow.access import members

    return await members.find(context.database, context.organization, address)


async def _create_sign_in_link(context: MemberCommandContext, member: "Member") -> str:
    from postroom.flow.access import sign_in

    return sign_in.build_link_url(
        context.url, await sign_in.create_link(context.database, member, actor=_ACTOR)
    )


def _describe_sign_in_methods(member: "Member") -> str:
    methods = [name for name, has in (("password", member.has_password), ("openid", member.by_openid)) if has]
    return ", ".join(["link", *methods]) + (" (recent wrong passwords)" if member.locked_until else "")


def _read_password(file: Path | None) -> Secret:
    if file is not None:
        try:
            return Secret(file.read_text().partition("\n")[0])
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"The password file cannot be read ({type(error).__name__}). Check path and permissions."
            ) from None
    if not sys.stdin.isatty():
        raise SettingsError("Cannot prompt for a password without a terminal. Use --file.")
    first = typer.prompt("New password", hide_input=True)
    if typer.prompt("Repeat the password", hide_input=True) != first:
        raise PermanentError("The passwords do not match. Nothing was changed.")
    return Secret(first)
