"""`postroom documents unlock` and `split`: give the password of a document, and split it.

The commands are part of the group in `documents`.
"""

import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from postroom.errors import PermanentError
from postroom.model import Secret

if TYPE_CHECKING:
    from postroom.config import Settings
    from postroom.documents.sandbox.file_sandbox import FileSandbox
    from postroom.model import OrganizationId
    from postroom.ports import BlobStore
    from postroom.store.database import Connection, Database
    from postroom.store.document_files import DocumentPart

Result = TypeVar("Result")

UNLOCK_EXAMPLES = """\b
Examples:
  postroom documents unlock 6f1c2a4e
  postroom documents unlock 6f1c2a4e < /run/secrets/pdf-password"""
SPLIT_EXAMPLES = """\b
Examples:
  postroom documents split 6f1c2a4e --pages 1-2,3"""
DocumentArgument = Annotated[str, typer.Argument(metavar="DOCUMENT", help="ID, or start of the ID.")]
ActorOption = Annotated[str, typer.Option("--as", metavar="NAME", help="Name of the person, for the ledger.")]


def unlock(document: DocumentArgument, actor: ActorOption = "command line") -> None:
    """Unlock an encrypted document with its password, and process it.

    Asks for the password, or reads the first line of standard input. The password is used once and not
    stored.
    """
    password = _read_password()

    async def act(files: _FileTools, document_id: UUID) -> None:
        from postroom.flow.documents import unlock as flow

        database, organization = files.database, files.organization
        await flow.unlock(
            database, files.blobs, files.sandbox, organization, document_id, password, actor=actor
        )

    _run(document, act)
    typer.echo("Unlocked and queued.")


def split(
    document: DocumentArgument,
    pages: Annotated[str, typer.Option(metavar="PAGES", help="The pages of each part, such as 1-2,3.")],
    actor: ActorOption = "command line",
) -> None:
    """Split a PDF that holds several documents.

    Each part becomes a document of its own. Every page belongs to one part. The original is marked
    completed and archived unchanged.
    """
    from postroom.documents.page_ranges import parse_ranges

    ranges = parse_ranges(pages)

    async def act(files: _FileTools, document_id: UUID) -> "list[DocumentPart]":
        from postroom.flow.documents import split as flow
        from postroom.wiring import documents as wired

        settings = files.settings
        context = wired.build_review_context(settings, wired.load_pipelines(settings))
        database, organization = files.database, files.organization
        return await flow.split(
            database, files.blobs, files.sandbox, context, organization, document_id, ranges, actor=actor
        )

    for part in _run(document, act):
        typer.echo(f"{part.document}  pages {part.pages}")


@dataclass(frozen=True, slots=True)
class _FileTools:
    settings: "Settings"
    database: "Database"
    organization: "OrganizationId"
    blobs: "BlobStore"
    sandbox: "FileSandbox"


def _run(document: str, act: "Callable[[_FileTools, UUID], Coroutine[Any, Any, Result]]") -> "Result":
    """Run with a database, a blob store and a file sandbox."""
    from postroom.cli import startup

    settings = startup.load_command_settings("cli")

    async def run(database: "Database", organization: "OrganizationId") -> "Result":
        from postroom.documents.sandbox.file_sandbox import FileSandbox
        from postroom.wiring import storage

        async with database.transaction(organization) as connection:
            document_id = await find_document(connection, document)
        blobs = storage.build_limited_blob_store(settings, database)
        async with FileSandbox(parallel=1) as sandbox:
            return await act(_FileTools(settings, database, organization, blobs, sandbox), document_id)

    return startup.run_for_organization(run, settings)


def _read_password() -> Secret:
    if sys.stdin.isatty():
        return Secret(typer.prompt("Password of the document", hide_input=True))
    return Secret(sys.stdin.readline().rstrip("\r\n"))


async def find_document(connection: "Connection", name: str) -> UUID:
    """Find a document by its ID or the start of it."""
    from postroom.store import documents

    matches = await documents.find_by_id_prefix(connection, name)
    if len(matches) != 1:
        problem = "No document" if not matches else "More than one document"
        raise PermanentError(
            f"{problem} has an ID that starts with {name}. Run `postroom documents list` to see all."
        )
    return matches[0]
