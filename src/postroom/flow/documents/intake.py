"""Intake: create documents from the attachments of stored messages, and record arrivals.

It runs in the transaction that stores the messages. `record_arrivals` also serves uploads and watched
folders. The same bytes make one document, however often they arrive and however many pipelines accept them;
`process` chooses the pipeline. Every arrival is recorded, and every ignored attachment with its reason. The
rules are in `screen`; containers are opened later, as work `unpack`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.flow.documents import review, route, screen
from postroom.flow.documents.screen import AttachmentFacts, MessageFacts, ScreeningAction
from postroom.model import FolderRole, OrganizationId, ProviderName, WorkKind
from postroom.store import documents, feed, ledger, verdicts, work
from postroom.store.connection import Connection
from postroom.store.documents import (
    Arrival,
    ArrivalSource,
    DocumentIntake,
    IncomingMessage,
    StoredAttachment,
)
from postroom.store.feed import NewEvent
from postroom.store.ledger import NewLedgerEntry
from postroom.store.verdicts import Verdict
from postroom.store.work import WorkRequest

SOURCES: Final[dict[ProviderName, ArrivalSource]] = {
    ProviderName.GMAIL: "gmail_push",
    ProviderName.OUTLOOK: "graph_webhook",
}
MEDIA_TYPES: Final = {
    "pdf": "application/pdf",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "tiff": "image/tiff",
    "xml": "application/xml",
}


async def take_in(
    pipelines: Pipelines, connection: Connection, organization: OrganizationId, messages: Sequence[int]
) -> None:
    """Screen stored messages and take in what pipelines accept. Safe to repeat."""
    incoming = await documents.list_incoming_messages(connection, messages)
    decided = [each for message in incoming for each in _screen_message(pipelines, message)]
    await verdicts.record_verdicts(connection, [each.verdict for each in decided])
    await record_arrivals(
        connection, organization, merge_arrivals([each.arrival for each in decided if each.arrival])
    )
    opened = {f"{each.verdict.message_id}/{each.verdict.part}" for each in decided if each.opens}
    await work.enqueue(
        connection, [WorkRequest(organization, WorkKind.UNPACK, subject) for subject in sorted(opened)]
    )
    await work.enqueue(connection, _list_shared_state_requests(pipelines, organization, decided))


async def record_arrivals(
    connection: Connection, organization: OrganizationId, arrivals: Sequence[Arrival]
) -> list[DocumentIntake]:
    """Create documents for arrivals and enqueue the new ones. Shared by mail, uploads and folders.

    A document that other pipelines skipped is retried for those that have not seen it.
    """
    taken = await documents.add_arrivals(connection, arrivals)
    for document in sorted({each.document for each in taken if each.is_unseen}):
        await review.retry(connection, organization, document, actor=route.MACHINE)
    new = {each.document: arrival for each, arrival in zip(taken, arrivals, strict=True) if each.is_new}
    await work.enqueue(
        connection, [WorkRequest(organization, WorkKind.PROCESS_DOCUMENT, str(document)) for document in new]
    )
    await feed.append_events(
        connection, [_build_event(document, arrival) for document, arrival in new.items()]
    )
    await ledger.append_entries(
        connection, organization, [_build_entry(document, arrival) for document, arrival in new.items()]
    )
    return taken


def merge_arrivals(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Merge what several pipelines accepted: one arrival for each file of a message."""
    files: dict[tuple[int | None, str | None], list[Arrival]] = {}
    for arrival in arrivals:
        files.setdefault((arrival.message_id, arrival.part), []).append(arrival)
    return [
        replace(same[0], pipelines=[name for each in same for name in each.pipelines])
        for same in files.values()
    ]


def _list_shared_state_requests(
    pipelines: Pipelines, organization: OrganizationId, decided: Sequence["_ScreeningResult"]
) -> list[WorkRequest]:
    """List the accepted messages whose pipeline shares its state with another scheduler."""
    return [
        WorkRequest(organization, WorkKind.SHARE_STATE, f"{each.verdict.pipeline}/{each.verdict.message_id}")
        for each in decided
        if each.verdict.part == ""
        and each.verdict.accepted
        and pipelines[each.verdict.pipeline].shared_state is not None
    ]


@dataclass(frozen=True, slots=True)
class _ScreeningResult:
    verdict: Verdict
    arrival: Arrival | None = None
    opens: bool = False


def _screen_message(pipelines: Pipelines, message: IncomingMessage) -> Iterator[_ScreeningResult]:
    mail = to_message_facts(message)
    for pipeline in pipelines.values():
        overall = screen.screen_message(pipeline, mail)
        yield _ScreeningResult(
            Verdict(message.message_id, "", pipeline.name, overall.accepted, overall.reason)
        )
        if overall.accepted:
            for file in message.files:
                yield _screen_file(pipeline, message, file)


def to_message_facts(message: IncomingMessage) -> MessageFacts:
    return MessageFacts(
        mailbox=message.mailbox_address,
        sender=message.sender,
        folder_names=tuple(message.folder_names),
        folder_roles=frozenset(FolderRole(role) for role in message.folder_roles),
        is_draft=message.is_draft,
        attachments=len(message.files),
    )


def to_attachment_facts(file: StoredAttachment) -> AttachmentFacts:
    return AttachmentFacts(
        file.kind, file.name, file.media_type, file.size, file.is_inline, file.content_id, file.detected
    )


def _screen_file(pipeline: Pipeline, message: IncomingMessage, file: StoredAttachment) -> _ScreeningResult:
    found = screen.screen_attachment(to_attachment_facts(file))
    if found.accepted and file.sha256 is None:
        found = screen.ScreeningVerdict(
            ScreeningAction.IGNORE, "the mailbox's content policy does not store its bytes"
        )
    verdict = Verdict(message.message_id, file.part, pipeline.name, found.accepted, found.reason)
    if found.action is ScreeningAction.TAKE and file.sha256 is not None:
        arrival = build_arrival(
            pipeline.name,
            message,
            part=file.part,
            name=file.name,
            sha256=file.sha256,
            media_type=choose_media_type(file.detected, file.media_type),
        )
        return _ScreeningResult(verdict, arrival)
    return _ScreeningResult(verdict, opens=found.action is ScreeningAction.OPEN)


def choose_media_type(detected: str | None, declared: str) -> str:
    """Prefer the type that the bytes show to the declared one."""
    return MEDIA_TYPES.get(detected or "", declared)


def build_arrival(
    pipeline: str, message: IncomingMessage, *, part: str, name: str, sha256: bytes, media_type: str
) -> Arrival:
    """Build the arrival of a file that came with a message, directly or inside an attachment."""
    return Arrival(
        pipelines=[pipeline],
        sha256=sha256,
        media_type=media_type,
        source=SOURCES[ProviderName(message.provider)],
        file_name=name,
        sender=message.sender,
        received_at=message.received_at,
        subject=message.subject,
        message_id=message.message_id,
        part=part,
        provider=message.provider,
        provider_message_id=message.provider_message_id,
    )


def _build_event(document: UUID, arrival: Arrival) -> NewEvent:
    data = {"state": "queued", "pipeline": arrival.pipelines[0]}
    data |= {"part_of": str(arrival.part_of)} if arrival.part_of else {}
    return NewEvent("document.created", "document", str(document), data)


def _build_entry(document: UUID, arrival: Arrival) -> NewLedgerEntry:
    return NewLedgerEntry(
        "DOCUMENT_TAKEN_IN",
        "document",
        str(document),
        payload={
            "pipelines": list(arrival.pipelines),
            "source": arrival.source,
            "message_id": arrival.message_id,
            "part": arrival.part,
            "sha256": arrival.sha256.hex(),
        }
        | ({"part_of": str(arrival.part_of)} if arrival.part_of else {}),
        personal={"sender": arrival.sender, "file_name": arrival.file_name},
    )
