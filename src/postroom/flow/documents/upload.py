"""Files that come by hand or from a watched folder (D11): they take the same way as mail."""

import asyncio
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from postroom.documents.pipelines import Pipeline
from postroom.errors import PermanentError
from postroom.flow.documents import intake, screen, unpack
from postroom.flow.documents.screen import AttachmentFacts, ScreeningAction
from postroom.model import OrganizationId
from postroom.ports import Blob, BlobStore
from postroom.store import blobs as stored
from postroom.store.database import Connection, Database
from postroom.store.documents import Arrival, ArrivalSource, DocumentIntake, StoredAttachment

MAX_LISTED_REASONS: Final = 5  # of files that are left out
UPLOADER: Final = "upload@localhost"  # the sender, where nobody is named


@dataclass(frozen=True, slots=True)
class Upload:
    """Bytes that somebody gave, and who."""

    name: str
    content: bytes
    sender: str
    source: ArrivalSource = "manual_upload"
    received_at: datetime | None = None  # now, where nothing else is known
    bucket_generation: str | None = None


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that was given, or was inside one: what becomes of it, and its bytes where they are taken."""

    name: str
    media_type: str
    reason: str
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class PreparedUpload:
    """Bytes that are stored, and what is to be committed about them."""

    blobs: Sequence[Blob]
    arrivals: Sequence[Arrival]
    left: Sequence[UploadedFile] = ()  # what was inside and is not taken in


async def add(
    database: Database,
    blobs: BlobStore,
    organization: OrganizationId,
    pipeline: Pipeline,
    upload: Upload,
) -> list[DocumentIntake]:
    """The document of a file, or those of the files inside it. Raises PermanentError where there is none."""
    prepared = await prepare(blobs, organization, pipeline, upload)
    async with database.transaction(organization) as connection:
        return await commit(connection, organization, prepared)


async def prepare(
    blobs: BlobStore, organization: OrganizationId, pipeline: Pipeline, upload: Upload
) -> PreparedUpload:
    """Store what is to be taken in. Without the commit it is nothing, and collected later."""
    found = await asyncio.to_thread(screen_upload, upload)
    kept = [
        (each.name, each.media_type, await blobs.put(organization, each.content))
        for each in found
        if each.content is not None
    ]
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
    left = [each for each in found if each.content is None]
    return PreparedUpload([blob for _, _, blob in kept], arrivals, left)


async def commit(
    connection: Connection, organization: OrganizationId, prepared: PreparedUpload
) -> list[DocumentIntake]:
    await stored.record(connection, organization, prepared.blobs)
    return await intake.record_arrivals(connection, organization, prepared.arrivals)


def clean_file_name(name: str) -> str:
    """A file's name as it is kept: text, on one line. Disks allow other bytes in it."""
    text = name.encode(errors="surrogateescape").decode(errors="replace")
    return "".join(" " if unicodedata.category(each) == "Cc" else each for each in text)


def screen_upload(upload: Upload) -> list[UploadedFile]:
    """What is to be taken in, and what is left out of a container. Raises where nothing is taken."""
    name = clean_file_name(upload.name)
    detected = screen.detect_type(upload.content[:1024])
    if detected == "other" and name.lower().endswith(".txt"):
        return [UploadedFile(name, "text/plain", "it is text", upload.content)]
    verdict = screen.screen_attachment(
        AttachmentFacts("file", name, "", len(upload.content), False, detected=detected)
    )
    match verdict.action:
        case ScreeningAction.TAKE:
            return [
                UploadedFile(name, intake.choose_media_type(detected, ""), verdict.reason, upload.content)
            ]
        case ScreeningAction.LEAVE:
            raise PermanentError(f"{name} is not taken in: {verdict.reason}.")
        case ScreeningAction.OPEN:
            return _unpack_upload(upload, name, detected)


def _unpack_upload(upload: Upload, name: str, detected: str) -> list[UploadedFile]:
    container = StoredAttachment("", "file", name, "", len(upload.content), False, None, None, detected)
    found = [
        UploadedFile(each.name, each.media_type, each.verdict.reason, each.content)
        for each in unpack.unpack_container(upload.content, container)
    ]
    if all(each.content is None for each in found):
        why = "; ".join(describe_ignored(each, within=name) for each in found[:MAX_LISTED_REASONS])
        raise PermanentError(f"{name} holds nothing that can be taken in{': ' if why else ''}{why}")
    return found


def describe_ignored(left: UploadedFile, *, within: str) -> str:
    """Why a file is left out, in words."""
    return left.reason if left.name == within else f"{left.name}: {left.reason}"
