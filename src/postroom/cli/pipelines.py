"""`postroom pipelines`: how mail becomes documents; check the file, try a document."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from postroom import interrupts
from postroom.cli import progress
from postroom.errors import PermanentError

if TYPE_CHECKING:
    from postroom.model import OrganizationId
    from postroom.store.database import Connection
    from postroom.store.watched_files import WatchedFileState

group = typer.Typer(
    name="pipelines",
    help="Pipelines: list, check their file, try a file or a message, what is watched.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom pipelines list
  postroom pipelines try invoice.pdf""",
)
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LLM_COST_NOTICE = (
    "The language model is paid for this. Nothing is stored, so that it does not count against the day's"
    " budget; this command alone spends no more than that."
)


@group.command(name="list", epilog="\b\nExamples:\n  postroom pipelines list --json")
def list_pipelines(*, json: JsonOption = False) -> None:
    """List the pipelines there are, and what each takes."""
    from postroom import config
    from postroom.cli import output
    from postroom.wiring import documents

    found = documents.load_pipelines(config.load())
    if json:
        output.print_json([each.model_dump(mode="json") for each in found.values()])
        return
    rows = [
        [
            each.name,
            each.kind,
            _or_all(each.mailboxes),
            _or_all(each.folders),
            _or_all(each.senders),
            each.confirm_above,
        ]
        for each in found.values()
    ]
    output.print_table(["PIPELINE", "KIND", "MAILBOXES", "FOLDERS", "SENDERS", "CONFIRM ABOVE"], rows)


@group.command(epilog="\b\nExamples:\n  postroom pipelines watched --json")
def watched(*, json: JsonOption = False) -> None:
    """List the files of watched folders: taken in, refused and why, or still being written."""
    from postroom.cli import output, startup
    from postroom.store import watched_files as store

    async def read(connection: "Connection", _: "OrganizationId") -> "list[WatchedFileState]":
        return await store.list_states(connection)

    found = startup.run_in_transaction(read)
    if json:
        output.print_json([asdict(each) for each in found])
    elif not found:
        typer.echo("No files. A pipeline watches a folder by its key `watch`; see docs/pipelines.md.")
    else:
        rows = [[each.pipeline, each.name, each.imported_at or "-", each.rejection] for each in found]
        output.print_table(["PIPELINE", "FILE", "TAKEN IN", "REFUSED"], rows)


def _or_all(values: tuple[str, ...]) -> str:
    return ", ".join(values) or "all"


@group.command(epilog="\b\nExamples:\n  postroom pipelines check /etc/postroom/pipelines.toml")
def check(
    file: Annotated[Path | None, typer.Argument(help="The file [default: POSTROOM_PIPELINES]")] = None,
) -> None:
    """Check a pipelines file; every fault is told at once, with its place."""
    from postroom import config
    from postroom.documents import pipelines
    from postroom.documents.kinds import kind_registry

    path = file or config.load().pipelines
    found = pipelines.load(path, kinds=kind_registry.list_installed())
    typer.echo(f"{path or 'The shipped file'} is right: {', '.join(found)}.")


@group.command(
    name="try",
    epilog="""\b
Examples:
  postroom pipelines try invoice.pdf
  postroom pipelines try note.txt --pipeline contract-notes --json
  postroom pipelines try 4711 --no-xml
  postroom pipelines try receipt.png --llm""",
)
def try_one(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE|MESSAGE", help="A PDF, PNG, JPEG, TIFF, XML, text or zip file, or a message's id."
        ),
    ],
    pipeline: Annotated[
        str | None, typer.Option(help="Only this pipeline [default: each]", show_default=False)
    ] = None,
    *,
    no_xml: Annotated[bool, typer.Option("--no-xml", help="Hide the data of an e-invoice.")] = False,
    llm: Annotated[bool, typer.Option("--llm", help="Ask the language model of POSTROOM_LLM.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what every stage makes of a file, or of all that a stored message brought. Nothing is stored."""
    from postroom import config
    from postroom.cli import dry_run, output
    from postroom.wiring import documents

    settings = config.load()
    declared = documents.load_pipelines(settings)
    if pipeline is not None and pipeline not in declared:
        raise PermanentError(f"There is no pipeline {pipeline}; there are {', '.join(declared)}.")
    chosen = [declared[pipeline]] if pipeline else list(declared.values())
    if what.isascii() and what.isdecimal() and not Path(what).exists():
        candidates = dry_run.screen_message(int(what), chosen)
    else:
        candidates = dry_run.screen_file(Path(what), chosen)
    if settings.llm == "none" and llm:
        raise PermanentError("POSTROOM_LLM names no language model: set it, and POSTROOM_LLM_KEY.")
    if settings.llm != "none":
        progress.print_status(
            LLM_COST_NOTICE if llm else f"The language model {settings.llm} is not asked; --llm asks it."
        )
    made_reader = documents.build_field_reader(
        settings if llm else settings.model_copy(update={"llm": "none"})
    )
    with progress.spinner("reading"):
        tried = interrupts.run_async(dry_run.run_stages(candidates, made_reader, use_exact=not no_xml))
    if json:
        output.print_json(tried)
        return
    for each in tried:
        dry_run.print_stages(each)
