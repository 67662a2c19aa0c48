"""The tables `messages`, `message_contents` and `attachments`, written one page of messages at a time.

Rows are written in key order, so that two writers do not deadlock. Every writer of a mailbox's messages
(sync, lowered policy, purge) has locked the mailbox's sync work, so rows do not change between a read and
the write. The queries of pages and the API are in `views`, deletion is in `purge`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from postroom.model import MailboxId, RemoteAttachment
from postroom.store.database import Connection, prepare_mode


class StoredMessage(NamedTuple):
    """The mutable columns of a stored message, with the provider's folder id."""

    key: str
    id: int
    thread: int
    version: str
    folder: str | None
    labels: frozenset[str]
    categories: frozenset[str]
    is_read: bool
    is_flagged: bool
    is_draft: bool
    importance: str
    received_at: datetime | None
    deleted: bool
    revision: int
    content_revision: int
    left: bool  # it is in a folder that is not mirrored

    @property
    def is_mirrored(self) -> bool:
        return not (self.deleted or self.left)


class MessageUpdate(NamedTuple):
    """New values for the mutable columns of a stored message, with our folder id."""

    id: int
    version: str
    folder_id: int | None
    labels: Collection[str]
    categories: Collection[str]
    is_read: bool
    is_flagged: bool
    is_draft: bool
    importance: str
    received_at: datetime | None
    deleted: bool
    left: bool


@dataclass(frozen=True, slots=True)
class StoredContent:
    """The immutable part of a message that the policy allows to store. Recipients are JSON."""

    internet_message_id: str | None
    from_name: str | None
    from_address: str | None
    to: str
    cc: str
    bcc: str
    subject: str | None
    snippet: str | None
    sent_at: datetime | None
    size: int | None
    is_newsletter: bool
    is_automated: bool
    has_attachments: bool
    raw_sha256: bytes | None
    headers: str | None
    body_plain: str | None
    body_html: str | None
    people: str
    words: str | None
    files: str = ""  # the names of its attachments


@dataclass(frozen=True, slots=True)
class NewMessage:
    key: str
    thread: int
    version: str
    folder_id: int | None
    labels: Collection[str]
    categories: Collection[str]
    is_read: bool
    is_flagged: bool
    is_draft: bool
    importance: str
    received_at: datetime | None
    content: StoredContent


async def find_by_keys(
    connection: Connection, mailbox: MailboxId, keys: Collection[str]
) -> dict[str, StoredMessage]:
    """Stored messages with these keys, including deleted ones."""
    if not keys:
        return {}
    cursor = await connection.execute(
        """
        SELECT provider_message_id, messages.id, thread_id, coalesce(version, ''), provider_folder_id,
            labels, categories, is_read, is_flagged, is_draft, importance, received_at,
            messages.deleted_at IS NOT NULL, revision, content_revision, messages.left_at IS NOT NULL
        FROM messages LEFT JOIN folders
            ON folders.organization_id = messages.organization_id AND folders.id = folder_id
        WHERE messages.mailbox_id = %b AND provider_message_id = ANY(%b::text[])
        """,
        [mailbox, list(keys)],
        prepare=prepare_mode(keys),
    )
    return {
        row[0]: StoredMessage._make((*row[:5], frozenset(row[5]), frozenset(row[6]), *row[7:]))
        for row in await cursor.fetchall()
    }


async def add(connection: Connection, mailbox: MailboxId, rows: Sequence[NewMessage]) -> dict[str, int]:
    """Insert messages with their contents and return their ids by key.

    Their revision is that of their first event, `created`.
    """
    if not rows:
        return {}
    ordered = sorted(rows, key=lambda row: row.key)
    contents = [row.content for row in ordered]
    cursor = await connection.execute(
        _ADD,
        [
            mailbox,
            [row.key for row in ordered],
            [row.thread for row in ordered],
            *_state_columns(ordered),
            *_content_columns(contents),
        ],
    )
    ids: dict[str, int] = {row[0]: row[1] for row in await cursor.fetchall()}
    await _upsert_contents(connection, [(ids[row.key], row.content) for row in ordered])
    return ids


_ADD = """
    INSERT INTO messages (organization_id, mailbox_id, provider_message_id, thread_id, version, folder_id,
        labels, categories, is_read, is_flagged, is_draft, importance, received_at, internet_message_id,
        from_name, from_address, to_recipients, cc_recipients, bcc_recipients, subject, snippet, sent_at,
        size, is_newsletter, is_automated, has_attachments, raw_sha256, revision)
    SELECT current_organization(), %b::uuid, key, thread, version, folder,
        string_to_array(labels, E'\\n'), string_to_array(categories, E'\\n'), is_read, is_flagged, is_draft,
        importance, received_at, internet_message_id, from_name, from_address, recipients::jsonb, cc::jsonb,
        bcc::jsonb, subject, snippet, sent_at, size, newsletter, automated, attached, raw_sha256, 1
    FROM unnest(%b::text[], %b::int8[], %b::text[], %b::int8[], %b::text[], %b::text[], %b::bool[],
        %b::bool[], %b::bool[], %b::text[], %b::timestamptz[], %b::text[], %b::text[], %b::text[],
        %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::timestamptz[], %b::int8[],
        %b::bool[], %b::bool[], %b::bool[], %b::bytea[])
        AS input (key, thread, version, folder, labels, categories, is_read, is_flagged, is_draft,
            importance, received_at, internet_message_id, from_name, from_address, recipients, cc, bcc,
            subject, snippet, sent_at, size, newsletter, automated, attached, raw_sha256)
    RETURNING provider_message_id, id
"""


async def replace_contents(connection: Connection, rows: Sequence[tuple[int, StoredContent]]) -> None:
    """Replace the contents of stored messages, after a draft was edited or the policy changed."""
    if not rows:
        return
    ordered = sorted(rows, key=lambda row: row[0])
    await connection.execute(
        _REPLACE, [[id_ for id_, _ in ordered], *_content_columns([content for _, content in ordered])]
    )
    await _upsert_contents(connection, ordered)


_REPLACE = """
    UPDATE messages SET
        internet_message_id = input.internet_message_id, from_name = input.from_name,
        from_address = input.from_address, to_recipients = recipients::jsonb, cc_recipients = cc::jsonb,
        bcc_recipients = bcc::jsonb, subject = input.subject, snippet = input.snippet,
        sent_at = input.sent_at, size = input.size, is_newsletter = newsletter, is_automated = automated,
        has_attachments = attached, raw_sha256 = input.raw_sha256, updated_at = postroom_now()
    FROM unnest(%b::int8[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[],
        %b::text[], %b::text[], %b::timestamptz[], %b::int8[], %b::bool[], %b::bool[], %b::bool[],
        %b::bytea[])
        AS input (id, internet_message_id, from_name, from_address, recipients, cc, bcc, subject, snippet,
            sent_at, size, newsletter, automated, attached, raw_sha256)
    WHERE messages.id = input.id
"""


async def digest_contents(connection: Connection, ids: Collection[int]) -> dict[int, bytes]:
    """Digests of stored contents: headers, people, bodies, attachments and thread."""
    if not ids:
        return {}
    cursor = await connection.execute(
        """
        SELECT messages.id, sha256(convert_to(jsonb_build_array(thread_id, internet_message_id, from_name,
            from_address, to_recipients, cc_recipients, bcc_recipients, subject, snippet, sent_at, size,
            is_newsletter, is_automated, has_attachments, encode(raw_sha256, 'hex'), headers, body_plain,
            body_html, (
                SELECT jsonb_agg(to_jsonb(attachments) - '{provider_attachment_id,created_at}'::text[]
                    ORDER BY part)
                FROM attachments WHERE message_id = messages.id
            ))::text, 'UTF8'))
        FROM messages LEFT JOIN message_contents ON message_id = messages.id
        WHERE messages.id = ANY(%b::int8[])
        """,
        [sorted(ids)],
    )
    return dict(await cursor.fetchall())


async def raise_content_revisions(connection: Connection, ids: Collection[int]) -> dict[int, int]:
    """Count a change of these messages' contents and return the new content revisions."""
    if not ids:
        return {}
    cursor = await connection.execute(
        """
        UPDATE messages SET content_revision = content_revision + 1 WHERE id = ANY(%b::int8[])
        RETURNING id, content_revision
        """,
        [sorted(ids)],
    )
    return dict(await cursor.fetchall())


async def move_to_threads(connection: Connection, threads: Mapping[int, int]) -> None:
    """Move stored messages to their current threads. A draft may change its thread."""
    if threads:
        await connection.execute(
            """
            UPDATE messages SET thread_id = input.thread_id
            FROM unnest(%b::int8[], %b::int8[]) AS input (id, thread_id)
            WHERE messages.id = input.id AND messages.thread_id <> input.thread_id
            """,
            [list(threads), list(threads.values())],
        )


def _state_columns(rows: Sequence[NewMessage] | Sequence[MessageUpdate]) -> list[Sequence[object]]:
    return [
        [row.version for row in rows],
        [row.folder_id for row in rows],
        ["\n".join(sorted(row.labels)) for row in rows],
        ["\n".join(sorted(row.categories)) for row in rows],
        [row.is_read for row in rows],
        [row.is_flagged for row in rows],
        [row.is_draft for row in rows],
        [row.importance for row in rows],
        [row.received_at for row in rows],
    ]


def _content_columns(rows: Sequence[StoredContent]) -> list[Sequence[object]]:
    return [
        [row.internet_message_id for row in rows],
        [row.from_name for row in rows],
        [row.from_address for row in rows],
        [row.to for row in rows],
        [row.cc for row in rows],
        [row.bcc for row in rows],
        [row.subject for row in rows],
        [row.snippet for row in rows],
        [row.sent_at for row in rows],
        [row.size for row in rows],
        [row.is_newsletter for row in rows],
        [row.is_automated for row in rows],
        [row.has_attachments for row in rows],
        [row.raw_sha256 for row in rows],
    ]


async def _upsert_contents(connection: Connection, rows: Sequence[tuple[int, StoredContent]]) -> None:
    await connection.execute(
        """
        INSERT INTO message_contents (organization_id, message_id, headers, body_plain, body_html, search)
        SELECT current_organization(), id, headers::jsonb, plain, html,
            message_search(subject, people, files, words)
        FROM unnest(%b::int8[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[],
            %b::text[]) AS input (id, headers, plain, html, subject, people, files, words)
        ON CONFLICT (organization_id, message_id) DO UPDATE SET headers = excluded.headers,
            body_plain = excluded.body_plain, body_html = excluded.body_html, search = excluded.search
        """,
        [
            [id_ for id_, _ in rows],
            [content.headers for _, content in rows],
            [content.body_plain for _, content in rows],
            [content.body_html for _, content in rows],
            [content.subject for _, content in rows],
            [content.people for _, content in rows],
            [content.files for _, content in rows],
            [content.words for _, content in rows],
        ],
    )


async def update_states(connection: Connection, rows: Sequence[MessageUpdate]) -> None:
    """Write the mutable columns of messages."""
    if not rows:
        return
    ordered = sorted(rows, key=lambda row: row.id)
    await connection.execute(
        """
        UPDATE messages SET version = input.version, folder_id = input.folder,
            labels = string_to_array(input.labels, E'\\n'),
            categories = string_to_array(input.categories, E'\\n'), is_read = input.is_read,
            is_flagged = input.is_flagged, is_draft = input.is_draft, importance = input.importance,
            received_at = input.received_at, updated_at = (SELECT postroom_now()),
            deleted_at = CASE WHEN deleted THEN coalesce(deleted_at, (SELECT postroom_now())) END,
            left_at = CASE WHEN has_left THEN coalesce(left_at, (SELECT postroom_now())) END
        FROM unnest(%b::int8[], %b::text[], %b::int8[], %b::text[], %b::text[], %b::bool[], %b::bool[],
            %b::bool[], %b::text[], %b::timestamptz[], %b::bool[], %b::bool[])
            AS input (id, version, folder, labels, categories, is_read, is_flagged, is_draft, importance,
                received_at, deleted, has_left)
        WHERE messages.id = input.id
        """,
        [
            [row.id for row in ordered],
            *_state_columns(ordered),
            [row.deleted for row in ordered],
            [row.left for row in ordered],
        ],
    )


class NewAttachment(NamedTuple):
    """An attachment to write, and the hash of its bytes if they are stored."""

    message: int
    attachment: RemoteAttachment
    sha256: bytes | None


async def write_attachments(
    connection: Connection, attachments: Sequence[NewAttachment], *, replaced_messages: Collection[int]
) -> None:
    """Upsert attachments. All other attachments of `replaced_messages` are deleted.

    A stored attachment keeps its bytes if the same file could not be fetched this time: its failure is open,
    and without the digest the bytes could be removed before the retry.
    """
    rows = sorted(attachments, key=lambda row: (row.message, row.attachment.part))
    if replaced_messages:
        await connection.execute(
            """
            DELETE FROM attachments WHERE message_id = ANY(%b::int8[]) AND NOT EXISTS (
                SELECT FROM unnest(%b::int8[], %b::text[]) AS kept (message_id, part)
                WHERE kept.message_id = attachments.message_id AND kept.part = attachments.part)
            """,
            [list(replaced_messages), [row.message for row in rows], [row.attachment.part for row in rows]],
        )
    if not rows:
        return
    await connection.execute(
        """
        INSERT INTO attachments (organization_id, message_id, part, kind, provider_attachment_id, file_name,
            media_type, size, is_inline, content_id, sha256)
        SELECT current_organization(), * FROM unnest(%b::int8[], %b::text[], %b::text[], %b::text[],
            %b::text[], %b::text[], %b::int8[], %b::bool[], %b::text[], %b::bytea[])
        ON CONFLICT (organization_id, message_id, part) DO UPDATE SET kind = excluded.kind,
            provider_attachment_id = excluded.provider_attachment_id, file_name = excluded.file_name,
            media_type = excluded.media_type, size = excluded.size, is_inline = excluded.is_inline,
            content_id = excluded.content_id,
            sha256 = CASE WHEN (excluded.kind, excluded.file_name, excluded.media_type, excluded.size)
                IS NOT DISTINCT FROM
                (attachments.kind, attachments.file_name, attachments.media_type, attachments.size)
                THEN coalesce(excluded.sha256, attachments.sha256) ELSE excluded.sha256 END
        """,
        [
            [row.message for row in rows],
            [row.attachment.part for row in rows],
            [row.attachment.kind for row in rows],
            [row.attachment.provider_attachment_id for row in rows],
            [row.attachment.file_name for row in rows],
            [row.attachment.media_type for row in rows],
            [row.attachment.size for row in rows],
            [row.attachment.is_inline for row in rows],
            [row.attachment.content_id for row in rows],
            [row.sha256 for row in rows],
        ],
    )


async def list_keys_below(
    connection: Connection, mailbox: MailboxId, *, below: int | None, limit: int
) -> list[tuple[int, str]]:
    """Ids and keys of stored messages below an id, highest id first."""
    cursor = await connection.execute(
        """
        SELECT id, provider_message_id FROM messages
        WHERE mailbox_id = %(mailbox)s AND deleted_at IS NULL AND left_at IS NULL
            AND (%(below)s::int8 IS NULL OR id < %(below)s)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"mailbox": mailbox, "below": below, "limit": limit},
    )
    return await cursor.fetchall()


async def get_newest_received_at(
    connection: Connection, mailbox: MailboxId, *, before: datetime | None = None
) -> datetime | None:
    """When the newest message, or the newest before a time, was received."""
    cursor = await connection.execute(
        """
        SELECT received_at FROM messages
        WHERE mailbox_id = %b AND received_at < coalesce(%b::timestamptz, 'infinity')
        ORDER BY received_at DESC LIMIT 1
        """,
        [mailbox, before],
    )
    row = await cursor.fetchone()
    return row[0] if row else None
