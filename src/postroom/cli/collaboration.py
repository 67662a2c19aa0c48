"""`postroom documents assign` and `comment`: share the work on documents.

The commands are part of the group in `documents`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.document_files import ActorOption, DocumentArgument, find_document

if TYPE_CHECKING:
    from postroom.model import OrganizationId
    from postroom.store.database import Connection

ASSIGN_EXAMPLES = """\b
Examples:
  postroom documents assign 6f1c2a4e ann@example.org
  postroom documents assign 6f1c2a4e"""
COMMENT_EXAMPLES = """\b
Examples:
  postroom documents comment 6f1c2a4e "Ask the supplier about the discount.\""""


def assign(
    document: DocumentArgument,
    assignee: Annotated[
        str | None, typer.Argument(metavar="ADDRESS", help="Member who is to review it. Default: no one.")
    ] = None,
    actor: ActorOption = "command line",
) -> None:
    """Assign a document that needs review to a member.

    It leaves the review queues of the other members. They can still confirm or reject it.
    """
    from postroom.cli import startup
    from postroom.flow.documents import collaboration

    async def act(connection: "Connection", organization: "OrganizationId") -> None:
        document_id = await find_document(connection, document)
        member = await collaboration.find_member(connection, assignee) if assignee else None
        await collaboration.assign(connection, organization, document_id, member, actor=actor)

    startup.run_in_transaction(act)
    typer.echo(f"Assigned to {assignee}." if assignee else "Assigned to no one.")


def comment(
    document: DocumentArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The comment.")],
    actor: ActorOption = "command line",
) -> None:
    """Comment on a document. Its page shows the comment."""
    from postroom.cli import startup
    from postroom.flow.documents import collaboration

    async def act(connection: "Connection", organization: "OrganizationId") -> None:
        document_id = await find_document(connection, document)
        await collaboration.add_comment(connection, organization, document_id, text, actor=actor)

    startup.run_in_transaction(act)
    typer.echo("Commented.")
