"""`postroom purge`: permanently delete what is stored about a person.

`flow.mail.purge` does the work. Mailboxes are purged by `postroom mailboxes disconnect --purge`.
"""

from dataclasses import asdict
from typing import Annotated

import typer

group = typer.Typer(
    name="purge",
    help="Permanently delete stored data. For a mailbox: `postroom mailboxes disconnect --purge`.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom purge person jane@example.org
  postroom purge person jane@example.org --yes""",
)


@group.callback()
def purge() -> None:
    """Permanently delete stored data.

    For a mailbox: `postroom mailboxes disconnect --purge`.
    """


@group.command(
    epilog="""\b
Examples:
  postroom purge person jane@example.org         # shows what would be deleted
  postroom purge person jane@example.org --yes   # deletes it"""
)
def person(
    address: Annotated[str, typer.Argument(help="Email address of the person.")],
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete the data. Without this, only counts are shown.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Delete what is stored about a person: mail they sent, and their address in arrivals and the ledger.

    Mail that others sent to them, documents and records are kept. The ledger stays verifiable, and
    `postroom ledger verify` counts its purged entries. Mail that is still in a connected mailbox stays there
    and is not fetched again; mail they send from now on is stored as usual.
    """
    from postroom import config
    from postroom.cli import output, startup
    from postroom.errors import OperatorError
    from postroom.flow.mail import purge
    from postroom.model import OrganizationId

    if "@" not in address:
        raise OperatorError("Not an email address. Give one such as jane@example.org.")
    organization = OrganizationId(config.load().organization)
    act = purge.purge_person if yes else purge.find_traces
    counts = startup.run_with_database(lambda database: act(database, organization, address))
    if json:
        output.print_json({"removed": yes, **asdict(counts)})
        return
    verb = "deleted" if yes else "would be deleted"
    typer.echo(f"Messages {verb}, with content, attachments and events: {counts.messages}")
    typer.echo(f"Document arrivals whose sender {verb}: {counts.arrivals}")
    typer.echo(f"Ledger entries whose personal values {verb}: {counts.ledger}")
    typer.echo(f"Messages from others to this person (kept): {counts.received}")
    if not yes:
        typer.echo("Nothing was changed. Run the command again with --yes to delete.")
