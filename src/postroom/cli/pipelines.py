"""`postroom pipelines`: list, check and test pipelines, and list watched files.

It stores nothing. `dry_run` runs the stages of a try.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from postroom import interrupts
from postroom.cli import progress
from postroom.cli.options import JsonOption
from postroom.errors import PermanentError

if TYPE_CHECKING:
    from postroom.config import Settings
    from postroom.model import OrganizationId
    from postroom.store.database import Connection
    from postroom.store.watched_files import WatchedFileState

group = typer.Typer(
    name="pipelines",
    help="List, check and test pipelines.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom pipelines list
  postroom pipelines try invoice.pdf""",
)
LLM_COST_NOTICE = (
    "The language model is billed for this run. The cost is not stored and does not count towards the daily"
    " budget. This command spends at most one daily budget."
)


@group.command(name="list", epilog="\b\nExamples:\n  postroom pipelines list --json")
def list_pipelines(*, json: JsonOption = False) -> None:
    """List pipelines and what each accepts."""
    from postroom import config
    from postroom.cli import output
    from postroom.wiring import documents

    declared = documents.load_pipelines(config.load())
    if json:
        output.print_json([pipeline.model_dump(mode="json") for pipeline in declared.values()])
        return
    rows = [
        [
            pipeline.name,
            pipeline.kind,
            _or_all(pipeline.mailboxes),
            _or_all(pipeline.folders),
            _or_all(pipeline.senders),
            pipeline.confirm_above,
        ]
        for pipeline in declared.values()
    ]
    output.print_table(["PIPELINE", "KIND", "MAILBOXES", "FOLDERS", "SENDERS", "CONFIRM ABOVE"], rows)


@group.command(epilog="\b\nExamples:\n  postroom pipelines watched --json")
def watched(*, json: JsonOption = False) -> None:
    """List the files of watched folders, and why files were rejected."""
    from postroom.cli import output, startup
    from postroom.store import watched_files as store

    async def read(connection: "Connection", _: "OrganizationId") -> "list[WatchedFileState]":
        return await store.list_states(connection)

    files = startup.run_in_transaction(read)
    if json:
        output.print_json([_to_json(file) for file in files])
    elif not files:
        typer.echo("No files. To watch a folder, set the key `watch` of a pipeline; see docs/pipelines.md.")
    else:
        rows = [[file.pipeline, file.name, file.imported_at or "-", file.rejection] for file in files]
        output.print_table(["PIPELINE", "FILE", "ACCEPTED", "REJECTED"], rows)


def _to_json(file: "WatchedFileState") -> dict[str, object]:
    """The JSON of a watched file.

    Scripts read these keys, so they do not follow the columns' names.
    """
    return {
        "pipeline": file.pipeline,
        "name": file.name,
        "version": file.version,
        "seen_at": file.seen_at,
        "taken_at": file.imported_at,
        "refused": file.rejection,
    }


def _or_all(values: tuple[str, ...]) -> str:
    return ", ".join(values) or "all"


@group.command(epilog="\b\nExamples:\n  postroom pipelines check /etc/postroom/pipelines.toml")
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Pipelines file [default: POSTROOM_PIPELINES]")
    ] = None,
) -> None:
    """Check a pipelines file and report all errors with their positions."""
    from postroom import config
    from postroom.documents import pipelines
    from postroom.documents.kinds import kind_registry

    path = file or config.load().pipelines
    declared = pipelines.load(path, kinds=kind_registry.list_installed())
    typer.echo(f"{path or 'The built-in pipelines file'} is valid: {', '.join(declared)}.")


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
            metavar="FILE|MESSAGE",
            help="A PDF, PNG, JPEG, TIFF, XML, text or zip file, or the ID of a message.",
        ),
    ],
    pipeline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this pipeline [default: all]", show_default=False)
    ] = None,
    *,
    no_xml: Annotated[
        bool, typer.Option("--no-xml", help="Ignore the structured data of an e-invoice.")
    ] = False,
    llm: Annotated[bool, typer.Option("--llm", help="Use the language model of POSTROOM_LLM.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what each stage does with a file or a message; store nothing."""
    from postroom.cli import dry_run, output, startup
    from postroom.wiring import documents

    settings = startup.load_command_settings("cli")
    declared = documents.load_pipelines(settings)
    if pipeline is not None and pipeline not in declared:
        raise PermanentError(f"No such pipeline: {pipeline}. Choose one of: {', '.join(declared)}.")
    chosen = [declared[pipeline]] if pipeline else list(declared.values())
    if what.isascii() and what.isdecimal() and not Path(what).exists():
        candidates = dry_run.screen_message(settings, int(what), chosen)
    else:
        candidates = dry_run.screen_file(Path(what), chosen)
    opening_model = documents.open_language_model(_choose_language_model(settings, use=llm))
    with progress.spinner("Reading"):
        results = interrupts.run_async(dry_run.run_stages(candidates, opening_model, use_exact=not no_xml))
    if json:
        output.print_json(results)
        return
    for result in results:
        dry_run.print_stages(result)


def _choose_language_model(settings: "Settings", *, use: bool) -> "Settings":
    """The settings with the language model only if it is used. Prints which it is."""
    if settings.llm == "none" and use:
        raise PermanentError("--llm requires a language model. Set POSTROOM_LLM and POSTROOM_LLM_KEY.")
    if settings.llm != "none":
        progress.print_status(
            LLM_COST_NOTICE if use else f"The language model {settings.llm} is not used. Add --llm to use it."
        )
    return settings if use else settings.model_copy(update={"llm": "none"})
