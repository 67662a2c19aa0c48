"""The tables `documents` and `arrivals`: what pipelines took in, and from where.

queued → processing → completed | skipped | needs_review | failed. After a review, a document is completed or
skipped. Failed and skipped documents can be queued again. Also reads the messages that intake screens.
Verdicts are in `verdicts`, extracted fields in `records`, reviews in `reviews`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from psycopg.rows import class_row

from postroom.model import DocumentState
from postroom.store.database import Connection

ArrivalSource = Literal["graph_webhook", "gmail_push", "manual_upload", "poller"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One occurrence of a content, and the pipelines that accept it. A purge empties the personal fields."""

    pipelines: Sequence[str]  # in the order of their file
    sha256: bytes
    media_type: str
    source: ArrivalSource
    file_name: str | None
    sender: str | None
    received_at: datetime | None = None  # None: now
    subject: str | None = None
    message_id: int | None = None
    part: str | None = None
    provider: str | None = None
    provider_message_id: str | None = None
    bucket_generation: str | None = None
    part_of: UUID | None = None  # the document that was split


@dataclass(frozen=True, slots=True)
class StoredAttachment:
    """An attachment of a stored message. Without a digest, its bytes are not stored."""

    part: str
    kind: Literal["file", "item", "reference"]
    name: str
    media_type: str
    size: int
    is_inline: bool
    content_id: str | None
    sha256: bytes | None
    detected: str | None


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A stored message with the fields that pipelines decide by."""

    message_id: int
    provider: str
    mailbox_address: str
    provider_message_id: str
    sender: str
    subject: str | None
    received_at: datetime
    is_draft: bool
    folder_names: Sequence[str]
    folder_roles: Sequence[str]
    files: tuple[StoredAttachment, ...]


@dataclass(frozen=True, slots=True)
class DocumentIntake:
    """The document of an arrival. `is_new`: this content arrives for the first time.

    `is_unseen`: it ended without a record, and a pipeline accepts it that has not classified it.
    """

    document: UUID
    is_new: bool
    is_unseen: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    id: UUID
    pipeline: str
    sha256: bytes
    media_type: str
    kind: str | None
    state: DocumentState
    state_since: datetime
    skip_reason: str | None
    last_error: str | None
    record_id: UUID | None
    archive_path: str | None
    archived_at: datetime | None
    created_at: datetime
    archive_outdated_at: datetime | None = None
    pipelines: Sequence[str] = ()  # those that accepted it
    needs_password: bool = False
    unlocked_sha256: bytes | None = None
    part_of: UUID | None = None  # the document that was split
    part_pages: str | None = None
    assignee_id: UUID | None = None

    @property
    def readable_sha256(self) -> bytes:
        """The content to read and show: the decrypted copy of an encrypted file."""
        return self.unlocked_sha256 or self.sha256

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", DocumentState(self.state))


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """A document with one of its arrivals, for lists."""

    id: UUID
    pipeline: str
    kind: str | None
    state: DocumentState
    state_since: datetime
    reason: str | None
    file_name: str | None
    sender: str | None
    received_at: datetime | None
    record_key: str | None
    created_at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", DocumentState(self.state))


_COLUMNS = """
    id, pipeline, sha256, media_type, kind, state, state_since, skip_reason, last_error, record_id,
    archive_path, archived_at, created_at, archive_outdated_at, pipelines,
    needs_password, unlocked_sha256, part_of, part_pages, assignee_id
"""


async def list_incoming_messages(connection: Connection, messages: Collection[int]) -> list[IncomingMessage]:
    """The messages that have attachments, without deleted ones."""
    cursor = await connection.execute(
        """
        SELECT messages.id, provider, address, provider_message_id, coalesce(from_address, ''), subject,
            coalesce(received_at, messages.created_at), is_draft, places.names, places.roles
        FROM messages
        JOIN mailboxes ON mailboxes.organization_id = messages.organization_id AND mailboxes.id = mailbox_id
        CROSS JOIN LATERAL (
            SELECT coalesce(array_agg(name), '{}') AS names,
                coalesce(array_agg(role) FILTER (WHERE role IS NOT NULL), '{}') AS roles
            FROM folders WHERE folders.mailbox_id = messages.mailbox_id
                AND (folders.id = messages.folder_id OR provider_folder_id = ANY(messages.labels))
        ) AS places
        WHERE messages.id = ANY(%b::int8[]) AND messages.deleted_at IS NULL
            AND EXISTS (SELECT FROM attachments WHERE message_id = messages.id)
        ORDER BY messages.id
        """,
        [list(messages)],
    )
    rows = await cursor.fetchall()
    files = await _list_attachments(connection, [row[0] for row in rows])
    return [IncomingMessage(*row, files=tuple(files[row[0]])) for row in rows]


async def _list_attachments(
    connection: Connection, messages: Sequence[int]
) -> dict[int, list[StoredAttachment]]:
    if not messages:
        return {}
    cursor = await connection.execute(
        """
        SELECT message_id, part, kind, coalesce(file_name, ''), media_type, attachments.size, is_inline,
            content_id, attachments.sha256, detected
        FROM attachments LEFT JOIN blobs
            ON blobs.organization_id = attachments.organization_id AND blobs.sha256 = attachments.sha256
        WHERE message_id = ANY(%b::int8[]) ORDER BY message_id, part
        """,
        [list(messages)],
    )
    by_message: dict[int, list[StoredAttachment]] = {id_: [] for id_ in messages}
    for message, *fields in await cursor.fetchall():
        by_message[message].append(StoredAttachment(*fields))
    return by_message


async def add_arrivals(connection: Connection, arrivals: Sequence[Arrival]) -> list[DocumentIntake]:
    """Record arrivals and return their documents in the same order, one per content."""
    if not arrivals:
        return []
    contents: dict[bytes, list[Arrival]] = {}
    for arrival in sorted(arrivals, key=lambda each: each.sha256):
        contents.setdefault(arrival.sha256, []).append(arrival)
    accepting = {sha256: _merge_pipelines(same) for sha256, same in contents.items()}
    cursor = await connection.execute(
        """
        INSERT INTO documents (organization_id, pipeline, pipelines, sha256, media_type)
        SELECT current_organization(), split_part(pipelines, ',', 1), string_to_array(pipelines, ','), sha256,
            media_type
        FROM unnest(%b::text[], %b::bytea[], %b::text[]) AS input (pipelines, sha256, media_type)
        ON CONFLICT (organization_id, sha256) WHERE NOT is_second_copy
            DO UPDATE SET media_type = documents.media_type
        RETURNING sha256, id, xmax = 0, state, pipeline, pipelines
        """,
        [
            [",".join(names) for names in accepting.values()],
            list(contents),
            [same[0].media_type for same in contents.values()],
        ],
    )
    intakes: dict[bytes, DocumentIntake] = {}
    changes: dict[UUID, Sequence[str]] = {}
    for sha256, id_, is_new, state, pipeline, before in await cursor.fetchall():
        unseen = _find_unseen(contents[sha256], DocumentState(state), pipeline, before)
        intakes[sha256] = DocumentIntake(id_, is_new, bool(unseen))
        changed = list(dict.fromkeys([*before, *accepting[sha256]]))
        if unseen and state == DocumentState.SKIPPED:
            changed = unseen  # the others did not want it
        if changed != before:
            changes[id_] = changed
    await _set_pipelines(connection, changes)
    found = [intakes[arrival.sha256] for arrival in arrivals]
    await _insert_arrivals(connection, arrivals, [intake.document for intake in found])
    return found


def _merge_pipelines(arrivals: Sequence[Arrival]) -> list[str]:
    return list(dict.fromkeys(name for arrival in arrivals for name in arrival.pipelines))


def _find_unseen(
    arrivals: Sequence[Arrival], state: DocumentState, pipeline: str, before: Collection[str]
) -> list[str]:
    """The pipelines for which a document without a record is classified again.

    Those that accept it for the first time, and the one that a person or a folder chose for it.
    """
    if state not in {DocumentState.SKIPPED, DocumentState.FAILED}:
        return []
    return [
        name
        for name in _merge_pipelines(arrivals)
        if name not in before
        or (name != pipeline and any(each.message_id is None and name in each.pipelines for each in arrivals))
    ]


async def _set_pipelines(connection: Connection, changes: Mapping[UUID, Sequence[str]]) -> None:
    """Set the pipelines that accept documents. A skipped document moves to the first of them."""
    if changes:
        await connection.execute(
            """
            UPDATE documents SET pipelines = string_to_array(names, ','),
                pipeline = CASE WHEN state = 'skipped' THEN split_part(names, ',', 1) ELSE pipeline END
            FROM unnest(%b::uuid[], %b::text[]) AS input (document, names) WHERE id = document
            """,
            [list(changes), [",".join(names) for names in changes.values()]],
        )


async def lock_pipelines(connection: Connection, document: UUID) -> Sequence[str]:
    """The pipelines that accept the document. Arrivals wait for this transaction."""
    cursor = await connection.execute("SELECT pipelines FROM documents WHERE id = %s FOR UPDATE", [document])
    row = await cursor.fetchone()
    return row[0] if row else ()


async def assign_pipeline(connection: Connection, document: UUID, pipeline: str) -> None:
    await connection.execute("UPDATE documents SET pipeline = %s WHERE id = %s", [pipeline, document])


async def _insert_arrivals(
    connection: Connection, arrivals: Sequence[Arrival], documents: Sequence[UUID]
) -> None:
    await connection.execute(
        """
        INSERT INTO arrivals (organization_id, document_id, source, message_id, part, provider,
            provider_message_id, bucket_generation, sender, subject, file_name, received_at)
        SELECT current_organization(), document_id, source, message_id, part, provider, provider_message_id,
            generation, sender, subject, file_name, coalesce(received_at, postroom_now())
        FROM unnest(%b::uuid[], %b::text[], %b::int8[], %b::text[], %b::text[], %b::text[], %b::text[],
            %b::text[], %b::text[], %b::text[], %b::timestamptz[])
            AS input (document_id, source, message_id, part, provider, provider_message_id, generation,
                sender, subject, file_name, received_at)
        ON CONFLICT (document_id, message_id, part) DO NOTHING
        """,
        [
            list(documents),
            [arrival.source for arrival in arrivals],
            [arrival.message_id for arrival in arrivals],
            [arrival.part for arrival in arrivals],
            [arrival.provider for arrival in arrivals],
            [arrival.provider_message_id for arrival in arrivals],
            [arrival.bucket_generation for arrival in arrivals],
            [arrival.sender for arrival in arrivals],
            [arrival.subject for arrival in arrivals],
            [arrival.file_name for arrival in arrivals],
            [arrival.received_at for arrival in arrivals],
        ],
    )


async def get(connection: Connection, document: UUID) -> Document | None:
    async with connection.cursor(row_factory=class_row(Document)) as cursor:
        await cursor.execute(
            "SELECT " + _COLUMNS + " FROM documents WHERE id = %s",  # noqa: S608  # of literals
            [document],
        )
        return await cursor.fetchone()


async def lock(connection: Connection, document: UUID) -> Document | None:
    """Get a document and let no other transaction change it until the commit."""
    async with connection.cursor(row_factory=class_row(Document)) as cursor:
        await cursor.execute(
            "SELECT " + _COLUMNS + " FROM documents WHERE id = %s FOR NO KEY UPDATE",  # noqa: S608  # of literals
            [document],
        )
        return await cursor.fetchone()


async def list_by_record(connection: Connection, record: UUID) -> list[Document]:
    """The documents of a record, oldest first."""
    async with connection.cursor(row_factory=class_row(Document)) as cursor:
        await cursor.execute(
            "SELECT " + _COLUMNS + " FROM documents WHERE record_id = %s ORDER BY created_at, id",  # noqa: S608  # of literals
            [record],
        )
        return await cursor.fetchall()


async def find_by_id_prefix(connection: Connection, name: str) -> list[UUID]:
    """Up to two documents whose id starts with this prefix; two mean that it is ambiguous."""
    cursor = await connection.execute(
        "SELECT id FROM documents WHERE starts_with(id::text, lower(%s)) ORDER BY id LIMIT 2", [name]
    )
    return [row[0] for row in await cursor.fetchall()]


async def list_arrivals(connection: Connection, document: UUID) -> list[Arrival]:
    """Arrivals of a document, oldest first."""
    async with connection.cursor(row_factory=class_row(Arrival)) as cursor:
        await cursor.execute(
            """
            SELECT pipelines, sha256, media_type, source, file_name, sender, received_at, subject,
                message_id, part, provider, provider_message_id, bucket_generation
            FROM arrivals JOIN documents ON documents.id = document_id
            WHERE document_id = %s ORDER BY arrivals.id
            """,
            [document],
        )
        return await cursor.fetchall()


async def change_state(
    connection: Connection,
    document: UUID,
    *,
    among: Collection[DocumentState],
    to: DocumentState,
    kind: str | None = None,
    skip_reason: str | None = None,
    error: str | None = None,
    record: UUID | None = None,
) -> Document | None:
    """Change the state if it is one of `among`. None if it is not."""
    async with connection.cursor(row_factory=class_row(Document)) as cursor:
        await cursor.execute(
            """
            UPDATE documents SET state = %(to)s, state_since = postroom_now(), skip_reason = %(skip_reason)s,
                last_error = %(error)s, record_id = coalesce(%(record)s, record_id),
                kind = coalesce(%(kind)s, kind)
            WHERE id = %(document)s AND state = ANY(%(among)s)
            RETURNING """  # noqa: S608  # of literals
            + _COLUMNS,
            {
                "document": document,
                "among": [state.value for state in among],
                "to": to.value,
                "kind": kind,
                "skip_reason": skip_reason,
                "error": error,
                "record": record,
            },
        )
        return await cursor.fetchone()


async def list_summaries(connection: Connection, ids: Sequence[UUID]) -> list[DocumentSummary]:
    """These documents, in this order."""
    async with connection.cursor(row_factory=class_row(DocumentSummary)) as cursor:
        await cursor.execute(
            """
            SELECT documents.id, documents.pipeline, documents.kind, documents.state, state_since,
                coalesce(skip_reason, last_error, reviews.reason) AS reason,
                newest.file_name, newest.sender, newest.received_at,
                CASE WHEN documents.state = 'completed' THEN records.key END AS record_key,
                documents.created_at
            FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS listed (id, place)
            JOIN documents ON documents.id = listed.id
            LEFT JOIN records ON records.id = record_id
            LEFT JOIN reviews ON reviews.document_id = documents.id AND decision IS NULL
            LEFT JOIN LATERAL (
                SELECT file_name, sender, received_at FROM arrivals
                WHERE document_id = documents.id ORDER BY arrivals.id DESC LIMIT 1
            ) AS newest ON true
            ORDER BY place
            """,
            {"ids": ids},
        )
        return await cursor.fetchall()


async def list_by_message(connection: Connection, message_id: int) -> list[DocumentSummary]:
    """Documents that came from a message."""
    async with connection.cursor(row_factory=class_row(DocumentSummary)) as cursor:
        await cursor.execute(
            """
            SELECT documents.id, documents.pipeline, documents.kind, state, state_since,
                coalesce(skip_reason, last_error) AS reason, arrivals.file_name, arrivals.sender,
                arrivals.received_at, NULL AS record_key, documents.created_at
            FROM arrivals JOIN documents ON documents.id = document_id
            WHERE message_id = %s ORDER BY arrivals.id
            """,
            [message_id],
        )
        return await cursor.fetchall()


async def count_by_state(connection: Connection) -> dict[DocumentState, int]:
    """Count the documents in each state."""
    cursor = await connection.execute("SELECT state, count(*) FROM documents GROUP BY state")
    return {DocumentState(state): count for state, count in await cursor.fetchall()}


async def set_assignee(connection: Connection, document: UUID, assignee: UUID | None) -> None:
    """Set the member who is to review the document."""
    await connection.execute("UPDATE documents SET assignee_id = %s WHERE id = %s", [assignee, document])
