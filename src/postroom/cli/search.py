"""`postroom search`: full-text search in mail and documents."""

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.cli.options import JsonOption

if TYPE_CHECKING:
    from postroom.store.database import Database
    from postroom.store.search import DocumentMatch, Headline, MessageMatch

MAX_LINE_CHARACTERS = 300
# An excluded word such as -draft is no option.
CONTEXT_SETTINGS = {"ignore_unknown_options": True}
EXAMPLES = """\b
Examples:
  postroom search invoice march
  postroom search invoice -draft --limit 50
  postroom search '"due date" acme -reminder'
  postroom search scan-2024.pdf
  postroom search invoice --mailbox ann@example.org
  postroom search invoice --json | jq '.messages[].id'"""


def search(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORD", help="Words to find; '\"two words\"' matches a phrase, -word excludes a word."
        ),
    ],
    mailbox: Annotated[
        str | None,
        typer.Option(
            "--mailbox", metavar="MAILBOX", help="Only mail of this mailbox: address, ID or start of the ID."
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(min=1, max=1000, metavar="COUNT", help="Maximum number of messages, and of documents."),
    ] = 20,
    *,
    json: JsonOption = False,
) -> ExitCode:
    """Search mail and documents, best matches first. Exit code 1 if nothing matches.

    A message is found by its subject, people, attachment names and the first 100,000 characters of its text.
    """
    from postroom import config
    from postroom.cli import output, startup

    for word in words:
        if word.startswith("--"):
            raise typer.BadParameter(f"No such option: {word}", param_hint="words")
    organization = config.load().organization
    messages, documents = startup.run_with_database(
        lambda database: _run_search(database, organization, " ".join(words), mailbox, limit)
    )
    if json:
        output.print_json({"messages": [*map(asdict, messages)], "documents": [*map(asdict, documents)]})
    else:
        _print_results(messages, documents)
    return ExitCode.OK if messages or documents else ExitCode.FAILED


async def _run_search(
    database: "Database", organization: UUID, words: str, mailbox_name: str | None, limit: int
) -> "tuple[list[MessageMatch], list[DocumentMatch]]":
    from postroom.cli.mailboxes import find_one
    from postroom.errors import OperatorError
    from postroom.store import search as stored

    async with database.transaction(organization) as connection:
        if not await stored.has_words(connection, words):
            raise OperatorError("Give at least one word to search for.")
        mailbox = (await find_one(connection, mailbox_name)).id if mailbox_name else None
        messages = await stored.search_messages(connection, words, mailbox=mailbox, limit=limit)
        documents = [] if mailbox else await stored.search_documents(connection, words, limit=limit)
    return messages, documents


def _print_results(messages: "list[MessageMatch]", documents: "list[DocumentMatch]") -> None:
    from postroom.cli import output

    for message in messages:
        when = f"{message.received_at:%Y-%m-%d %H:%M}" if message.received_at else "-"
        who = message.from_name or message.from_address or "-"
        output.print_line(_truncate(f"{when}  message {message.id}  {who}: {message.subject or '-'}"))
        _print_headline(message.headline)
    for document in documents:
        name = document.file_name or document.kind or "-"
        output.print_line(_truncate(f"{document.created_at:%Y-%m-%d %H:%M}  document {document.id}  {name}"))
        _print_headline(document.headline)
    if not messages and not documents:
        typer.echo("No matches.")


def _print_headline(headline: "Headline") -> None:
    from postroom.cli import output

    pieces = [(output.to_printable(re.sub(r"\s+", " ", text)), is_match) for text, is_match in headline]
    line = "".join(typer.style(text, bold=True) if is_match else text for text, is_match in pieces).strip()
    if line:
        typer.echo(f"    {line}")


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_LINE_CHARACTERS else f"{text[:MAX_LINE_CHARACTERS]}…"
