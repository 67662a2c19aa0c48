"""`postroom purge`: permanently delete what is stored about a person.

`flow.mail.purge` does the work. Mailboxes are purged by `postroom mailboxes disconnect --purge`.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.options import JsonOption

if TYPE_CHECKING:
    from postroom.flow.mail.purge import RemainingRows
    from postroom.model import OrganizationId
    from postroom.store.database import Database
    from postroom.store.purge import AddressOccurrences

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
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Email address of the person.")],
    *,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete the data. Without this, only counts are shown.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Delete the mail that a person sent, and their address elsewhere.

    Their address is removed from arrivals, the ledger and archive paths; a worker moves the archived copies.
    Mail that others sent to them, documents and records are kept. Afterwards the command searches every table
    for the address, in any encoding, and prints what is left and why. Stored files are not searched. The
    ledger stays verifiable, and `postroom ledger verify` counts its purged entries. Mail that is still in a
    connected mailbox stays there and is not fetched again; mail they send from now on is stored as usual.
    """
    from postroom.cli import output, startup
    from postroom.errors import OperatorError
    from postroom.flow.mail import purge

    if "@" not in address:
        raise OperatorError("Not an email address. Give one such as jane@example.org.")
    act = purge.purge_person if yes else purge.find_traces

    async def run(
        database: "Database", organization: "OrganizationId"
    ) -> "tuple[AddressOccurrences, list[RemainingRows]]":
        counts = await act(database, organization, address)
        return counts, await purge.list_remaining(database, organization, address) if yes else []

    counts, left = startup.run_for_organization(run)
    if json:
        output.print_json({"removed": yes, **asdict(counts), "left": [*map(asdict, left)]})
        return
    _print_result(counts, left, was_deleted=yes)


def _print_result(counts: "AddressOccurrences", left: "list[RemainingRows]", *, was_deleted: bool) -> None:
    verb = "deleted" if was_deleted else "to delete"
    typer.echo(f"Messages {verb}, with content, attachments and events: {counts.messages}")
    typer.echo(f"Senders {verb} from arrivals of documents: {counts.arrivals}")
    typer.echo(f"Ledger entries with personal values {verb}: {counts.ledger}")
    typer.echo(f"Archived copies to be moved to a path without the address: {counts.archived}")
    typer.echo(f"Messages from others to this person (kept): {counts.received}")
    for remaining in left:
        typer.echo(f"Still in {remaining.table}: {remaining.rows} rows ({remaining.reason})")
    if not was_deleted:
        typer.echo("Nothing was changed. Run the command again with --yes to delete.")
    elif not left:
        typer.echo("No table contains the address.")
