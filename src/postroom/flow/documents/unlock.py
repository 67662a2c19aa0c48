"""Open an encrypted PDF with the password that a person gives.

The password reaches the sandboxed child that decrypts the file, and nothing else: it is neither stored nor
logged. The decrypted copy is a blob of its own, which is read and shown in place of the original. The
original stays the content of the document and is what the archive gets.
"""

from typing import TYPE_CHECKING
from uuid import UUID

from postroom.errors import NotFound, PermanentError
from postroom.flow.documents import review
from postroom.flow.storage.blob_reading import read_blob
from postroom.model import OrganizationId, Secret
from postroom.ports import BlobStore
from postroom.store import blobs as stored
from postroom.store import document_files, documents, ledger
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry

if TYPE_CHECKING:
    from postroom.documents.sandbox.file_sandbox import FileSandbox


async def unlock(
    database: Database,
    blobs: BlobStore,
    sandbox: "FileSandbox",
    organization: OrganizationId,
    document_id: UUID,
    password: Secret,
    *,
    actor: str,
) -> None:
    """Decrypt the file of a document and queue it again. Raises PasswordRequired if the password is wrong."""
    async with database.transaction(organization) as connection:
        document = await documents.get(connection, document_id)
    if document is None:
        raise NotFound("There is no such document.")
    if not document.needs_password:
        raise PermanentError("The document does not need a password.")
    content = await read_blob(blobs, organization, document.sha256)
    decrypted = await sandbox.for_organization(organization).decrypt(content, password)
    blob = await blobs.put(organization, decrypted)
    async with database.transaction(organization) as connection:
        await stored.record(connection, organization, [blob])
        if not await document_files.store_unlocked(connection, document_id, blob.sha256):
            raise PermanentError("Another person has already entered the password of this document.")
        entry = NewLedgerEntry("DOCUMENT_UNLOCKED", "document", str(document_id), actor_id=actor)
        await ledger.append_entries(connection, organization, [entry])
        await review.retry(connection, organization, document_id, actor=actor)
