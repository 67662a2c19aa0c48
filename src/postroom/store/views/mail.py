"""Mailboxes, folders, threads, messages, attachments and mail events, as the API shows them."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from postroom.shapes import Attachment, Content, Folder, Mailbox, MailEvent, Message, Thread
from postroom.store.database import Connection
from postroom.store.views import many, one

_MAILBOX = """
    SELECT id, provider, address, folder, content_policy, health, health_since, last_error, last_synced_at,
        last_notified_at, connected_at, paused_at, disconnected_at
    FROM mailboxes
"""
_THREAD = """
    SELECT id, mailbox_id, subject, snippet, participants, message_count, has_attachments, labels,
        first_message_at, last_message_at
    FROM threads
"""
MESSAGE = """
    SELECT id, mailbox_id, thread_id, folder_id, provider_message_id, internet_message_id, from_name,
        from_address, to_recipients, cc_recipients, bcc_recipients, subject, snippet, sent_at, received_at,
        size, labels, categories, importance, is_read, is_flagged, is_draft, is_newsletter, is_automated,
        has_attachments, created_at, updated_at, deleted_at
    FROM messages
"""
_ATTACHMENT = """
    SELECT message_id, part, kind, file_name, media_type, size, is_inline, content_id, encode(sha256, 'hex')
    FROM attachments
"""


async def mailboxes(connection: Connection, *, after: UUID | None, limit: int) -> list[Mailbox]:
    return await many(
        connection,
        Mailbox,
        _MAILBOX + " WHERE (%(after)s::uuid IS NULL OR id > %(after)s) ORDER BY id LIMIT %(limit)s",
        {"after": after, "limit": limit},
    )


async def mailbox(connection: Connection, mailbox: UUID) -> Mailbox | None:
    return await one(connection, Mailbox, _MAILBOX + " WHERE id = %(id)s", {"id": mailbox})


async def folders(connection: Connection, mailbox: UUID, *, after: int, limit: int) -> list[Folder]:
    return await many(
        connection,
        Folder,
        """
        SELECT id, mailbox_id, provider_folder_id, parent_provider_id, name, role FROM folders
        WHERE mailbox_id = %(mailbox)s AND deleted_at IS NULL AND id > %(after)s ORDER BY id LIMIT %(limit)s
        """,
        {"mailbox": mailbox, "after": after, "limit": limit},
    )


async def threads(
    connection: Connection, mailbox: UUID, *, after: tuple[datetime | None, int] | None, limit: int
) -> list[Thread]:
    return await many(
        connection,
        Thread,
        _THREAD
        + """
        WHERE mailbox_id = %(mailbox)s AND (%(first)s OR (last_message_at, id) < (%(at)s, %(id)s)
            OR (%(at)s::timestamptz IS NULL AND (last_message_at IS NOT NULL OR id < %(id)s)))
        ORDER BY last_message_at DESC, id DESC LIMIT %(limit)s
        """,
        {"mailbox": mailbox, **_below(after), "limit": limit},
    )


async def thread(connection: Connection, thread: int) -> Thread | None:
    return await one(connection, Thread, _THREAD + " WHERE id = %(id)s", {"id": thread})


async def label_of(connection: Connection, mailbox: UUID, folder: int) -> str | None:
    """The label that is meant by a folder, where mail has labels and lies in no folder."""
    cursor = await connection.execute(
        """
        SELECT provider_folder_id FROM folders WHERE id = %(folder)s AND mailbox_id = %(mailbox)s
            AND NOT EXISTS (SELECT FROM messages WHERE folder_id = %(folder)s)
            AND (SELECT folder_id IS NULL FROM messages WHERE mailbox_id = %(mailbox)s
                 ORDER BY received_at DESC, id DESC LIMIT 1)
        """,
        {"folder": folder, "mailbox": mailbox},
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def messages(
    connection: Connection,
    mailbox: UUID,
    *,
    folder: int | None,
    after: tuple[datetime | None, int] | None,
    limit: int,
) -> list[Message]:
    """The newest first: of a folder or label, or all."""
    label = None if folder is None else await label_of(connection, mailbox, folder)
    return await many(
        connection,
        Message,
        MESSAGE
        + """
        WHERE mailbox_id = %(mailbox)s AND (%(folder)s::bigint IS NULL OR folder_id = %(folder)s)
            AND (%(label)s::text IS NULL OR %(label)s = ANY(labels))
            AND (%(first)s OR (received_at, id) < (%(at)s, %(id)s)
                OR (%(at)s::timestamptz IS NULL AND (received_at IS NOT NULL OR id < %(id)s)))
        ORDER BY received_at DESC, id DESC LIMIT %(limit)s
        """,
        {
            "mailbox": mailbox,
            "folder": folder if label is None else None,
            "label": label,
            **_below(after),
            "limit": limit,
        },
    )


async def messages_of_thread(connection: Connection, thread: int, *, after: int, limit: int) -> list[Message]:
    return await many(
        connection,
        Message,
        MESSAGE + " WHERE thread_id = %(thread)s AND id > %(after)s ORDER BY id LIMIT %(limit)s",
        {"thread": thread, "after": after, "limit": limit},
    )


async def matching(connection: Connection, words: str, *, below: int | None, limit: int) -> list[Message]:
    """Messages that hold all the words, newest stored first."""
    return await many(
        connection,
        Message,
        MESSAGE
        + """
        WHERE id IN (SELECT matching_messages(websearch_to_tsquery('simple', %(words)s)))
            AND (%(below)s::bigint IS NULL OR id < %(below)s)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"words": words, "below": below, "limit": limit},
    )


async def message(connection: Connection, message: int) -> Message | None:
    return await one(connection, Message, MESSAGE + " WHERE id = %(id)s", {"id": message})


async def content(connection: Connection, message: int) -> Content | None:
    return await one(
        connection,
        Content,
        "SELECT headers, body_plain, body_html FROM message_contents WHERE message_id = %(id)s",
        {"id": message},
    )


async def raw_digest(connection: Connection, message: int) -> bytes | None:
    """The digest of the raw message, where its bytes are kept."""
    cursor = await connection.execute(
        """
        SELECT raw_sha256 FROM messages
        JOIN blobs ON blobs.organization_id = messages.organization_id AND blobs.sha256 = raw_sha256
        WHERE messages.id = %s
        """,
        [message],
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def attachments(connection: Connection, message: int) -> list[Attachment]:
    return await many(
        connection, Attachment, _ATTACHMENT + " WHERE message_id = %(id)s ORDER BY part", {"id": message}
    )


async def attachment(connection: Connection, message: int, part: str) -> Attachment | None:
    return await one(
        connection,
        Attachment,
        _ATTACHMENT + " WHERE message_id = %(id)s AND part = %(part)s",
        {"id": message, "part": part},
    )


async def mail_events(
    connection: Connection, mailbox: UUID, *, below: int | None, limit: int
) -> list[MailEvent]:
    return await many(
        connection,
        MailEvent,
        """
        SELECT id, mailbox_id, message_id, kind, from_folder_id, to_folder_id, labels_added, labels_removed,
            changed, observed_at
        FROM mail_events WHERE mailbox_id = %(mailbox)s AND (%(below)s::bigint IS NULL OR id < %(below)s)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"mailbox": mailbox, "below": below, "limit": limit},
    )


async def events_of_message(connection: Connection, message: int) -> list[MailEvent]:
    return await many(
        connection,
        MailEvent,
        """
        SELECT id, mailbox_id, message_id, kind, from_folder_id, to_folder_id, labels_added, labels_removed,
            changed, observed_at
        FROM mail_events WHERE message_id = %(message)s ORDER BY id DESC LIMIT 100
        """,
        {"message": message},
    )


async def subjects(connection: Connection, messages: Sequence[int]) -> dict[int, str | None]:
    cursor = await connection.execute(
        "SELECT id, subject FROM messages WHERE id = ANY(%b::int8[])", [list(messages)]
    )
    return dict(await cursor.fetchall())


class Stored(msgspec.Struct, frozen=True):
    """How much of a mailbox is kept."""

    messages: int
    threads: int
    attachments: int


async def stored(connection: Connection, mailbox: UUID) -> Stored:
    found = await one(
        connection,
        Stored,
        """
        SELECT (SELECT count(*) FROM messages WHERE mailbox_id = %(mailbox)s AND deleted_at IS NULL),
            (SELECT count(*) FROM threads WHERE mailbox_id = %(mailbox)s AND message_count > 0),
            (SELECT count(*) FROM attachments JOIN messages ON messages.id = message_id
             WHERE mailbox_id = %(mailbox)s AND deleted_at IS NULL)
        """,
        {"mailbox": mailbox},
    )
    assert found is not None, "counts have a row"
    return found


def _below(after: tuple[datetime | None, int] | None) -> dict[str, object]:
    return {"first": after is None, "at": after[0] if after else None, "id": after[1] if after else 0}
