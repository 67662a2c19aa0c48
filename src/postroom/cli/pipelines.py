"""`postroom pipelines`: how mail becomes documents; check the file, try a document."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from postroom.errors import PermanentError

if TYPE_CHECKING:
    from postroom.documents.pipelines import Pipeline
    from postroom.documents.transcript import Reading
    from postroom.documents.understand import Understanding
    from postroom.flow.upload import Upload
    from postroom.model import OrganizationId
    from postroom.store.database import Connection
    from postroom.store.watched import Known

group = typer.Typer(
    name="pipelines",
    help="Pipelines: list, check their file, try a document.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom pipelines list
  postroom pipelines try invoice.pdf""",
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@group.command(name="list", epilog="\b\nExamples:\n  postroom pipelines list --json")
def list_pipelines(*, json: Json = False) -> None:
    """List the pipelines there are, and what each takes."""
    from postroom import config
    from postroom.cli import output
    from postroom.wiring import documents

    found = documents.declared(config.load())
    if json:
        output.as_json([each.model_dump(mode="json") for each in found.values()])
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
    output.table(["PIPELINE", "KIND", "MAILBOXES", "FOLDERS", "SENDERS", "CONFIRM ABOVE"], rows)


@group.command(epilog="\b\nExamples:\n  postroom pipelines watched --json")
def watched(*, json: Json = False) -> None:
    """List the files of watched folders: taken in, refused and why, or still being written."""
    from postroom.cli import opening, output
    from postroom.store import watched as store

    async def read(connection: "Connection", _: "OrganizationId") -> "list[Known]":
        return await store.known(connection)

    found = opening.in_transaction(read)
    if json:
        output.as_json([asdict(each) for each in found])
    elif not found:
        typer.echo("No files. A pipeline watches a folder by its key `watch`; see docs/pipelines.md.")
    else:
        rows = [[each.pipeline, each.name, each.taken_at or "-", each.refused] for each in found]
        output.table(["PIPELINE", "FILE", "TAKEN IN", "REFUSED"], rows)


def _or_all(values: tuple[str, ...]) -> str:
    return ", ".join(values) or "all"


@group.command(epilog="\b\nExamples:\n  postroom pipelines check /etc/postroom/pipelines.toml")
def check(
    file: Annotated[Path | None, typer.Argument(help="The file [default: POSTROOM_PIPELINES]")] = None,
) -> None:
    """Check a pipelines file; every fault is told at once, with its place."""
    from postroom import config
    from postroom.documents import kind, pipelines

    path = file or config.load().pipelines
    found = pipelines.load(path, kinds=kind.installed())
    typer.echo(f"{path or 'The shipped file'} is right: {', '.join(found)}.")


@group.command(
    name="try",
    epilog="""\b
Examples:
  postroom pipelines try invoice.pdf
  postroom pipelines try note.txt --pipeline contract-notes --json""",
)
def try_file(
    file: Annotated[Path, typer.Argument(help="A PDF, PNG, JPEG, TIFF, XML or text file, or a message.")],
    pipeline: Annotated[
        str | None, typer.Option(help="Only this pipeline [default: each]", show_default=False)
    ] = None,
    *,
    no_xml: Annotated[bool, typer.Option("--no-xml", help="Hide the data of an e-invoice.")] = False,
    json: Json = False,
) -> None:
    """Show what every stage makes of one file. Nothing is stored."""
    from postroom import config
    from postroom.cli import opening, output
    from postroom.flow.upload import Upload
    from postroom.wiring import documents

    settings = config.load()
    declared = documents.declared(settings)
    if pipeline is not None and pipeline not in declared:
        raise PermanentError(f"There is no pipeline {pipeline}; there are {', '.join(declared)}.")
    chosen = [declared[pipeline]] if pipeline else list(declared.values())
    try:
        given = Upload(file.name, file.read_bytes(), sender="")
    except OSError as error:
        raise PermanentError(f"{file} cannot be read: {error.strerror}.") from error
    with opening.busy("reading"):
        tried = asyncio.run(_try(given, chosen, use_exact=not no_xml))
    if json:
        output.as_json(tried)
        return
    for each in tried:
        _print(each)


async def _try(given: "Upload", chosen: "list[Pipeline]", *, use_exact: bool) -> list[dict[str, Any]]:
    from postroom.documents import kind
    from postroom.documents.isolation import Readers
    from postroom.documents.understand import understand
    from postroom.flow import upload

    kinds, tried = kind.installed(), list[dict[str, Any]]()
    async with Readers() as readers:
        for name, media_type, inside in upload.files(given):
            reading = await readers.read(inside)
            for pipeline in chosen:
                found = await asyncio.to_thread(
                    understand, reading, [kinds[pipeline.kind]], use_exact=use_exact
                )
                tried.append(_told(name, media_type, pipeline, reading, found))
    return tried


def _told(
    name: str, media_type: str, pipeline: "Pipeline", reading: "Reading", found: "Understanding"
) -> dict[str, Any]:
    from postroom.documents import routing
    from postroom.documents.routing import Match

    transcript, values = reading.transcript, found.values()
    told: dict[str, Any] = {
        "file": name,
        "media_type": media_type,
        "pipeline": pipeline.name,
        "transcribe": {
            "method": transcript.method,
            "pages": len(transcript.pages),
            "words": len(transcript.words),
            "embedded": [each.name for each in reading.embedded],
        },
        "classify": {
            "kind": found.kind.name if found.kind else None,
            "certainty": round(found.certainty, 3),
            "skip_reason": found.skip_reason,
        },
    }
    if found.kind is None:
        return told | {"route": {"state": "skipped", "reason": found.skip_reason}}
    doubts = routing.doubts(
        needed=found.kind.needed,
        confidences=found.confidences,
        confirm_above=pipeline.confirm_above,
        failed_checks=found.failed_checks,
        differences=[each.words for each in found.differences],
        match=Match(None, ""),
    )
    return told | {
        "extract": {
            "reader": found.source,
            "fields": {
                field: {
                    "value": values[field],
                    "confidence": round(each.confidence, 3),
                    "page": each.page,
                    "evidence": each.evidence,
                }
                for field, each in found.fields.items()
            },
        },
        "check": [{"passed": each.passed, "words": f"{each.name}: {each.words}"} for each in found.checks],
        "route": {"state": "needs_review" if doubts else "completed", "reason": str(doubts) or None},
    }


def _print(told: dict[str, Any]) -> None:
    from postroom.cli import output

    read, kind, route = told["transcribe"], told["classify"], told["route"]
    typer.echo(f"{told['file']} in {told['pipeline']}")
    typer.echo(f"  transcribe  {read['method']}: {read['pages']} pages, {read['words']} words")
    typer.echo(
        f"  classify    {kind['kind'] or 'skip'} ({kind['certainty']:.2f}) {kind['skip_reason'] or ''}"
    )
    if "extract" in told:
        typer.echo(f"  extract     by {told['extract']['reader']}")
        fields = told["extract"]["fields"].items()
        rows = [[f"    {name}", each["value"], each["confidence"], each["evidence"]] for name, each in fields]
        output.table(["    FIELD", "VALUE", "CONFIDENCE", "EVIDENCE"], rows)
        for each in told["check"]:
            typer.echo(f"  check       {'passed' if each['passed'] else 'FAILED'} {each['words']}")
    typer.echo(f"  route       {route['state']} {route['reason'] or ''}".rstrip())
