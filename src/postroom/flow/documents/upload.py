"""Take in files from a person or a watched folder: screen, unpack, store and record them.

`prepare` stores the bytes; `commit` creates the documents in the caller's transaction. Folders are listed in
`watch`.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from postroom.documents.pipelines import Pipeline
from postroom.errors import PermanentError
from postroom.flow.documents import intake, screen, unpack
from postroom.flow.documents.screen import AttachmentFacts, ScreeningAction
from postroom.model import OrganizationId
from postroom.ports import Blob, BlobStore
from postroom.store import blobs as stored
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.documents import Arrival, ArrivalSource, DocumentIntake, StoredAttachment

if TYPE_CHECKING:
    from postroom.documents.sandbox.file_sandbox import FileSandbox

MAX_LISTED_REASONS: Final = 5  # of ignored files


@dataclass(frozen=True, slots=True)
class Upload:
    """An uploaded file and its sender."""

    name: str
    content: bytes
    sender: str
    source: ArrivalSource = "manual_upload"
    received_at: datetime | None = None  # default: now
    bucket_generation: str | None = None


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """An uploaded file, or one from inside it: the reason for its verdict, and its bytes if accepted."""

    name: str
    media_type: str
    reason: str
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class PreparedUpload:
    """Stored blobs, and the arrivals to commit for them."""

    blobs: Sequence[Blob]
    arrivals: Sequence[Arrival]
    left: Sequence[UploadedFile] = ()  # ignored files from inside a container


async def add(
    database: Database,
    blobs: BlobStore,
    sandbox: "FileSandbox",
    organization: OrganizationId,
    pipeline: Pipeline,
    upload: Upload,
) -> list[DocumentIntake]:
    """Take in a file, or the files inside it. Raises PermanentError if none is accepted."""
    prepared = await prepare(blobs, sandbox, organization, pipeline, upload)
    async with database.transaction(organization) as connection:
        return await commit(connection, organization, prepared)


async def prepare(
    blobs: BlobStore,
    sandbox: "FileSandbox",
    organization: OrganizationId,
    pipeline: Pipeline,
    upload: Upload,
) -> PreparedUpload:
    """Store the accepted bytes. Without a commit, garbage collection removes them."""
    found = await screen_upload(sandbox.for_organization(organization), upload)
    kept = [
        (each.name, each.media_type, await blobs.put(organization, each.content))
        for each in found
        if each.content is not None
    ]
    arrivals = [
        Arrival(
            pipelines=[pipeline.name],
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
    """Convert a file name to one line of valid text. File systems allow other bytes."""
    text = name.encode(errors="surrogateescape").decode(errors="replace")
    return "".join(" " if unicodedata.category(each) == "Cc" else each for each in text)


async def screen_upload(sandbox: "FileSandbox", upload: Upload) -> list[UploadedFile]:
    """Screen an upload and the files inside it. Raises PermanentError if none is accepted."""
    name = clean_file_name(upload.name)
    detected = screen.detect_type(upload.content[: screen.HEAD_BYTES])
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
        case ScreeningAction.IGNORE:
            raise PermanentError(f"{name} was not accepted: {verdict.reason}.")
        case ScreeningAction.OPEN:
            return await _unpack_upload(sandbox, upload, name, detected)


async def _unpack_upload(
    sandbox: "FileSandbox", upload: Upload, name: str, detected: str
) -> list[UploadedFile]:
    container = StoredAttachment("", "file", name, "", len(upload.content), False, None, None, detected)
    found = [
        UploadedFile(each.name, each.media_type, each.verdict.reason, each.content)
        for each in await unpack.unpack_container(sandbox, upload.content, container)
    ]
    if all(each.content is None for each in found):
        why = "; ".join(describe_ignored(each, within=name) for each in found[:MAX_LISTED_REASONS])
        raise PermanentError(f"{name} contains no acceptable file{': ' if why else ''}{why}")
    return found


def describe_ignored(left: UploadedFile, *, within: str) -> str:
    """Explain why a file was ignored."""
    return left.reason if left.name == within else f"{left.name}: {left.reason}"
