"""Reading a document (D5 to D7, D10): its bytes become a transcript, typed fields, and a state.

          begin             read, understood
 queued ────────▶ processing ───────────────▶ completed | skipped | needs_review
    ▲                 │  │                        (see `route`)
    └── tried again ──┘  └── cannot be read, or tried often enough ──▶ failed

Reading happens outside any transaction; what came of it is one transaction, fenced by the lease.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import UUID

from postroom.documents import record_matching
from postroom.documents import stored_extraction as lessons
from postroom.documents.files.transcript import FileReading, Transcript
from postroom.documents.kinds.field_spec import FieldShape
from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.documents.stored_extraction import StoredExtraction
from postroom.errors import LeaseLost, PermanentError, PostroomError
from postroom.flow.documents import route, shared_state
from postroom.flow.documents.route import DocumentCase, RouteContext
from postroom.flow.documents.shared_state import SharedStateContext
from postroom.model import DocumentState, OrganizationId, StepResult
from postroom.ports import BlobStore
from postroom.store import documents, records, reviews, work
from postroom.store.database import Connection, Database
from postroom.store.documents import Document
from postroom.store.records import ExtractionRow
from postroom.store.reviews import FieldCorrection
from postroom.store.work import Lease

PROCESSABLE: Final = (DocumentState.QUEUED, DocumentState.PROCESSING)
# What stays the same from one document of a supplier to the next; amounts, dates and numbers do not.
LEARNABLE_SHAPES: Final = frozenset[FieldShape]({"party", "vat_id", "iban"})

ReadFunction = Callable[[bytes], Awaitable[FileReading]]
UnderstandFunction = Callable[[FileReading, Pipeline, bytes, OrganizationId], Awaitable[StoredExtraction]]


@dataclass(frozen=True)
class ProcessDocumentContext:
    database: Database
    blobs: BlobStore
    pipelines: Pipelines
    read: ReadFunction
    understand: UnderstandFunction
    routing: RouteContext
    max_attempts: int
    sharing: SharedStateContext | None = None  # where a pipeline shares its state with a foreign scheduler


async def run(context: ProcessDocumentContext, lease: Lease) -> StepResult:
    """One document, from its bytes to its state. Whatever happens, its row says how it stands."""
    if context.sharing and (instead := await shared_state.defer_or_skip(context.sharing, lease)):
        return instead
    document = await _begin(context, lease)
    if document is None:
        return StepResult()
    try:
        pipeline = _get_pipeline(context, lease, document)
        content = await read_blob(context.blobs, lease.organization, document.sha256)
        reading = await context.read(content)
        understood = await context.understand(reading, pipeline, content, lease.organization)
        await _commit_result(context, lease, document, pipeline, reading, understood)
    except PermanentError as error:
        await _fail(context, lease, document, str(error))
    except LeaseLost:
        raise
    except Exception as error:
        if lease.attempts < context.max_attempts:
            raise
        defect = f"reading it met a defect: {type(error).__name__}"
        words = str(error) if isinstance(error, PostroomError) else defect
        await _fail(context, lease, document, words)
    return StepResult()


async def _commit_result(
    context: ProcessDocumentContext,
    lease: Lease,
    document: Document,
    pipeline: Pipeline,
    reading: FileReading,
    understood: StoredExtraction,
) -> None:
    async with work.fenced_transaction(context.database, lease) as connection:
        understood = await _apply_lessons(connection, context.routing, understood)
        await _store_extraction(connection, document, reading.transcript, understood)
        case = DocumentCase(lease.organization, document)
        await route.route_document(connection, context.routing, pipeline, case, understood)


async def read_blob(blobs: BlobStore, organization: OrganizationId, sha256: bytes) -> bytes:
    return b"".join([piece async for piece in blobs.read(organization, sha256)])


async def _begin(context: ProcessDocumentContext, lease: Lease) -> Document | None:
    """The document, if it is still to be read: a repeated wake-up finds it ended."""
    async with work.fenced_transaction(context.database, lease) as connection:
        document = await documents.change_state(
            connection, UUID(lease.subject), among=PROCESSABLE, to=DocumentState.PROCESSING
        )
        if document is not None:
            await route.publish_state(connection, document)
        return document


def _get_pipeline(context: ProcessDocumentContext, lease: Lease, document: Document) -> Pipeline:
    if lease.lost_leases >= context.max_attempts:
        raise PermanentError("its worker ended at every attempt")
    pipeline = context.pipelines.get(document.pipeline)
    if pipeline is None:
        raise PermanentError(f"the pipeline {document.pipeline} is no longer declared")
    return pipeline


async def _fail(context: ProcessDocumentContext, lease: Lease, document: Document, words: str) -> None:
    async with work.fenced_transaction(context.database, lease) as connection:
        await route.fail_document(connection, DocumentCase(lease.organization, document), words)


async def _apply_lessons(
    connection: Connection, context: RouteContext, understood: StoredExtraction
) -> StoredExtraction:
    """What people put right in other papers of this supplier. What an e-invoice says exactly stays."""
    if understood.skip_reason is not None or understood.is_exact:
        return understood
    shapes = context.identities[understood.kind].shapes
    known = record_matching.issuer_keys(understood.values, shapes)
    learned = await reviews.find_corrections(
        connection, parties=list(known.values()), layout=understood.layout
    )
    corrected = {
        name: {
            str(each.read_value or ""): each.right_value
            for each in reversed(found)
            if lesson_applies(each, known)
        }
        for name, found in learned.items()
        if shapes.get(name) in LEARNABLE_SHAPES
    }
    return lessons.apply_corrections(understood, corrected, shapes)


def lesson_applies(lesson: FieldCorrection, known: Mapping[str, str]) -> bool:
    """Papers of two suppliers may look alike: what was taught of one is nothing for the other."""
    name = (lesson.party or "").partition("=")[0]
    return name not in known or known[name] == lesson.party


async def _store_extraction(
    connection: Connection, document: Document, transcript: Transcript, understood: StoredExtraction
) -> None:
    await records.store_transcript(
        connection,
        document.id,
        method=transcript.method,
        pages=len(transcript.pages),
        text=transcript.text.replace("\0", ""),
        words=to_stored_words(transcript),
    )
    if understood.skip_reason is None:
        await records.store_extraction(connection, document.id, _to_extraction(understood))


def to_stored_words(transcript: Transcript) -> Mapping[str, Any]:
    """Pages and words as they are kept for the page that shows them: places in thousandths of a page."""
    pages = [[page.width, page.height, page.rotation] for page in transcript.pages]
    words = [
        [word.text.replace("\0", ""), word.page, word.line, *(round(1000 * edge) for edge in edges)]
        for word in transcript.words
        for edges in [(word.box.left, word.box.top, word.box.right, word.box.bottom)]
    ]
    return {"pages": pages, "words": words}


def _to_extraction(understood: StoredExtraction) -> ExtractionRow:
    return ExtractionRow(
        kind=understood.kind,
        reader=understood.reader,
        layout=understood.layout,
        fields={name: asdict(each) for name, each in understood.fields.items()},
        checks=[
            *(asdict(each) for each in understood.checks),
            *({"words": each, "passed": False} for each in understood.differences),
        ],
        input_tokens=understood.input_tokens,
        output_tokens=understood.output_tokens,
        cost=understood.cost,
    )
