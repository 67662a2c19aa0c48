"""Read a file and extract its fields, both in the sandbox, with a language model if one is configured.

`process` calls both and commits what they return. `to_viewable_file` gives the model images of the pages.
The database is only read, for what the model has spent of its daily budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from postroom import traces
from postroom.documents import stored_extraction
from postroom.documents.analysis_result import DocumentAnalysis
from postroom.documents.fields.extraction_result import OFFLINE_READER, FieldCheck, ModelUsage
from postroom.documents.fields.llm_reader import LanguageModel, LanguageModelReader, SourceFile
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.pipelines import Pipeline
from postroom.documents.stored_extraction import StoredExtraction
from postroom.errors import UnreadableFile
from postroom.model import OrganizationId
from postroom.store import records
from postroom.store.database import Database

if TYPE_CHECKING:
    from postroom.documents.sandbox.file_sandbox import FileSandbox

# A language model that does not accept the file itself gets page images: wide enough for small print.
MAX_PAGE_IMAGES: Final = 4
PAGE_IMAGE_WIDTH: Final = 1400


@dataclass(frozen=True)
class ExtractionContext:
    kinds: Mapping[str, DocumentKind]
    language_model: LanguageModel | None
    sandbox: "FileSandbox"
    database: Database


async def read_file(context: ExtractionContext, content: bytes) -> FileReading:
    """The transcript of a file, read in the sandbox."""
    with traces.span("read"):
        return await context.sandbox.read(content)


async def extract_fields(
    context: ExtractionContext,
    reading: FileReading,
    pipelines: Sequence[Pipeline],
    content: bytes,
    organization: OrganizationId,
) -> StoredExtraction:
    """The fields of a document, of the kind that fits best among those of the pipelines that accept it."""

    async def spent_today() -> float:
        async with context.database.transaction(organization) as connection:
            return await records.sum_cost_today(connection)

    file = to_viewable_file(context.sandbox, reading, content)
    model = LanguageModelReader(context.language_model, spent_today) if context.language_model else None
    kinds = [context.kinds[name] for name in dict.fromkeys(pipeline.kind for pipeline in pipelines)]
    with traces.span("understand", {"postroom.pipeline": ",".join(each.name for each in pipelines)}):
        analysis = await analyze_document(context.sandbox, model, reading, *kinds, file=file)
    kind = analysis.kind or kinds[0]
    return stored_extraction.to_stored(analysis, kind.name, reading.transcript)


async def analyze_document(
    sandbox: "FileSandbox",
    model: LanguageModelReader | None,
    reading: FileReading,
    *kinds: DocumentKind,
    file: SourceFile | None = None,
    use_exact: bool = True,
) -> DocumentAnalysis:
    """Analyze a document in a sandbox; ask the language model where there is no e-invoice XML.

    A document that exceeds the limits, or whose analysis crashes, needs review. If only the model's part
    fails, the offline reader's fields stay.
    """
    try:
        found = await sandbox.analyze(reading, *kinds, use_exact=use_exact)
    except UnreadableFile as error:
        failed = FieldCheck("analysis", passed=False, words=str(error), is_doubt=True)
        return DocumentAnalysis(kinds[0], certainty=0.0, skip_reason=None, fields={}, checks=(failed,))
    if model is None or found.kind is None or found.source != OFFLINE_READER:
        return found
    usage: tuple[ModelUsage, ...] = ()
    try:
        answer = await model.ask(reading, found.kind, file)
        usage = answer.usage
        if answer.fallback_reason:
            return replace(found, fallback_reason=answer.fallback_reason, usage=usage)
        rated = await sandbox.analyze(reading, found.kind, use_exact=use_exact, answer=answer)
        return replace(rated, usage=usage)
    except UnreadableFile as error:
        return replace(found, fallback_reason=str(error), usage=usage)


def to_viewable_file(sandbox: "FileSandbox", reading: FileReading, content: bytes) -> SourceFile | None:
    """The file with images of its first pages; None for a type without pages."""
    from postroom.documents.files.file_type import FileType

    async def render_pages() -> list[bytes]:
        return [
            await sandbox.page_image(content, page=number, width=PAGE_IMAGE_WIDTH, rotation=page.rotation)
            for number, page in enumerate(reading.transcript.pages[:MAX_PAGE_IMAGES])
        ]

    has_pages = reading.media_type in {FileType.PDF, FileType.TIFF, FileType.PNG, FileType.JPEG}
    return SourceFile(reading.media_type, content, render_pages) if has_pages else None
