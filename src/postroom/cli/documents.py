"""`postroom documents`: take in files, see what became of them, decide, export."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from postroom.cli import export
from postroom.cli.exit_codes import ExitCode
from postroom.errors import PermanentError
from postroom.model import DocumentState

if TYPE_CHECKING:
    from postroom.flow.documents.review import ReviewContext
    from postroom.model import OrganizationId
    from postroom.store.database import Connection, Database
    from postroom.store.documents import DocumentSummary
    from postroom.store.reviews import Correction

group = typer.Typer(
    name="documents",
    help="Documents: add, list, show, confirm, reject, retry, reprocess, export.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom documents add invoice.pdf
  postroom documents list --state needs_review""",
)
group.command(epilog=export.EXAMPLES)(export.export)
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DocumentArgument = Annotated[
    str, typer.Argument(metavar="DOCUMENT", help="Its id, or the beginning of its id.")
]
ActorOption = Annotated[str, typer.Option("--as", help="Who decides, as the ledger shall name them.")]
StateOption = Annotated[DocumentState | None, typer.Option("--state", help="Only those in this state.")]
PipelineOption = Annotated[str | None, typer.Option("--pipeline", help="Only those of this pipeline.")]


@group.command(
    epilog="""\b
Examples:
  postroom documents add invoice.pdf
  postroom documents add --pipeline contract-notes notes/*.pdf"""
)
def add(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="PDF, PNG, JPEG, TIFF, XML, zip.")],
    pipeline: Annotated[str, typer.Option(help="The pipeline that takes them.")] = "invoices",
    sender: Annotated[str, typer.Option(help="Whom the archive names as sender.")] = "upload@localhost",
) -> ExitCode:
    """Take in files by hand: they take the same way as mail."""
    from postroom.cli import output, startup

    outcome = startup.run_with_database(lambda database: _add_files(database, files, pipeline, sender))
    output.print_table(["FILE", "DOCUMENT", ""], [(name, found, words) for name, found, words, _ in outcome])
    return ExitCode.OK if all(fine for *_, fine in outcome) else ExitCode.FAILED


@group.command(
    name="list",
    epilog="""\b
Examples:
  postroom documents list --state needs_review
  postroom documents list --pipeline invoices --json""",
)
def list_documents(
    state: StateOption = None,
    pipeline: PipelineOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 50,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Skipped ones too: what is nothing for a pipeline.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """List documents, the newest first; skipped ones only when asked for."""
    from postroom.cli import output, startup
    from postroom.store import documents

    async def listed(connection: "Connection", _: "OrganizationId") -> "list[DocumentSummary]":
        skipped = every or state is DocumentState.SKIPPED
        return await documents.list_summaries(
            connection, state=state, pipeline=pipeline, skipped=skipped, limit=limit
        )

    found = startup.run_in_transaction(listed)
    if json:
        output.print_json([asdict(each) for each in found])
    elif not found:
        typer.echo(
            "No documents. Connect a mailbox, or add a file: `postroom documents add FILE`."
            " Skipped ones: `postroom documents list --all`."
        )
    else:
        headings = ["DOCUMENT", "PIPELINE", "STATE", "FILE", "RECORD", "REASON"]
        rows = [
            [str(each.id)[:8], each.pipeline, each.state, each.file_name, each.record_key, each.reason]
            for each in found
        ]
        output.print_table(headings, rows)


@group.command(
    epilog="""\b
Examples:
  postroom documents show 6f1c2a4e
  postroom documents show 6f1c2a4e --json | jq .fields"""
)
def show(document: DocumentArgument, *, json: JsonOption = False) -> None:
    """Show one document: where it came from, what was read, the checks, the decision."""
    from postroom.cli import output, startup

    found = startup.run_in_transaction(lambda connection, _: _read_document(connection, document))
    if json:
        output.print_json(found)
        return
    for name in ("id", "pipeline", "kind", "state", "reason", "record", "archive_path"):
        output.print_line(f"{name:<14}{found[name] if found[name] is not None else '-'}")
    for each in found["arrivals"]:
        output.print_line(
            f"{'arrived':<14}{each['file_name'] or '-'} from {each['sender'] or '-'} ({each['source']})"
        )
    if found["fields"]:
        rows = [
            [name, each["value"], f"{each['confidence']:.2f}", each["evidence"]]
            for name, each in found["fields"].items()
        ]
        typer.echo()
        output.print_table(["FIELD", "VALUE", "CONFIDENCE", "EVIDENCE"], rows)
    for check in found["checks"]:
        failed = "FAILED" if check.get("is_severe", True) else "noted"
        output.print_line(f"{'passed' if check['passed'] else failed:<8}{check['words']}")


@group.command(
    epilog="""\b
Examples:
  postroom documents confirm 6f1c2a4e
  postroom documents confirm 6f1c2a4e --set gross=119.00 --set currency=EUR
  postroom documents confirm 6f1c2a4e --set 'vat_rates=[{"rate": "19", "net": "100.00", "vat": "19.00"}]'"""
)
def confirm(
    document: DocumentArgument,
    corrections: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Put a field right; repeatable. Of a table, all its rows as JSON.",
        ),
    ] = None,
    actor: ActorOption = "command line",
) -> None:
    """Vouch for what was read, with what you put right; the next one of that supplier or layout learns."""
    from postroom.cli import startup
    from postroom.flow.documents import review

    given = dict(_parse_correction(each) for each in corrections or [])

    async def decide(connection: "Connection", organization: "OrganizationId") -> UUID:
        by, found = _reviewing(), await _find_document(connection, document)
        return await review.confirm(connection, by, organization, found, actor=actor, corrections=given)

    typer.echo(f"Confirmed as record {startup.run_in_transaction(decide)}.")


@group.command(
    epilog="""\b
Examples:
  postroom documents reject 6f1c2a4e --reason "an offer, not an invoice\""""
)
def reject(
    document: DocumentArgument,
    reason: Annotated[str, typer.Option(help="Why, in words.")] = "not for this pipeline",
    actor: ActorOption = "command line",
) -> None:
    """Say that a document is nothing for its pipeline."""
    from postroom.cli import startup
    from postroom.flow.documents import review

    async def decide(connection: "Connection", organization: "OrganizationId") -> None:
        by, found = _reviewing(), await _find_document(connection, document)
        await review.reject(connection, by, organization, found, actor=actor, reason=reason)

    startup.run_in_transaction(decide)
    typer.echo("Rejected.")


@group.command(
    epilog="""\b
Examples:
  postroom documents retry 6f1c2a4e
  postroom documents retry --state failed"""
)
def retry(
    document: Annotated[str | None, typer.Argument(metavar="[DOCUMENT]", help="Its id.")] = None,
    state: StateOption = None,
    actor: ActorOption = "command line",
) -> ExitCode:
    """Read again what ended without a record: one document, or all in a state."""
    return _requeue(document, state, None, actor)


@group.command(
    epilog="""\b
Examples:
  postroom documents reprocess --pipeline invoices --state needs_review"""
)
def reprocess(
    pipeline: Annotated[str, typer.Option(help="The pipeline whose documents are read again.")],
    state: Annotated[DocumentState, typer.Option(help="Those in this state.")] = DocumentState.NEEDS_REVIEW,
    actor: ActorOption = "command line",
) -> ExitCode:
    """Read all documents of a pipeline again that ended in a state: after a change of its settings."""
    return _requeue(None, state, pipeline, actor)


def _requeue(document: str | None, state: DocumentState | None, pipeline: str | None, actor: str) -> ExitCode:
    from postroom.cli import startup
    from postroom.flow.documents import review
    from postroom.store import documents

    if (document is None) == (state is None):
        raise PermanentError("Name either a document, or a state with --state.")

    async def queue(connection: "Connection", organization: "OrganizationId") -> int:
        if document is not None:
            found = [await _find_document(connection, document)]
        else:
            listed = await documents.list_summaries(connection, state=state, pipeline=pipeline, limit=100_000)
            found = [each.id for each in listed]
        for each in found:
            await review.read_again(connection, organization, each, actor=actor)
        return len(found)

    count = startup.run_in_transaction(queue)
    typer.echo(f"{count} queued." if count else "There is no such document.")
    return ExitCode.OK if count else ExitCode.FAILED


async def _add_files(
    database: "Database", files: list[Path], pipeline: str, sender: str
) -> list[tuple[str, str | None, str, bool]]:
    from postroom import config
    from postroom.flow.documents import upload
    from postroom.flow.documents.upload import Upload
    from postroom.model import OrganizationId
    from postroom.store import organizations
    from postroom.wiring import documents as wired
    from postroom.wiring import storage

    settings = config.load()
    organization = OrganizationId(settings.organization)
    chosen = wired.load_pipelines(settings).get(pipeline)
    if chosen is None:
        raise PermanentError(f"There is no pipeline {pipeline}; see `postroom pipelines list`.")
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization, "Postroom")
    blobs, outcome = storage.build_blob_store(settings), list[tuple[str, str | None, str, bool]]()
    for file in files:
        name = upload.clean_file_name(file.name)
        try:
            given = Upload(name, file.read_bytes(), sender)
            prepared = await upload.prepare(blobs, organization, chosen, given)
            async with database.transaction(organization) as connection:
                taken = await upload.commit(connection, organization, prepared)
        except OSError as error:
            outcome.append((name, None, f"cannot be read: {error.strerror}", False))
        except PermanentError as error:
            outcome.append((name, None, str(error), False))
        else:
            outcome += [
                (name, str(each.document), "queued" if each.is_new else "known already", True)
                for each in taken
            ]
            outcome += [
                (name, None, f"left out: {upload.describe_ignored(each, within=name)}", True)
                for each in prepared.left
            ]
    return outcome


async def _find_document(connection: "Connection", name: str) -> UUID:
    from postroom.store import documents

    found = await documents.find_by_id_prefix(connection, name)
    if len(found) != 1:
        what = "There is no document" if not found else "There are several documents"
        raise PermanentError(f"{what} whose id begins with {name}; see `postroom documents list`.")
    return found[0]


async def _read_document(connection: "Connection", name: str) -> dict[str, Any]:
    from postroom.store import documents, records, reviews
    from postroom.store.views import actor_names

    id_ = await _find_document(connection, name)
    document = await documents.get(connection, id_)
    assert document is not None
    extraction = await records.get_newest_extraction(connection, id_)
    asked = [each.reason for each in await reviews.list_by_document(connection, id_) if each.decision is None]
    record = await records.get(connection, document.record_id) if document.record_id else None
    corrections = await reviews.get_corrections(connection, id_)
    people = await actor_names.find_names(connection, [each.actor_id for each in corrections.values()])
    return {
        "id": str(id_),
        "pipeline": document.pipeline,
        "kind": document.kind,
        "state": document.state,
        "reason": document.skip_reason or document.last_error or next(iter(asked), None),
        "record": record.key if record else None,
        "archive_path": document.archive_path,
        "arrivals": [
            {"file_name": each.file_name, "sender": each.sender, "source": each.source}
            for each in await documents.list_arrivals(connection, id_)
        ],
        "fields": _apply_corrections(extraction.fields if extraction else {}, corrections, people),
        "checks": extraction.checks if extraction else [],
    }


def _apply_corrections(
    read: Mapping[str, Any], corrections: "Mapping[str, Correction]", people: Mapping[str, str]
) -> dict[str, Any]:
    """Fields as they are now, and what was read where a person put another value in its place."""
    found = dict(read)
    for name, each in corrections.items():
        actor = people.get(each.actor_id or "", each.actor_id)
        said = f"corrected by {actor or '-'} at {each.decided_at:%Y-%m-%d %H:%M} UTC; read: {each.read_text}"
        found[name] = {
            **read.get(name, {"page": None, "box": None}),
            "value": each.right_value,
            "confidence": 1.0,
            "evidence": said,
            "read_value": each.read_value,
            "corrected_by": actor,
            "corrected_at": each.decided_at,
        }
    return found


def _parse_correction(given: str) -> tuple[str, str]:
    name, separator, value = given.partition("=")
    if not separator or not name:
        raise PermanentError(f"--set {given} is not FIELD=VALUE.")
    return name.strip(), value.strip()


def _reviewing() -> "ReviewContext":
    from postroom import config
    from postroom.wiring import documents as wired

    settings = config.load()
    return wired.build_review_context(settings, wired.load_pipelines(settings))
