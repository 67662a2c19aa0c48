"""Read a file in the sandbox, and extract its fields with the configured reader.

`process` calls both and commits what they return. `to_viewable_file` gives the reader images of the pages.
The database is only read, for what the reader has spent of its daily budget.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from postroom import traces
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.pipelines import Pipeline
from postroom.model import OrganizationId
from postroom.store import records
from postroom.store.database import Database

if TYPE_CHECKING:
    from postroom.documents.fields.field_reader import FieldReader, SourceFile
    from postroom.documents.fields.llm_reader import SpentToday
    from postroom.documents.sandbox.file_sandbox import FileSandbox
    from postroom.documents.stored_extraction import StoredExtraction

# A language model that does not accept the file itself gets page images: wide enough for small print.
MAX_PAGE_IMAGES: Final = 4
PAGE_IMAGE_WIDTH: Final = 1400


@dataclass(frozen=True)
class ExtractionContext:
    kinds: Mapping[str, DocumentKind]
    field_reader: "Callable[[SpentToday], FieldReader]"
    sandbox: "FileSandbox"
    database: Database


async def read_file(sandbox: "FileSandbox", content: bytes) -> FileReading:
    """The transcript of a file, read in a sandbox."""
    with traces.span("read"):
        return await sandbox.read(content)


async def extract_fields(
    context: ExtractionContext,
    reading: FileReading,
    pipeline: Pipeline,
    content: bytes,
    organization: OrganizationId,
) -> "StoredExtraction":
    from postroom.documents import stored_extraction
    from postroom.documents.analysis import analyze_with

    async def spent_today() -> float:
        async with context.database.transaction(organization) as connection:
            return await records.sum_cost_today(connection)

    file = to_viewable_file(context.sandbox, reading, content)
    with traces.span("understand", {"postroom.pipeline": pipeline.name}):
        reader = context.field_reader(spent_today)
        analysis = await analyze_with(reader, reading, [context.kinds[pipeline.kind]], file=file)
    return stored_extraction.to_stored(analysis, pipeline.kind, reading.transcript)


def to_viewable_file(sandbox: "FileSandbox", reading: FileReading, content: bytes) -> "SourceFile | None":
    """The file with images of its first pages; None for a type without pages."""
    from postroom.documents.fields.field_reader import SourceFile
    from postroom.documents.files.file_type import FileType

    async def render_pages() -> list[bytes]:
        return [
            await sandbox.page_image(content, page=number, width=PAGE_IMAGE_WIDTH, rotation=page.rotation)
            for number, page in enumerate(reading.transcript.pages[:MAX_PAGE_IMAGES])
        ]

    has_pages = reading.media_type in {FileType.PDF, FileType.TIFF, FileType.PNG, FileType.JPEG}
    return SourceFile(reading.media_type, content, render_pages) if has_pages else None
