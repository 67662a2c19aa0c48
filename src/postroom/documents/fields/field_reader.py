"""FieldReader, the protocol of `offline_reader` and `llm_reader`, and SourceFile, which a reader gets."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from postroom.documents.fields.extraction_result import FieldExtraction
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds.document_kind import DocumentKind


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The file behind a reading, and its pages as WebP, for readers that look at images."""

    media_type: str
    content: bytes
    pages: Callable[[], Awaitable[Sequence[bytes]]] | None = None


class FieldReader(Protocol):
    """Reads the fields of a document kind, offline or with a language model."""

    async def read(
        self, reading: FileReading, kind: DocumentKind, file: SourceFile | None
    ) -> FieldExtraction: ...
