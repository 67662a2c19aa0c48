"""The work `process_document`: from bytes to a transcript, typed fields and a state.

          begin             read, extract
 queued ────────▶ processing ─────────────▶ completed | skipped | needs_review
    ▲                 │  │                      (see `route`)
    └──── retry ──────┘  └── unreadable, or attempts used up ──▶ failed

Reading, by `extraction`, happens outside any transaction. The document is classified once, among the kinds of
the pipelines that accept it, and belongs to the pipeline that fits best. The result, with people's earlier
corrections for the same supplier applied, is committed in one transaction, fenced by the lease.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final
from uuid import UUID

from postroom.documents import record_matching, stored_extraction
from postroom.documents.files.file_reading import FileReading, Transcript
from postroom.documents.kinds.field_spec import FieldShape
from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.documents.stored_extraction import StoredExtraction
from postroom.errors import LeaseLost, PasswordRequired, PermanentError, PostroomError, TransientError
from postroom.flow.documents import controls, route, shared_state, split
from postroom.flow.documents.extraction import ExtractionContext, extract_fields, read_file
from postroom.flow.documents.route import DocumentCase, RouteContext
from postroom.flow.documents.shared_state import SharedStateContext
from postroom.flow.storage.blob_reading import read_blob
from postroom.model import DocumentState, StepResult
from postroom.ports import Blob, BlobStore
from postroom.store import document_files, documents, records, reviews, work
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.documents import Document
from postroom.store.records import ExtractionRow, RecordState
from postroom.store.reviews import FieldCorrection
from postroom.store.work import Lease

ENCRYPTED_REASON: Final = "needs a password: the file is encrypted"
PROCESSABLE: Final = (DocumentState.QUEUED, DocumentState.PROCESSING)
# A lost lease is a suspicion and no proof: the machine may have been overloaded, or the worker was killed.
STALLED_WAITS: Final = (3600.0, 6 * 3600.0, 24 * 3600.0)
# Values that stay the same across a supplier's documents; amounts, dates and numbers do not.
LEARNABLE_SHAPES: Final = frozenset[FieldShape]({"party", "vat_id", "iban"})


@dataclass(frozen=True)
class ProcessDocumentContext:
    database: Database
    blobs: BlobStore
    pipelines: Pipelines
    extracting: ExtractionContext
    routing: RouteContext
    max_attempts: int
    sharing: SharedStateContext | None = None  # if a pipeline shares its state with another scheduler


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """What was read from a document, its pipeline, and the files of its parts if it is split."""

    pipeline: Pipeline
    reading: FileReading
    extraction: StoredExtraction
    parts: Sequence[Blob] = ()


async def run(context: ProcessDocumentContext, lease: Lease) -> StepResult:
    """Process one document. Whatever happens, its row shows its state."""
    excluded: Collection[str] | None = ()
    if context.sharing:
        excluded = await shared_state.find_excluded_pipelines(context.sharing, lease)
    if excluded is None:
        return StepResult(again_after=shared_state.POLL_SECONDS)
    document = await _begin(context, lease)
    if document is None:
        return StepResult()
    sandbox = context.extracting.sandbox.for_organization(lease.organization)
    extracting = replace(context.extracting, sandbox=sandbox)
    try:
        pipelines = _list_pipelines(context, lease, document, excluded)
        content = await read_blob(context.blobs, lease.organization, document.readable_sha256)
        reading = await read_file(extracting, content)
        extraction = await extract_fields(extracting, reading, pipelines, content, lease.organization)
        pipeline = next(each for each in pipelines if each.kind == extraction.kind)
        parts = await sandbox.split(content, extraction.parts) if extraction.parts else []
        files = [await context.blobs.put(lease.organization, part) for part in parts]
        result = DocumentResult(pipeline, reading, extraction, files)
        if not await _commit_result(context, lease, document, result):
            return StepResult(again_after=0)
    except PasswordRequired:
        await _ask_for_password(context, lease, document)
    except PermanentError as error:
        await _fail(context, lease, document, str(error))
    except LeaseLost:
        raise
    except Exception as error:
        if lease.attempts < context.max_attempts:
            raise
        bug = f"reading it raised an unexpected error: {type(error).__name__}"
        message = str(error) if isinstance(error, PostroomError) else bug
        await _fail(context, lease, document, message)
    return StepResult()


async def _commit_result(
    context: ProcessDocumentContext,
    lease: Lease,
    document: Document,
    result: DocumentResult,
) -> bool:
    """Commit the result. False if it fits none of the pipelines, but another one accepted it meanwhile."""
    pipeline, extraction = result.pipeline, result.extraction
    case = DocumentCase(lease.organization, document)
    async with work.fenced_transaction(context.database, lease) as connection:
        own = await route.lock_case(connection, case)
        is_reopened = own is not None and own.state is RecordState.REOPENED
        accepting = await documents.lock_pipelines(connection, document.id)
        if extraction.skip_reason is not None and accepting != document.pipelines:
            return False
        if pipeline.name != document.pipeline and not is_reopened:
            await documents.assign_pipeline(connection, document.id, pipeline.name)
        await route.identify_earlier_records(connection, context.routing, pipeline.name)
        extraction = await _apply_corrections(connection, context.routing, extraction)
        extraction = await controls.add_checks(connection, context.routing, document, extraction)
        await _store_extraction(connection, document, result.reading.transcript, extraction)
        if result.parts and not is_reopened:
            archives = context.routing.archives and pipeline.archive
            await split.commit_parts(connection, case, extraction.parts, result.parts, archives=archives)
        else:
            await route.route_document(connection, context.routing, pipeline, case, extraction)
    return True


async def _begin(context: ProcessDocumentContext, lease: Lease) -> Document | None:
    """Move the document to `processing`; None if it is already done."""
    async with work.fenced_transaction(context.database, lease) as connection:
        document = await documents.change_state(
            connection, UUID(lease.subject), among=PROCESSABLE, to=DocumentState.PROCESSING
        )
        if document is not None:
            await route.publish_state(connection, document)
        return document


def _list_pipelines(
    context: ProcessDocumentContext, lease: Lease, document: Document, excluded: Collection[str]
) -> list[Pipeline]:
    """List the pipelines that accept the document, in the order of their file."""
    if lease.is_deadly:
        stalled = "The worker crashed or stalled on every attempt to read this file. See the worker's log."
        if lease.attempts > len(STALLED_WAITS):
            raise PermanentError(stalled)
        raise TransientError(stalled, retry_after=STALLED_WAITS[lease.attempts - 1])
    accepting = {document.pipeline, *document.pipelines}.difference(excluded)
    found = [pipeline for name, pipeline in context.pipelines.items() if name in accepting]
    if not found:
        raise PermanentError(
            f"The pipeline {document.pipeline} no longer exists."
            " Add it to the pipelines file, then retry the document."
        )
    return found


async def _ask_for_password(context: ProcessDocumentContext, lease: Lease, document: Document) -> None:
    async with work.fenced_transaction(context.database, lease) as connection:
        await document_files.mark_password_needed(connection, document.id)
        await reviews.request(connection, document.id, ENCRYPTED_REASON)
        case = DocumentCase(lease.organization, document)
        await route.finish_document(connection, case, DocumentState.NEEDS_REVIEW)


async def _fail(context: ProcessDocumentContext, lease: Lease, document: Document, reason: str) -> None:
    async with work.fenced_transaction(context.database, lease) as connection:
        await route.fail_document(connection, DocumentCase(lease.organization, document), reason)


async def _apply_corrections(
    connection: Connection, context: RouteContext, extraction: StoredExtraction
) -> StoredExtraction:
    """Apply corrections that people made in other documents of this supplier, except to e-invoices."""
    if extraction.skip_reason is not None or extraction.is_exact:
        return extraction
    shapes = context.identities[extraction.kind].shapes
    known = record_matching.issuer_keys(extraction.values, shapes)
    learned = await reviews.find_corrections(
        connection, parties=list(known.values()), layout=extraction.layout
    )
    corrected = {
        name: {
            str(correction.read_value or ""): correction.right_value
            for correction in reversed(corrections)
            if correction_applies(correction, known)
        }
        for name, corrections in learned.items()
        if shapes.get(name) in LEARNABLE_SHAPES
    }
    return stored_extraction.apply_corrections(extraction, corrected, context.kinds[extraction.kind])


def correction_applies(correction: FieldCorrection, known: Mapping[str, str]) -> bool:
    """Whether a correction applies: documents of two suppliers may look alike."""
    name = (correction.party or "").partition("=")[0]
    return name not in known or known[name] == correction.party


async def _store_extraction(
    connection: Connection, document: Document, transcript: Transcript, extraction: StoredExtraction
) -> None:
    await records.store_transcript(
        connection,
        document.id,
        method=transcript.method,
        pages=len(transcript.pages),
        text=transcript.text.replace("\0", ""),
        words=to_stored_words(transcript),
    )
    if extraction.skip_reason is None:
        await records.store_extraction(connection, document.id, _to_extraction(extraction))


def to_stored_words(transcript: Transcript) -> Mapping[str, Any]:
    """Encode pages and words for the web page, with positions in thousandths of a page."""
    pages = [[page.width, page.height, page.rotation] for page in transcript.pages]
    words = [
        [word.text.replace("\0", ""), word.page, word.line, *(round(1000 * edge) for edge in edges)]
        for word in transcript.words
        for edges in [(word.box.left, word.box.top, word.box.right, word.box.bottom)]
    ]
    return {"pages": pages, "words": words}


def _to_extraction(extraction: StoredExtraction) -> ExtractionRow:
    return ExtractionRow(
        kind=extraction.kind,
        reader=extraction.reader,
        layout=extraction.layout,
        fields={name: asdict(each) for name, each in extraction.fields.items()},
        checks=[asdict(check) for check in extraction.checks],
        input_tokens=extraction.input_tokens,
        output_tokens=extraction.output_tokens,
        cost=extraction.cost,
    )
