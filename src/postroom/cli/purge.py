"""`postroom purge`: removes for good what was kept of a person."""

from dataclasses import asdict
from typing import Annotated

import typer

group = typer.Typer(
    name="purge",
    help="Remove for good what was kept. For a whole mailbox: `postroom mailboxes disconnect --purge`.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom purge person jane@example.org
  postroom purge person jane@example.org --yes""",
)


@group.callback()
def purge() -> None:
    """Remove for good what was kept. For a whole mailbox: `postroom mailboxes disconnect --purge`."""


@group.command(
    epilog="""\b
Examples:
  postroom purge person jane@example.org         (shows what would go)
  postroom purge person jane@example.org --yes   (removes it)"""
)
def person(
    address: Annotated[str, typer.Argument(help="The person's mail address.")],
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it. Without this, only counts are shown.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Forget a person: the mail they sent, who sent documents, and their address in the ledger.

    Mail that others sent to them stays, as do documents and records: those are not theirs alone. The ledger
    stays whole; `postroom ledger verify` then says purged. Where the mail still is in a connected mailbox, it
    stays there and is not fetched again; mail that they send from now on is new.
    """
    from postroom import config
    from postroom.cli import output, startup
    from postroom.errors import OperatorError
    from postroom.flow.mail import purge
    from postroom.model import OrganizationId

    if "@" not in address:
        raise OperatorError("This is no mail address. Give one such as jane@example.org.")
    organization = OrganizationId(config.load().organization)
    act = purge.purge_person if yes else purge.find_traces
    found = startup.run_with_database(lambda database: act(database, organization, address))
    if json:
        output.print_json({"removed": yes, **asdict(found)})
        return
    verb = "were removed" if yes else "would be removed"
    typer.echo(f"{found.messages} messages {verb}, with their contents, attachments and events.")
    typer.echo(
        f"{found.arrivals} arrivals of documents and {found.ledger} entries of the ledger name them: their"
    )
    typer.echo(f"names {verb}; {found.received} messages that others sent to them stay.")
    if not yes:
        typer.echo("Nothing was changed. Run it again with --yes.")
