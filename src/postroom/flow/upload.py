"""Files that come by hand or from a watched folder (D11): they take the same way as mail."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from postroom.documents.pipelines import Pipeline
from postroom.errors import PermanentError
from postroom.flow import intake, screen, unpack
from postroom.flow.screen import Fate, File
from postroom.model import OrganizationId
from postroom.ports import Blob, BlobStore
from postroom.store import blobs as stored
from postroom.store.database import Connection, Database
from postroom.store.documents import Arrival, Attachment, Source, Taken

UPLOADER: Final = "upload@localhost"  # the sender, where nobody is named


@dataclass(frozen=True, slots=True)
class Upload:
    """Bytes that somebody gave, and who."""

    name: str
    content: bytes
    sender: str
    source: Source = "manual_upload"
    received_at: datetime | None = None  # now, where nothing else is known
    bucket_generation: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """Bytes that are stored, and what is to be committed about them."""

    blobs: Sequence[Blob]
    arrivals: Sequence[Arrival]


async def add(
    database: Database,
    blobs: BlobStore,
    organization: OrganizationId,
    pipeline: Pipeline,
    upload: Upload,
) -> list[Taken]:
    """The document of a file, or those of the files inside it. Raises PermanentError where there is none."""
    prepared = await prepare(blobs, organization, pipeline, upload)
    async with database.transaction(organization) as connection:
        return await commit(connection, organization, prepared)


async def prepare(
    blobs: BlobStore, organization: OrganizationId, pipeline: Pipeline, upload: Upload
) -> Prepared:
    """Store what is to be taken in. Without the commit it is nothing, and collected later."""
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
            received_at=upload.received_at,
            bucket_generation=upload.bucket_generation,
        )
        for name, kind, blob in kept
    ]
    return Prepared([blob for _, _, blob in kept], arrivals)


async def commit(connection: Connection, organization: OrganizationId, prepared: Prepared) -> list[Taken]:
    await stored.record(connection, organization, prepared.blobs)
    return await intake.record(connection, organization, prepared.arrivals)


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
