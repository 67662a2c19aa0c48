"""What every stage makes of a file or of a stored message, for `postroom pipelines try`. Stores nothing."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from postroom import config
from postroom.cli import output, startup
from postroom.documents import record_matching
from postroom.documents.analysis import DocumentAnalysis, analyze_with
from postroom.documents.fields.extraction_result import ModelUsage
from postroom.documents.files.transcript import FileReading
from postroom.documents.kinds import kind_registry as kinds
from postroom.documents.pipelines import Pipeline
from postroom.documents.record_matching import OrderMatch
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import PermanentError
from postroom.flow.documents import extraction, intake, screen, unpack, upload
from postroom.flow.documents.process import read_blob
from postroom.flow.documents.screen import ScreeningAction, ScreeningVerdict
from postroom.flow.documents.upload import Upload
from postroom.model import OrganizationId
from postroom.ports import BlobStore
from postroom.store import documents
from postroom.store.documents import IncomingMessage, StoredAttachment
from postroom.wiring import storage

if TYPE_CHECKING:
    from postroom.documents.analysis import FieldReader
    from postroom.documents.fields.llm_reader import SpentToday
    from postroom.store.database import Database


@dataclass(frozen=True, slots=True)
class DryRunFile:
    """A file that a pipeline looks at, and what the screen says of it; its bytes only where it is taken."""

    pipeline: Pipeline
    name: str
    media_type: str
    verdict: ScreeningVerdict
    content: bytes | None = None


def screen_file(file: Path, chosen: Sequence[Pipeline]) -> list[DryRunFile]:
    """A file of the disk, or what is inside it."""
    try:
        given = Upload(file.name, file.read_bytes(), sender="")
    except OSError as error:
        raise PermanentError(f"{file} cannot be read: {error.strerror}.") from error
    return [
        DryRunFile(
            pipeline,
            each.name,
            each.media_type,
            ScreeningVerdict(
                ScreeningAction.LEAVE if each.content is None else ScreeningAction.TAKE, each.reason
            ),
            each.content,
        )
        for each in upload.screen_upload(given)
        for pipeline in chosen
    ]


def screen_message(message_id: int, chosen: Sequence[Pipeline]) -> list[DryRunFile]:
    """What a stored message brought, as each pipeline would look at it now."""

    async def collect(database: "Database", organization: OrganizationId) -> list[DryRunFile]:
        async with database.transaction(organization) as connection:
            # A number that no column holds names no message.
            wanted = [message_id] if message_id < 2**63 else []
            found = await documents.list_incoming_messages(connection, wanted)
        if not found:
            raise PermanentError(
                f"There is no message {message_id} with attachments; `postroom search` finds messages."
            )
        blobs = storage.build_blob_store(config.load())
        [message] = found
        return [
            candidate
            for file in message.files
            for candidate in await _screen_attachment(blobs, organization, message, file, chosen)
        ]

    return startup.run_for_organization(collect)


async def _screen_attachment(
    blobs: BlobStore,
    organization: OrganizationId,
    message: IncomingMessage,
    file: StoredAttachment,
    chosen: Sequence[Pipeline],
) -> list[DryRunFile]:
    verdict = screen.screen_attachment(intake.to_attachment_facts(file))
    if verdict.accepted and file.sha256 is None:
        verdict = ScreeningVerdict(
            ScreeningAction.LEAVE, "its bytes are not kept under the mailbox's content policy"
        )
    media_type = intake.choose_media_type(file.detected, file.media_type)
    inside = [(file.name, media_type, verdict, None)]
    if verdict.accepted and file.sha256 is not None:
        content = await read_blob(blobs, organization, file.sha256)
        if verdict.action is ScreeningAction.TAKE:
            inside = [(file.name, media_type, verdict, content)]
        else:
            opened = await asyncio.to_thread(unpack.unpack_container, content, file)
            inside += [
                (f"{file.name}/{each.name}", each.media_type, each.verdict, each.content) for each in opened
            ]
    overall = {each.name: screen.screen_message(each, intake.to_message_facts(message)) for each in chosen}
    return [
        DryRunFile(each, name, kind, verdict, content)
        if overall[each.name].accepted
        else DryRunFile(each, name, kind, overall[each.name])
        for name, kind, verdict, content in inside
        for each in chosen
    ]


async def run_stages(
    candidates: Sequence[DryRunFile], made_reader: "Callable[[SpentToday], FieldReader]", *, use_exact: bool
) -> list[dict[str, Any]]:
    """What each stage says of each. One file that cannot be read costs the others nothing."""
    installed, tried = kinds.list_installed(), list[dict[str, Any]]()
    usage: list[ModelUsage] = []

    async def spent() -> float:
        return sum(each.cost_usd for each in usage)

    field_reader = made_reader(spent)
    readings: dict[bytes, FileReading | str] = {}
    async with FileSandbox() as readers:
        for candidate in candidates:
            if candidate.content is None:
                fate = "opened" if candidate.verdict.action is ScreeningAction.OPEN else "left"
                tried.append(_describe_screening(candidate) | {"route": {"state": fate, "reason": None}})
                continue
            if candidate.content not in readings:
                readings[candidate.content] = await _read(readers, candidate.content)
            reading = readings[candidate.content]
            if isinstance(reading, str):
                if len(candidates) == 1:
                    raise PermanentError(reading)
                tried.append(
                    _describe_screening(candidate) | {"route": {"state": "failed", "reason": reading}}
                )
                continue
            wanted = [installed[candidate.pipeline.kind]]
            file = extraction.to_viewable_file(readers, reading, candidate.content)
            found = await analyze_with(field_reader, reading, wanted, file=file, use_exact=use_exact)
            usage += found.usage
            tried.append(_describe_stages(candidate, reading, found))
    return tried


async def _read(readers: FileSandbox, content: bytes) -> FileReading | str:
    try:
        return await readers.read(content)
    except PermanentError as error:
        return str(error)


def _describe_screening(candidate: DryRunFile) -> dict[str, Any]:
    return {
        "file": candidate.name,
        "media_type": candidate.media_type,
        "pipeline": candidate.pipeline.name,
        "screen": {"fate": candidate.verdict.action.value, "reason": candidate.verdict.reason},
    }


def _describe_stages(candidate: DryRunFile, reading: FileReading, found: DocumentAnalysis) -> dict[str, Any]:
    transcript, values, pipeline = reading.transcript, found.values(), candidate.pipeline
    told: dict[str, Any] = {
        **_describe_screening(candidate),
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
    doubts = record_matching.find_review_reasons(
        needed=found.kind.needed,
        confidences=found.confidences,
        confirm_above=pipeline.confirm_above,
        failed_checks=found.failed_checks,
        differences=[each.words for each in found.differences],
        match=OrderMatch(None, ""),
    )
    return told | {
        "extract": {
            "reader": found.source,
            "fallback_reason": found.fallback_reason,
            "tokens": sum(each.input_tokens + each.output_tokens for each in found.usage),
            "cost_usd": sum(each.cost_usd for each in found.usage),
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


def print_stages(told: dict[str, Any]) -> None:
    output.print_line(f"{told['file']} in {told['pipeline']}")
    output.print_line(f"  screen      {told['screen']['fate']}: {told['screen']['reason']}")
    if "transcribe" not in told:
        output.print_line(f"  route       {told['route']['state']} {told['route']['reason'] or ''}".rstrip())
        return
    read, kind, route = told["transcribe"], told["classify"], told["route"]
    output.print_line(f"  transcribe  {read['method']}: {read['pages']} pages, {read['words']} words")
    output.print_line(
        f"  classify    {kind['kind'] or 'skip'} ({kind['certainty']:.2f}) {kind['skip_reason'] or ''}"
    )
    if "extract" in told:
        read = told["extract"]
        costs = f", {read['tokens']:,} tokens, {read['cost_usd']:.4f} dollars" if read["tokens"] else ""
        instead = f" ({read['fallback_reason']})" if read["fallback_reason"] else ""
        output.print_line(f"  extract     by {read['reader']}{instead}{costs}")
        fields = read["fields"].items()
        rows = [[f"    {name}", each["value"], each["confidence"], each["evidence"]] for name, each in fields]
        output.print_table(["    FIELD", "VALUE", "CONFIDENCE", "EVIDENCE"], rows)
        for each in told["check"]:
            output.print_line(f"  check       {'passed' if each['passed'] else 'FAILED'} {each['words']}")
    output.print_line(f"  route       {route['state']} {route['reason'] or ''}".rstrip())
