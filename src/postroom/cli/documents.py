"""`postroom documents`: add, list, show, confirm, reject and retry documents.

The command `export` is in `record_export`, `unlock` and `split` are in `document_files`, `assign` and
`comment` in `collaboration`. `flow.documents` does the work.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from postroom.cli import collaboration, document_files, list_options, record_export
from postroom.cli.document_files import ActorOption, DocumentArgument, find_document
from postroom.cli.exit_codes import ExitCode
from postroom.cli.list_options import (
    DueOption,
    FromOption,
    KindOption,
    LimitOption,
    MaxOption,
    MinOption,
    SearchOption,
    SortOption,
    UntilOption,
)
from postroom.cli.options import JsonOption
from postroom.errors import ChecksFailed, PermanentError
from postroom.model import UPLOADER, DocumentState

if TYPE_CHECKING:
    from postroom.config import Settings
    from postroom.flow.documents.value_checks import ReviewContext
    from postroom.model import OrganizationId
    from postroom.store.database import Connection, Database
    from postroom.store.documents import Document, DocumentSummary
    from postroom.store.records import ExtractionRow
    from postroom.store.reviews import Correction

group = typer.Typer(
    name="documents",
    help="Add, list, review and export documents.",
    no_args_is_help=True,
    epilog="""\b
Examples:
  postroom documents add invoice.pdf
  postroom documents list --state needs_review""",
)
group.command(epilog=record_export.EXAMPLES)(record_export.export)
group.command(epilog=document_files.UNLOCK_EXAMPLES)(document_files.unlock)
group.command(epilog=document_files.SPLIT_EXAMPLES)(document_files.split)
group.command(epilog=collaboration.ASSIGN_EXAMPLES)(collaboration.assign)
group.command(epilog=collaboration.COMMENT_EXAMPLES)(collaboration.comment)
CorrectionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Correct a field; repeatable. For a table, give all rows as JSON.",
    ),
]
OverrideOption = Annotated[
    list[str] | None,
    typer.Option(
        "--override",
        metavar="CHECK",
        help="Confirm even though this check fails, for example 'net + vat = gross'; repeatable.",
    ),
]
ReplacesOption = Annotated[
    str | None, typer.Option(metavar="RECORD", help="Record that this document amends: key or ID.")
]
OrderOption = Annotated[
    str | None, typer.Option("--order", metavar="REFERENCE", help="Open order to link to; '' for none.")
]
StateOption = Annotated[DocumentState | None, typer.Option("--state", help="Only documents in this state.")]
PipelineOption = Annotated[
    str | None, typer.Option("--pipeline", metavar="NAME", help="Only documents of this pipeline.")
]


@group.command(
    epilog="""\b
Examples:
  postroom documents add invoice.pdf
  postroom documents add --pipeline contract-notes notes/*.pdf"""
)
def add(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="PDF, PNG, JPEG, TIFF, XML, text, zip, .eml or .dat files."),
    ],
    pipeline: Annotated[
        str, typer.Option(metavar="NAME", help="Pipeline that processes the files.")
    ] = "invoices",
    sender: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Sender to record in the archive.")
    ] = UPLOADER,
) -> ExitCode:
    """Upload files.

    They are processed like attachments. Exit code 1 if a file is rejected.
    """
    from postroom.cli import output, startup

    settings = startup.load_command_settings("cli")
    results = startup.run_with_settings(
        settings, lambda database: _add_files(settings, database, files, pipeline, sender)
    )
    output.print_table(
        ["FILE", "DOCUMENT", ""], [(name, document, words) for name, document, words, _ in results]
    )
    return ExitCode.OK if all(accepted for *_, accepted in results) else ExitCode.FAILED


@group.command(
    name="list",
    epilog="""\b
Examples:
  postroom documents list --state needs_review
  postroom documents list --pipeline invoices --json
  postroom documents list --due overdue --min 1000 --sort -amount""",
)
def list_documents(
    state: StateOption = None,
    pipeline: PipelineOption = None,
    limit: LimitOption = 50,
    q: SearchOption = None,
    kind: KindOption = None,
    due: DueOption = None,
    from_: FromOption = None,
    until: UntilOption = None,
    min_: MinOption = None,
    max_: MaxOption = None,
    sort: SortOption = None,
    *,
    include_skipped: Annotated[bool, typer.Option("--all", help="Include skipped documents.")] = False,
    json: JsonOption = False,
) -> None:
    """List documents, newest first.

    Skipped documents are hidden unless --all is given.
    """
    from postroom.cli import output, startup
    from postroom.store import documents
    from postroom.store.lists.documents import DOCUMENTS

    given = {
        "q": q, "kind": kind, "pipeline": pipeline, "due": due, "from": from_, "until": until, "min": min_,
        "max": max_, "sort": sort, "state": state or ("all" if include_skipped else None),
    }  # fmt: skip
    query = list_options.build_query(DOCUMENTS, given)

    async def read_documents(connection: "Connection", _: "OrganizationId") -> "list[DocumentSummary]":
        ids = await list_options.find_ids(connection, query, limit)
        return await documents.list_summaries(connection, ids)

    summaries = startup.run_in_transaction(read_documents)
    if json:
        output.print_json([asdict(summary) for summary in summaries])
    else:
        _print_summaries(summaries)


def _print_summaries(summaries: "Sequence[DocumentSummary]") -> None:
    from postroom.cli import output

    if not summaries:
        typer.echo(
            "No documents. Connect a mailbox, or add a file with `postroom documents add FILE`."
            " To include skipped documents, add --all."
        )
        return
    headings = ["DOCUMENT", "PIPELINE", "STATE", "FILE", "RECORD", "REASON"]
    rows = [
        [str(item.id)[:8], item.pipeline, item.state, item.file_name, item.record_key, item.reason]
        for item in summaries
    ]
    output.print_table(headings, rows)


@group.command(
    epilog="""\b
Examples:
  postroom documents show 6f1c2a4e
  postroom documents show 6f1c2a4e --json | jq .fields"""
)
def show(document: DocumentArgument, *, json: JsonOption = False) -> None:
    """Show one document: its arrivals, fields, checks and state."""
    from postroom.cli import output, startup

    settings = startup.load_command_settings("cli")
    details = startup.run_in_transaction(
        lambda connection, _: _read_document(connection, settings, document), settings
    )
    if json:
        output.print_json(details)
        return
    for name in ("id", "pipeline", "kind", "state", "reason", "record", "archive_path"):
        output.print_line(f"{name:<14}{details[name] if details[name] is not None else '-'}")
    if details["part_of"]:
        output.print_line(f"{'part of':<14}{details['part_of']}, pages {details['part_pages']}")
    for part in details["parts"]:
        output.print_line(f"{'split into':<14}{part}")
    for arrival in details["arrivals"]:
        sender, source = arrival["sender"] or "-", arrival["source"]
        output.print_line(f"{'arrived':<14}{arrival['file_name'] or '-'} from {sender} ({source})")
    if details["fields"]:
        fields = {
            name: [field["value"], f"{field['confidence']:.2f}", field["evidence"]]
            for name, field in details["fields"].items()
        }
        typer.echo()
        output.print_fields(["FIELD", "VALUE", "CONFIDENCE", "EVIDENCE"], fields)
        typer.echo()
    for check in details["checks"]:
        failed = "FAILED" if check.get("is_severe", True) else "noted"
        output.print_line(f"{'passed' if check['passed'] else failed:<8}{check['words']}")


@group.command(
    epilog="""\b
Examples:
  postroom documents confirm 6f1c2a4e
  postroom documents confirm 6f1c2a4e --set gross=119.00 --set currency=EUR
  postroom documents confirm 6f1c2a4e --set gross=119.00 --override 'net + vat = gross'
  postroom documents confirm 6f1c2a4e --order O-4711
  postroom documents confirm 6f1c2a4e --set 'vat_rates=[{"rate": "19", "net": "100.00", "vat": "19.00"}]'"""
)
def confirm(
    document: DocumentArgument,
    corrections: CorrectionsOption = None,
    override: OverrideOption = None,
    order: OrderOption = None,
    replaces: ReplacesOption = None,
    actor: ActorOption = "command line",
) -> None:
    """Confirm a document, optionally with corrections.

    Postroom learns from them for this supplier or layout. Values that fail a check are confirmed only if it
    is overridden; the ledger records that.
    """
    from postroom.cli import startup
    from postroom.flow.documents import review

    settings, values = startup.load_command_settings("cli"), parse_corrections(corrections)

    async def decide(connection: "Connection", organization: "OrganizationId") -> UUID:
        from postroom.cli.records import find_record

        context, document_id = build_review_context(settings), await find_document(connection, document)
        replaced = await find_record(connection, replaces) if replaces else None
        return await review.confirm(
            connection,
            context,
            organization,
            document_id,
            actor=actor,
            corrections=values,
            override=override or (),
            order=order,
            replaces=replaced.id if replaced else None,
        )

    try:
        record = startup.run_in_transaction(decide, settings)
    except ChecksFailed as error:
        raise PermanentError(describe_failed_checks(error)) from error
    typer.echo(f"Confirmed as record {record}.")


@group.command(
    epilog="""\b
Examples:
  postroom documents reject 6f1c2a4e --reason "an offer, not an invoice\""""
)
def reject(
    document: DocumentArgument,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason, in your own words.")
    ] = "not for this pipeline",
    actor: ActorOption = "command line",
) -> None:
    """Reject a document that does not belong in its pipeline, or dismiss a failed one."""
    from postroom.cli import startup
    from postroom.flow.documents import review

    settings = startup.load_command_settings("cli")

    async def decide(connection: "Connection", organization: "OrganizationId") -> None:
        context, document_id = build_review_context(settings), await find_document(connection, document)
        await review.reject(connection, context, organization, document_id, actor=actor, reason=reason)

    startup.run_in_transaction(decide, settings)
    typer.echo("Rejected.")


@group.command(
    epilog="""\b
Examples:
  postroom documents retry 6f1c2a4e
  postroom documents retry --state failed
  postroom documents retry --state needs_review --pipeline invoices"""
)
def retry(
    document: Annotated[
        str | None, typer.Argument(metavar="DOCUMENT", help="ID, or start of the ID.")
    ] = None,
    state: Annotated[DocumentState | None, typer.Option(help="All documents in this state.")] = None,
    pipeline: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --state: only documents of this pipeline.")
    ] = None,
    actor: ActorOption = "command line",
) -> ExitCode:
    """Retry documents that failed, were skipped or need review.

    Either one document, or all in a state, for example after you changed their pipeline.
    """
    from postroom.cli import startup
    from postroom.flow.documents import review
    from postroom.store.lists.documents import DOCUMENTS
    from postroom.store.lists.list_reading import MAX_EXPORTED

    if (document is None) == (state is None) or (document and pipeline):
        raise PermanentError("Give either a document, or --state and optionally --pipeline.")

    async def queue(connection: "Connection", organization: "OrganizationId") -> int:
        if document is not None:
            document_ids = [await find_document(connection, document)]
        else:
            query = list_options.build_query(DOCUMENTS, {"state": state, "pipeline": pipeline})
            document_ids = await list_options.find_ids(connection, query, MAX_EXPORTED)
        for document_id in document_ids:
            await review.retry(connection, organization, document_id, actor=actor)
        return len(document_ids)

    count = startup.run_in_transaction(queue)
    typer.echo(f"Queued: {count}." if count else "No such document.")
    return ExitCode.OK if count else ExitCode.FAILED


async def _add_files(
    settings: "Settings", database: "Database", files: list[Path], pipeline: str, sender: str
) -> list[tuple[str, str | None, str, bool]]:
    from postroom.documents.sandbox.file_sandbox import FileSandbox
    from postroom.flow.documents import upload
    from postroom.flow.documents.upload import Upload
    from postroom.model import OrganizationId
    from postroom.store import organizations
    from postroom.wiring import documents as wired
    from postroom.wiring import storage

    organization = OrganizationId(settings.organization)
    chosen_pipeline = wired.load_pipelines(settings).get(pipeline)
    if chosen_pipeline is None:
        raise PermanentError(f"No such pipeline: {pipeline}. Run `postroom pipelines list` to see all.")
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization)
    blobs = storage.build_limited_blob_store(settings, database)
    results: list[tuple[str, str | None, str, bool]] = []
    async with FileSandbox(parallel=1) as sandbox:
        for file in files:
            name = upload.clean_file_name(file.name)
            try:
                file_upload = Upload(name, file.read_bytes(), sender)
                prepared = await upload.prepare(blobs, sandbox, organization, chosen_pipeline, file_upload)
                async with database.transaction(organization) as connection:
                    taken = await upload.commit(connection, organization, prepared)
            except OSError as error:
                results.append((name, None, f"cannot be read: {error.strerror}", False))
            except PermanentError as error:
                results.append((name, None, str(error), False))
            else:
                results += [
                    (name, str(item.document), "queued" if item.is_new else "already known", True)
                    for item in taken
                ]
                results += [
                    (name, None, f"ignored: {upload.describe_ignored(item, within=name)}", True)
                    for item in prepared.left
                ]
    return results


async def _read_document(connection: "Connection", settings: "Settings", name: str) -> dict[str, Any]:
    from postroom.store import document_files as document_files_store
    from postroom.store import documents, records, reviews
    from postroom.store.views import actor_names

    id_ = await find_document(connection, name)
    document = await documents.get(connection, id_)
    assert document is not None
    extraction = await records.get_newest_extraction(connection, id_)
    open_questions = [
        item.reason for item in await reviews.list_by_document(connection, id_) if item.decision is None
    ]
    record = await records.get(connection, document.record_id) if document.record_id else None
    corrections = await reviews.get_corrections(connection, id_)
    people = await actor_names.find_names(connection, [item.actor_id for item in corrections.values()])
    return {
        "id": str(id_),
        "pipeline": document.pipeline,
        "kind": document.kind,
        "state": document.state,
        "reason": document.skip_reason or document.last_error or next(iter(open_questions), None),
        "record": record.key if record else None,
        "archive_path": document.archive_path,
        "needs_password": document.needs_password,
        "part_of": document.part_of and str(document.part_of),
        "part_pages": document.part_pages,
        "parts": [str(part.document) for part in await document_files_store.list_parts(connection, id_)],
        "arrivals": [
            {"file_name": item.file_name, "sender": item.sender, "source": item.source}
            for item in await documents.list_arrivals(connection, id_)
        ],
        "fields": _apply_corrections(extraction.fields if extraction else {}, corrections, people),
        "checks": await _list_checks(connection, settings, document, extraction, corrections)
        if extraction
        else [],
    }


async def _list_checks(
    connection: "Connection",
    settings: "Settings",
    document: "Document",
    extraction: "ExtractionRow",
    corrections: "Mapping[str, Correction]",
) -> list[dict[str, Any]]:
    """The checks of the values as corrected."""
    from postroom.flow.documents import value_checks

    values = {name: correction.right_value for name, correction in corrections.items()}
    context = build_review_context(settings)
    checks = await value_checks.check_values(connection, context, document, extraction, values)
    return [asdict(check) for check in checks]


def _apply_corrections(
    extracted: Mapping[str, Any], corrections: "Mapping[str, Correction]", people: Mapping[str, str]
) -> dict[str, Any]:
    """Merge corrections into the extracted fields; keep what was read."""
    fields = dict(extracted)
    for name, correction in corrections.items():
        actor = people.get(correction.actor_id or "", correction.actor_id)
        decided_at = f"{correction.decided_at:%Y-%m-%d %H:%M} UTC"
        evidence = f"corrected by {actor or '-'} at {decided_at}; read: {correction.read_text}"
        fields[name] = {
            **extracted.get(name, {"page": None, "box": None}),
            "value": correction.right_value,
            "confidence": 1.0,
            "evidence": evidence,
            "read_value": correction.read_value,
            "corrected_by": actor,
            "corrected_at": correction.decided_at,
        }
    return fields


def describe_failed_checks(error: ChecksFailed) -> str:
    checks = "; ".join(f"{name} ({words})" for name, words in error.checks)
    options = " ".join(f"--override {shlex.quote(name)}" for name, _ in error.checks)
    return f"The values fail a check: {checks}. Correct them, or confirm them anyway with {options}."


def parse_corrections(options: list[str] | None) -> dict[str, str]:
    return dict(_parse_correction(option) for option in options or [])


def _parse_correction(option: str) -> tuple[str, str]:
    name, separator, value = option.partition("=")
    if not separator or not name:
        raise PermanentError(f"--set {option} is not in the form FIELD=VALUE.")
    return name.strip(), value.strip()


def build_review_context(settings: "Settings") -> "ReviewContext":
    from postroom.wiring import documents as wired

    return wired.build_review_context(settings, wired.load_pipelines(settings))
