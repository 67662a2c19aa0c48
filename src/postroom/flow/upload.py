"""Files that come by hand or from a watched folder (D11): they take the same way as mail."""

import asyncio
from dataclasses import dataclass
from typing import Final

from postroom.documents.pipelines import Pipeline
from postroom.errors import PermanentError
from postroom.flow import intake, screen, unpack
from postroom.flow.screen import Fate, File
from postroom.model import OrganizationId
from postroom.ports import BlobStore
from postroom.store import blobs as stored
from postroom.store.database import Database
from postroom.store.documents import Arrival, Attachment, Source, Taken

UPLOADER: Final = "upload@localhost"  # the sender, where nobody is named


@dataclass(frozen=True, slots=True)
class Upload:
    """Bytes that somebody gave, and who."""

    name: str
    content: bytes
    sender: str
    source: Source = "manual_upload"


async def add(
    database: Database,
    blobs: BlobStore,
    organization: OrganizationId,
    pipeline: Pipeline,
    upload: Upload,
) -> list[Taken]:
    """The document of a file, or those of the files inside it. Raises PermanentError where there is none."""
    found = await asyncio.to_thread(files, upload)
    kept = [(name, kind, await blobs.put(organization, content)) for name, kind, content in found]
    arrivals = [
        Arrival(
            pipeline=pipeline.name,
            sha256=blob.sha256,
            media_type=kind,
            source=upload.source,
            file_name=name,
            sender=upload.sender,
        )
        for name, kind, blob in kept
    ]
    async with database.transaction(organization) as connection:
        await stored.record(connection, organization, [blob for _, _, blob in kept])
        return await intake.record(connection, organization, arrivals)


def files(upload: Upload) -> list[tuple[str, str, bytes]]:
    """Name, media type and bytes of what is to be taken in."""
    detected = screen.detected(upload.content[:1024])
    if detected == "other" and upload.name.lower().endswith(".txt"):
        return [(upload.name, "text/plain", upload.content)]
    verdict = screen.attachment(File("file", upload.name, "", len(upload.content), False, detected=detected))
    match verdict.fate:
        case Fate.TAKE:
            return [(upload.name, intake.media_type(detected, ""), upload.content)]
        case Fate.LEAVE:
            raise PermanentError(f"{upload.name} is not taken in: {verdict.reason}.")
        case Fate.OPEN:
            container = Attachment(
                "", "file", upload.name, "", len(upload.content), False, None, None, detected
            )
            inside = unpack.opened(upload.content, container)
            found = [
                (each.name, each.media_type, each.content) for each in inside if each.content is not None
            ]
            if not found:
                raise PermanentError(f"{upload.name} holds nothing that can be taken in.")
            return found
