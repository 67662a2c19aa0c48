"""Taking in (D3): stored mail becomes documents, in the transaction that stores it.

One document for the same bytes in a pipeline, however often they arrive; every arrival noted; what was left,
with its reason. Containers (forwarded messages, zip files) are opened later, as work of their own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.flow import screen
from postroom.flow.screen import Fate, File, Mail
from postroom.model import OrganizationId, ProviderName
from postroom.store import documents, feed, ledger, work
from postroom.store.database import Connection
from postroom.store.documents import Arrival, Source, Taken, Verdict
from postroom.store.feed import News
from postroom.store.ledger import Entry
from postroom.store.work import Wake

PROCESS: Final = "document"  # the work of reading a document; its subject is the document's id
UNPACK: Final = "unpack"  # the work of opening a container; its subject is message and part
SOURCES: Final[dict[ProviderName, Source]] = {
    ProviderName.GMAIL: "gmail_push",
    ProviderName.OUTLOOK: "graph_webhook",
}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An attachment of a stored message. Without a digest its bytes are not kept and cannot be taken."""

    part: str
    kind: Literal["file", "item", "reference"]
    name: str
    media_type: str
    size: int
    is_inline: bool
    content_id: str | None
    sha256: bytes | None
    head: bytes | None = None

    def described(self) -> File:
        return File(
            self.kind, self.name, self.media_type, self.size, self.is_inline, self.content_id, self.head
        )


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message whose row stands in this transaction, with what pipelines ask about."""

    message_id: int
    provider: ProviderName
    provider_message_id: str
    subject: str | None
    received_at: datetime
    mail: Mail
    files: tuple[StoredFile, ...]


def wanted(pipelines: Pipelines, mail: Mail, file: File) -> bool:
    """Whether any pipeline would take or open this attachment: what the policy `documents` keeps."""
    return screen.attachment(file).accepted and any(
        screen.mail(each, mail).accepted for each in pipelines.values()
    )


async def take_in(
    connection: Connection, organization: OrganizationId, pipelines: Pipelines, incoming: Sequence[Incoming]
) -> None:
    """Screen messages and take in what their pipelines want. Harmless to repeat."""
    decided = [each for message in incoming for each in _screened(pipelines, message)]
    await documents.decide(connection, [each.verdict for each in decided])
    await record(connection, organization, [each.arrival for each in decided if each.arrival])
    opened = {f"{each.verdict.message_id}/{each.verdict.part}" for each in decided if each.opens}
    await work.wake(connection, [Wake(organization, UNPACK, subject) for subject in sorted(opened)])


async def record(
    connection: Connection, organization: OrganizationId, arrivals: Sequence[Arrival]
) -> list[Taken]:
    """Documents for arrivals, the new ones due to be read: one way for mail, upload and folder."""
    taken = await documents.take(connection, arrivals)
    new = {each.document: arrival for each, arrival in zip(taken, arrivals, strict=True) if each.is_new}
    await work.wake(connection, [Wake(organization, PROCESS, str(document)) for document in new])
    await feed.tell_all(connection, [_news(document, arrival) for document, arrival in new.items()])
    await ledger.append(
        connection, organization, [_entry(document, arrival) for document, arrival in new.items()]
    )
    return taken


@dataclass(frozen=True, slots=True)
class _Decided:
    verdict: Verdict
    arrival: Arrival | None = None
    opens: bool = False


def _screened(pipelines: Pipelines, message: Incoming) -> Iterator[_Decided]:
    for pipeline in pipelines.values():
        overall = screen.mail(pipeline, message.mail)
        yield _Decided(Verdict(message.message_id, "", pipeline.name, overall.accepted, overall.reason))
        if overall.accepted:
            for file in message.files:
                yield _decide(pipeline, message, file)


def _decide(pipeline: Pipeline, message: Incoming, file: StoredFile) -> _Decided:
    found = screen.attachment(file.described())
    if found.accepted and file.sha256 is None:
        found = screen.Verdict(Fate.LEAVE, "its bytes are not kept under the mailbox's content policy")
    verdict = Verdict(message.message_id, file.part, pipeline.name, found.accepted, found.reason)
    if found.fate is Fate.TAKE and file.sha256 is not None:
        return _Decided(verdict, arrival_of(pipeline.name, message, file, file.sha256))
    return _Decided(verdict, opens=found.fate is Fate.OPEN)


def arrival_of(pipeline: str, message: Incoming, file: StoredFile, sha256: bytes) -> Arrival:
    return Arrival(
        pipeline=pipeline,
        sha256=sha256,
        media_type=file.media_type,
        source=SOURCES[message.provider],
        file_name=file.name,
        sender=message.mail.sender,
        received_at=message.received_at,
        subject=message.subject,
        message_id=message.message_id,
        part=file.part,
        provider=message.provider,
        provider_message_id=message.provider_message_id,
    )


def _news(document: UUID, arrival: Arrival) -> News:
    return News(
        "document.created", "document", str(document), {"state": "queued", "pipeline": arrival.pipeline}
    )


def _entry(document: UUID, arrival: Arrival) -> Entry:
    return Entry(
        "DOCUMENT_TAKEN_IN",
        "document",
        str(document),
        payload={
            "pipeline": arrival.pipeline,
            "source": arrival.source,
            "message_id": arrival.message_id,
            "part": arrival.part,
            "sha256": arrival.sha256.hex(),
        },
        personal={"sender": arrival.sender, "file_name": arrival.file_name},
    )
