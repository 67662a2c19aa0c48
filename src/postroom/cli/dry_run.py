"""The dry run of `postroom pipelines try`: all stages on a file or a message, with nothing stored.

The command and its options are in `pipelines`.
"""

import textwrap
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from postroom import interrupts
from postroom.cli import output, startup
from postroom.config import Settings
from postroom.documents import record_matching
from postroom.documents.analysis_result import DocumentAnalysis
from postroom.documents.fields.extraction_result import ModelUsage
from postroom.documents.fields.llm_reader import LanguageModel, LanguageModelReader
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds import kind_registry as kinds
from postroom.documents.pipelines import Pipeline
from postroom.documents.record_matching import OrderMatch
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import PermanentError
from postroom.flow.documents import extraction, intake, screen, unpack, upload
from postroom.flow.documents.screen import ScreeningAction, ScreeningVerdict
from postroom.flow.documents.upload import Upload, UploadedFile
from postroom.flow.storage.blob_reading import read_blob
from postroom.model import OrganizationId
from postroom.ports import BlobStore
from postroom.store import documents
from postroom.store.documents import IncomingMessage, StoredAttachment
from postroom.wiring import storage

if TYPE_CHECKING:
    from postroom.store.database import Database

_MAX_COLUMN_WIDTH: Final = 60
SCREENING_WORDS: Final = {
    ScreeningAction.TAKE: "accepted",
    ScreeningAction.OPEN: "unpacked",
    ScreeningAction.IGNORE: "ignored",
}


@dataclass(frozen=True, slots=True)
class DryRunFile:
    """A file, the pipeline that screens it, and the verdict.

    Only accepted files have content.
    """

    pipeline: Pipeline
    name: str
    media_type: str
    verdict: ScreeningVerdict
    content: bytes | None = None


def screen_file(file: Path, pipelines: Sequence[Pipeline]) -> list[DryRunFile]:
    """Screen a local file, or the files inside a container."""
    try:
        new_upload = Upload(file.name, file.read_bytes(), sender="")
    except OSError as error:
        raise PermanentError(f"{file} cannot be read: {error.strerror}. Check the path.") from error
    return [
        DryRunFile(
            pipeline,
            inner.name,
            inner.media_type,
            ScreeningVerdict(
                ScreeningAction.IGNORE if inner.content is None else ScreeningAction.TAKE, inner.reason
            ),
            inner.content,
        )
        for inner in interrupts.run_async(_screen_upload(new_upload))
        for pipeline in pipelines
    ]


async def _screen_upload(new_upload: Upload) -> list[UploadedFile]:
    async with FileSandbox(parallel=1) as sandbox:
        return await upload.screen_upload(sandbox, new_upload)


def screen_message(settings: Settings, message_id: int, pipelines: Sequence[Pipeline]) -> list[DryRunFile]:
    """Screen the attachments of a stored message as the pipelines would now."""

    async def collect(database: "Database", organization: OrganizationId) -> list[DryRunFile]:
        async with database.transaction(organization) as connection:
            # A number beyond bigint is no message ID.
            message_ids = [message_id] if message_id < 2**63 else []
            messages = await documents.list_incoming_messages(connection, message_ids)
        if not messages:
            raise PermanentError(
                f"Message {message_id} does not exist or has no attachments. `postroom search` finds IDs."
            )
        blobs = storage.build_blob_store(settings)
        [message] = messages
        async with FileSandbox(parallel=1) as sandbox:
            return [
                candidate
                for file in message.files
                for candidate in await _screen_attachment(
                    sandbox, blobs, organization, message, file, pipelines
                )
            ]

    return startup.run_for_organization(collect, settings)


async def _screen_attachment(
    sandbox: FileSandbox,
    blobs: BlobStore,
    organization: OrganizationId,
    message: IncomingMessage,
    file: StoredAttachment,
    pipelines: Sequence[Pipeline],
) -> list[DryRunFile]:
    verdict = screen.screen_attachment(intake.to_attachment_facts(file))
    if verdict.accepted and file.sha256 is None:
        verdict = ScreeningVerdict(
            ScreeningAction.IGNORE, "the mailbox's content policy does not keep its content"
        )
    media_type = intake.choose_media_type(file.detected, file.media_type)
    files = [(file.name, media_type, verdict, None)]
    if verdict.accepted and file.sha256 is not None:
        content = await read_blob(blobs, organization, file.sha256)
        if verdict.action is ScreeningAction.TAKE:
            files = [(file.name, media_type, verdict, content)]
        else:
            members = await unpack.unpack_container(sandbox, content, file, unpack.count_containers(message))
            files += [
                (f"{file.name}/{member.name}", member.media_type, member.verdict, member.content)
                for member in members
            ]
    facts = intake.to_message_facts(message)
    overall = {pipeline.name: screen.screen_message(pipeline, facts) for pipeline in pipelines}
    return [
        DryRunFile(pipeline, name, kind, verdict, content)
        if overall[pipeline.name].accepted
        else DryRunFile(pipeline, name, kind, overall[pipeline.name])
        for name, kind, verdict, content in files
        for pipeline in pipelines
    ]


async def run_stages(
    candidates: Sequence[DryRunFile],
    opening_model: AbstractAsyncContextManager[LanguageModel | None],
    *,
    use_exact: bool,
) -> list[dict[str, Any]]:
    """Run all stages on each file and describe the results, those of an accepted file in one pipeline.

    An unreadable file does not stop the others.
    """
    installed, results = kinds.list_installed(), list[dict[str, Any]]()
    usage: list[ModelUsage] = []

    async def spent() -> float:
        return sum(each.cost_usd for each in usage)

    async with opening_model as model, FileSandbox() as sandbox:
        reader = LanguageModelReader(model, spent) if model else None
        for candidate, pipelines in _group_by_file(candidates):
            if candidate.content is None:
                state = "opened" if candidate.verdict.action is ScreeningAction.OPEN else "ignored"
                results.append(_describe_screening(candidate) | {"route": {"state": state, "reason": None}})
                continue
            reading = await _read(sandbox, candidate.content)
            if isinstance(reading, str):
                if len({each.name for each in candidates}) == 1:
                    raise PermanentError(reading)
                results.append(
                    _describe_screening(candidate) | {"route": {"state": "failed", "reason": reading}}
                )
                continue
            possible = [installed[name] for name in dict.fromkeys(each.kind for each in pipelines)]
            file = extraction.to_viewable_file(sandbox, reading, candidate.content)
            analysis = await extraction.analyze_document(
                sandbox, reader, reading, *possible, file=file, use_exact=use_exact
            )
            usage += analysis.usage
            kind = analysis.kind or possible[0]
            pipeline = next(each for each in pipelines if each.kind == kind.name)
            results.append(_describe_stages(replace(candidate, pipeline=pipeline), reading, analysis))
    return results


def _group_by_file(candidates: Sequence[DryRunFile]) -> list[tuple[DryRunFile, list[Pipeline]]]:
    """Each accepted file once, with the pipelines that accept it; other files once per pipeline."""
    accepted: dict[tuple[str, bytes], list[Pipeline]] = {}
    groups: list[tuple[DryRunFile, list[Pipeline]]] = []
    for candidate in candidates:
        if candidate.content is None:
            groups.append((candidate, [candidate.pipeline]))
        elif (key := (candidate.name, candidate.content)) in accepted:
            accepted[key].append(candidate.pipeline)
        else:
            accepted[key] = [candidate.pipeline]
            groups.append((candidate, accepted[key]))
    return groups


async def _read(sandbox: FileSandbox, content: bytes) -> FileReading | str:
    try:
        return await sandbox.read(content)
    except PermanentError as error:
        return str(error)


def _describe_screening(candidate: DryRunFile) -> dict[str, Any]:
    return {
        "file": candidate.name,
        "media_type": candidate.media_type,
        "pipeline": candidate.pipeline.name,
        "screen": {"fate": candidate.verdict.action.value, "reason": candidate.verdict.reason},
    }


def _describe_stages(
    candidate: DryRunFile, reading: FileReading, analysis: DocumentAnalysis
) -> dict[str, Any]:
    transcript, values, pipeline = reading.transcript, analysis.values(), candidate.pipeline
    stages: dict[str, Any] = {
        **_describe_screening(candidate),
        "transcribe": {
            "method": transcript.method,
            "pages": len(transcript.pages),
            "words": len(transcript.words),
            "embedded": [each.name for each in reading.embedded],
        },
        "classify": {
            "kind": analysis.kind.name if analysis.kind else None,
            "certainty": round(analysis.certainty, 3),
            "skip_reason": analysis.skip_reason,
        },
    }
    if analysis.kind is None:
        return stages | {"route": {"state": "skipped", "reason": analysis.skip_reason}}
    doubts = record_matching.find_review_reasons(
        required=analysis.kind.required,
        certain=analysis.kind.certain,
        confidences=analysis.confidences,
        confirm_above=pipeline.confirm_above,
        failed_checks=analysis.failed_checks,
        differences=[each.words for each in analysis.differences],
        match=OrderMatch(None, ""),
    )
    return stages | {
        "extract": {
            "reader": analysis.source,
            "fallback_reason": analysis.fallback_reason,
            "tokens": sum(each.input_tokens + each.output_tokens for each in analysis.usage),
            "cost_usd": sum(each.cost_usd for each in analysis.usage),
            "fields": {
                field: {
                    "value": values[field],
                    "confidence": round(each.confidence, 3),
                    "page": each.page,
                    "evidence": each.evidence,
                }
                for field, each in analysis.fields.items()
            },
        },
        "check": [{"passed": each.passed, "words": f"{each.name}: {each.words}"} for each in analysis.checks],
        "route": {"state": "needs_review" if doubts else "completed", "reason": str(doubts) or None},
    }


def print_stages(stages: dict[str, Any]) -> None:
    output.print_line(f"{stages['file']} in {stages['pipeline']}")
    fate = SCREENING_WORDS[ScreeningAction(stages["screen"]["fate"])]
    output.print_line(f"  screen      {fate}: {stages['screen']['reason']}")
    if "transcribe" not in stages:
        output.print_line(
            f"  route       {stages['route']['state']} {stages['route']['reason'] or ''}".rstrip()
        )
        return
    read, kind, route = stages["transcribe"], stages["classify"], stages["route"]
    output.print_line(
        f"  transcribe  {read['method']}: {_count(read['pages'], 'page')}, {_count(read['words'], 'word')}"
    )
    classified = f"{kind['kind'] or 'skip'} ({kind['certainty']:.2f}) {kind['skip_reason'] or ''}"
    output.print_line(f"  classify    {classified}".rstrip())
    if "extract" in stages:
        read = stages["extract"]
        costs = f", {read['tokens']:,} tokens, USD {read['cost_usd']:.4f}" if read["tokens"] else ""
        fallback = f" ({read['fallback_reason']})" if read["fallback_reason"] else ""
        output.print_line(f"  extract     by {read['reader']}{fallback}{costs}")
        fields = read["fields"].items()
        rows = [
            [f"    {name}", _shorten(field["value"]), field["confidence"], _shorten(field["evidence"])]
            for name, field in fields
        ]
        output.print_table(["    FIELD", "VALUE", "CONFIDENCE", "EVIDENCE"], rows)
        for name, field in fields:
            _print_rows(name, field["value"])
        for check in stages["check"]:
            output.print_line(f"  check       {'passed' if check['passed'] else 'FAILED'} {check['words']}")
    output.print_line(f"  route       {route['state']} {route['reason'] or ''}".rstrip())


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _shorten(value: Any) -> Any:
    """A value that fits a column: the number of rows of a table, or the beginning of a long text."""
    if isinstance(value, list):
        return _count(len(cast("list[Any]", value)), "row")
    return textwrap.shorten(value, _MAX_COLUMN_WIDTH, placeholder="…") if isinstance(value, str) else value


def _print_rows(name: str, value: Any) -> None:
    """Print a field that is a table, indented below the other fields."""
    if not isinstance(value, list) or not value:
        return
    rows = cast("list[dict[str, Any]]", value)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    output.print_line(f"    {name}")
    output.print_table(
        [f"      {columns[0].upper()}", *(column.upper() for column in columns[1:])],
        [
            [
                f"      {_shorten(row.get(columns[0], '-'))}",
                *(_shorten(row.get(each)) for each in columns[1:]),
            ]
            for row in rows
        ],
    )
