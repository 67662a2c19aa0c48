"""The work `unpack`: take in the files inside a zip file, a forwarded message or `winmail.dat`.

Each file is screened first. Uploads use `unpack_container` without the work. The part of such a file extends
the container's: "2/0" is the first file inside part 2. A sandboxed child decodes the container.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from postroom.documents.files.unpack import SkippedEntry, UnpackedFile
from postroom.documents.pipelines import Pipelines
from postroom.errors import UnreadableFile
from postroom.flow.documents import intake, screen
from postroom.flow.documents.screen import AttachmentFacts, ScreeningAction
from postroom.flow.storage.blob_reading import read_blob
from postroom.model import StepResult
from postroom.ports import Blob, BlobStore
from postroom.store import blobs as stored
from postroom.store import documents, verdicts, work
from postroom.store.database import Database
from postroom.store.documents import IncomingMessage, StoredAttachment
from postroom.store.verdicts import Verdict
from postroom.store.work import Lease

if TYPE_CHECKING:
    from postroom.documents.sandbox.file_sandbox import FileSandbox


@dataclass(frozen=True)
class UnpackContext:
    database: Database
    blobs: BlobStore
    pipelines: Pipelines
    sandbox: "FileSandbox"


@dataclass(frozen=True, slots=True)
class ScreenedFile:
    """A file from a container, its verdict, and its bytes if it is accepted."""

    part: str
    name: str
    media_type: str
    verdict: screen.ScreeningVerdict
    content: bytes | None = None


async def run(context: UnpackContext, lease: Lease) -> StepResult:
    """Unpack one container of one message. Safe to repeat after a crash: the result is the same."""
    message_id, _, part = lease.subject.partition("/")
    async with context.database.transaction(lease.organization) as connection:
        found = await documents.list_incoming_messages(connection, [int(message_id)])
    container = next((file for each in found for file in each.files if file.part == part), None)
    if container is None or container.sha256 is None:
        return StepResult()  # the message or its bytes were removed
    content = await read_blob(context.blobs, lease.organization, container.sha256)
    sandbox = context.sandbox.for_organization(lease.organization)
    inside = await unpack_container(sandbox, content, container, count_containers(found[0]))
    kept = [
        (each, await context.blobs.put(lease.organization, each.content))
        for each in inside
        if each.content is not None
    ]
    await _record_files(context, lease, found[0], inside, kept)
    return StepResult()


def count_containers(message: IncomingMessage) -> int:
    """How many attachments of a message are opened: they share what a small message may unpack to."""
    verdicts = [screen.screen_attachment(intake.to_attachment_facts(file)) for file in message.files]
    return max(1, sum(verdict.action is ScreeningAction.OPEN for verdict in verdicts))


async def unpack_container(
    sandbox: "FileSandbox", content: bytes, container: StoredAttachment, containers: int = 1
) -> list[ScreenedFile]:
    """Unpack a container and screen each file in it. A container that cannot be read is one skipped file.

    `containers`: how many its message has.
    """
    name = container.name or ("message.eml" if container.kind == "item" else "container")
    try:
        found = await sandbox.unpack(content, name, containers=containers)
    except UnreadableFile as error:
        found = [SkippedEntry(name, (), str(error))]
    return [_screen_file(f"{container.part}/{number}", each) for number, each in enumerate(found)]


def _screen_file(part: str, found: UnpackedFile | SkippedEntry) -> ScreenedFile:
    if isinstance(found, SkippedEntry):
        return ScreenedFile(
            part, found.name, "", screen.ScreeningVerdict(ScreeningAction.IGNORE, found.reason)
        )
    file = AttachmentFacts(
        "file",
        found.name,
        found.media_type,
        len(found.content),
        found.is_inline,
        found.content_id,
        screen.detect_type(found.content[: screen.HEAD_BYTES]),
    )
    verdict = screen.screen_attachment(file)
    if verdict.action is ScreeningAction.OPEN:
        # Everything that can be opened was opened before this point.
        verdict = screen.ScreeningVerdict(ScreeningAction.IGNORE, found.unsupported)
    taken = found.content if verdict.action is ScreeningAction.TAKE else None
    return ScreenedFile(
        part, found.name, intake.choose_media_type(file.detected, found.media_type), verdict, taken
    )


async def _record_files(
    context: UnpackContext,
    lease: Lease,
    message: IncomingMessage,
    inside: Sequence[ScreenedFile],
    kept: Sequence[tuple[ScreenedFile, Blob]],
) -> None:
    mail = intake.to_message_facts(message)
    taking = [each for each in context.pipelines.values() if screen.screen_message(each, mail).accepted]
    decided = [
        Verdict(message.message_id, each.part, pipeline.name, each.verdict.accepted, each.verdict.reason)
        for pipeline in taking
        for each in inside
    ]
    arrivals = [
        intake.build_arrival(
            pipeline.name,
            message,
            part=each.part,
            name=each.name,
            sha256=blob.sha256,
            media_type=each.media_type,
        )
        for pipeline in taking
        for each, blob in kept
    ]
    async with work.fenced_transaction(context.database, lease) as connection:
        await stored.record(connection, lease.organization, [blob for _, blob in kept])
        await verdicts.record_verdicts(connection, decided)
        await intake.record_arrivals(connection, lease.organization, intake.merge_arrivals(arrivals))
