"""`postroom failures`: list and retry messages and attachments that a sync could not store."""

from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.options import JsonOption
from postroom.errors import PermanentError
from postroom.model import OrganizationId

if TYPE_CHECKING:
    from postroom.api_types import FailureResource
    from postroom.store.database import Database

EXAMPLES = """\b
Examples:
  postroom failures list
  postroom failures retry 42"""

group = typer.Typer(
    name="failures",
    help="List and retry messages and attachments that failed.",
    epilog=EXAMPLES,
    no_args_is_help=True,
)
MAX_LISTED = 1000


@group.command(
    name="list",
    epilog="""\b
Examples:
  postroom failures list
  postroom failures list --json | jq length""",
)
def list_open(*, json: JsonOption = False) -> None:
    """List open failures with their reason, newest first."""

    async def act(database: "Database", organization: OrganizationId) -> "list[FailureResource]":
        from postroom.store.views import admin

        async with database.transaction(organization) as connection:
            return await admin.list_failures(
                connection, mailbox=None, unresolved=True, below=None, limit=MAX_LISTED
            )

    import msgspec

    from postroom.cli import output, startup

    found = startup.run_for_organization(act)
    if json:
        output.print_json([msgspec.to_builtins(each) for each in found])
    elif not found:
        typer.echo("No failures.")
    else:
        rows = [
            [each.id, each.mailbox_id, each.kind, each.subject, each.attempts, each.due_at, each.last_error]
            for each in found
        ]
        output.print_table(["ID", "MAILBOX", "KIND", "SUBJECT", "ATTEMPTS", "NEXT RETRY", "ERROR"], rows)


@group.command(epilog="\b\nExamples:\n  postroom failures retry 42")
def retry(
    failure: Annotated[
        int, typer.Argument(metavar="ID", min=1, help="ID, as shown by `postroom failures list`.")
    ],
) -> None:
    """Retry a failed message or attachment now."""

    async def act(database: "Database", organization: OrganizationId) -> bool:
        from postroom.flow.mail import failure_retry

        async with database.transaction(organization) as connection:
            return await failure_retry.retry(connection, organization, failure)

    from postroom.cli import startup

    if not startup.run_for_organization(act):
        raise PermanentError("No such open failure. Run `postroom failures list` to see all.")
    typer.echo("Retrying.")
