"""`postroom messages`: list the messages of all mailboxes."""

from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli import list_options
from postroom.cli.list_options import LimitOption, SearchOption
from postroom.cli.options import JsonOption

if TYPE_CHECKING:
    from postroom.model import OrganizationId
    from postroom.store.database import Connection

group = typer.Typer(
    name="messages",
    help="List messages.",
    no_args_is_help=True,
    epilog="\b\nExamples:\n  postroom messages list --mailbox ann@example.org --attachments yes",
)


@group.command(
    name="list",
    epilog="""\b
Examples:
  postroom messages list --mailbox ann@example.org --attachments yes
  postroom messages list --q invoice --from 2026-03-01 --until 2026-03-31 --json""",
)
def list_messages(
    q: SearchOption = None,
    mailbox: Annotated[
        str | None, typer.Option(metavar="MAILBOX", help="Only this mailbox: address, ID or start of the ID.")
    ] = None,
    attachments: Annotated[
        str | None, typer.Option(metavar="yes|no", help="Only with attachments, or without.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="Received on this day or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="Received on this day or earlier.")
    ] = None,
    limit: LimitOption = 50,
    *,
    deleted: Annotated[bool, typer.Option("--deleted", help="Include deleted messages.")] = False,
    json: JsonOption = False,
) -> None:
    """List the messages of all mailboxes, newest first."""
    from postroom.cli import startup
    from postroom.cli.mailboxes import find_one
    from postroom.store.lists.messages import MESSAGES

    async def find(connection: "Connection", _: "OrganizationId") -> str:
        assert mailbox is not None
        return str((await find_one(connection, mailbox)).id)

    given = {
        "q": q, "attachments": attachments, "from": from_, "until": until,
        "deleted": "all" if deleted else None,
        "mailbox": startup.run_in_transaction(find) if mailbox else None,
    }  # fmt: skip
    query = list_options.build_query(MESSAGES, given)
    list_options.print_list(query, limit, json=json, empty="No messages match.")
