"""What the pages of documents share: their collaborators, and the lookup of the document in the URL."""

from dataclasses import dataclass
from uuid import UUID

from starlette.exceptions import HTTPException

from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.flow.documents.value_checks import ReviewContext
from postroom.ports import BlobStore
from postroom.store import documents
from postroom.store.connection import Connection
from postroom.store.documents import Document
from postroom.web.sessions import SiteContext


@dataclass(frozen=True)
class DocumentPagesContext:
    """Collaborators of the document pages."""

    site: SiteContext
    blobs: BlobStore
    sandbox: FileSandbox
    review: ReviewContext


async def get_document(connection: Connection, document: UUID) -> Document:
    """The document of the organization with this id; 404 if there is none."""
    found = await documents.get(connection, document)
    if found is None:
        raise HTTPException(404)
    return found


def parse_uuid(text: str | None) -> UUID | None:
    """An id in a URL or a form; None for anything else."""
    try:
        return UUID(text or "")
    except ValueError:
        return None
