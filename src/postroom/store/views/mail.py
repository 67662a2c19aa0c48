"""Queries of the API: mailboxes, folders, threads, messages, attachments, mail events. Read only.

The mail pages use them too. Their lists of threads are in `views.threads`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString
from uuid import UUID

import msgspec

from postroom.api_types import (
    AttachmentResource,
    FolderResource,
    MailboxResource,
    MailEventResource,
    MessageContentResource,
    MessageResource,
    ThreadResource,
)
from postroom.store.database import Connection
from postroom.store.estimates import estimate_rows
from postroom.store.views import fetch_all, fetch_in_order, fetch_one
from postroom.store.views.mailbox_status import RETRY_JOIN

MAX_COUNTED: Final = 10_000

_MAILBOX = (
    """
    SELECT mailboxes.id, provider, address, folder, content_policy, health, health_since, last_error,
        last_synced_at, last_notified_at, connected_at, paused_at, disconnected_at,
        CASE WHEN health <> 'active' THEN health_cause END, retry.due_at, retry.attempts
    FROM mailboxes
"""  # noqa: S608  # of literals
    + RETRY_JOIN
)
_THREAD = """
    SELECT id, mailbox_id, subject, snippet, participants, message_count, has_attachments, labels,
        first_message_at, last_message_at
    FROM threads
"""
MESSAGE = """
    SELECT id, mailbox_id, thread_id, folder_id, provider_message_id, internet_message_id, from_name,
        from_address, to_recipients, cc_recipients, bcc_recipients, subject, snippet, sent_at, received_at,
        size, labels, categories, importance, is_read, is_flagged, is_draft, is_newsletter, is_automated,
        has_attachments, created_at, updated_at, deleted_at, left_at
    FROM messages
"""
_EVENT = """
    SELECT mail_events.id, mail_events.mailbox_id, message_id, kind, from_folder_id, to_folder_id,
        labels_added, labels_removed, changed, observed_at, mail_events.revision, thread_id,
        internet_message_id, from_name, from_address, from_domain, subject, received_at, is_newsletter,
        is_automated, has_attachments
    FROM mail_events JOIN messages ON messages.id = message_id
"""
_ATTACHMENT = """
    SELECT message_id, part, kind, file_name, media_type, size, is_inline, content_id, encode(sha256, 'hex')
    FROM attachments
"""


async def list_mailboxes(connection: Connection, *, after: UUID | None, limit: int) -> list[MailboxResource]:
    return await fetch_all(
        connection,
        MailboxResource,
        _MAILBOX
        + """
        WHERE (%(after)s::uuid IS NULL OR mailboxes.id > %(after)s) ORDER BY mailboxes.id LIMIT %(limit)s
        """,
        {"after": after, "limit": limit},
    )


async def get_mailbox(connection: Connection, mailbox: UUID) -> MailboxResource | None:
    return await fetch_one(
        connection, MailboxResource, _MAILBOX + " WHERE mailboxes.id = %(id)s", {"id": mailbox}
    )


async def list_folders(
    connection: Connection, mailbox: UUID, *, after: int, limit: int
) -> list[FolderResource]:
    return await fetch_all(
        connection,
        FolderResource,
        """
        SELECT id, mailbox_id, provider_folder_id, parent_provider_id, name, role FROM folders
        WHERE mailbox_id = %(mailbox)s AND deleted_at IS NULL AND id > %(after)s ORDER BY id LIMIT %(limit)s
        """,
        {"mailbox": mailbox, "after": after, "limit": limit},
    )


async def list_threads(
    connection: Connection, mailbox: UUID, *, after: tuple[datetime | None, int] | None, limit: int
) -> list[ThreadResource]:
    return await fetch_all(
        connection,
        ThreadResource,
        _THREAD
        + """
        WHERE mailbox_id = %(mailbox)s AND message_count > 0
            AND (%(first)s OR (last_message_at, id) < (%(at)s, %(id)s)
                OR (%(at)s::timestamptz IS NULL AND (last_message_at IS NOT NULL OR id < %(id)s)))
        ORDER BY last_message_at DESC, id DESC LIMIT %(limit)s
        """,
        {"mailbox": mailbox, **_page_start(after), "limit": limit},
    )


async def get_thread(connection: Connection, thread: int) -> ThreadResource | None:
    return await fetch_one(connection, ThreadResource, _THREAD + " WHERE id = %(id)s", {"id": thread})


async def find_label(connection: Connection, mailbox: UUID, folder: int) -> str | None:
    """The Gmail label of a folder row, or None at a provider whose messages are in folders."""
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


async def list_messages(
    connection: Connection,
    mailbox: UUID,
    *,
    folder: int | None,
    after: tuple[datetime | None, int] | None,
    limit: int,
) -> list[MessageResource]:
    """Messages of a mailbox, or of one folder or label, newest first."""
    label = None if folder is None else await find_label(connection, mailbox, folder)
    values = {"mailbox": mailbox, "folder": folder, "label": label, **_page_start(after), "limit": limit}
    if label is not None:
        return await fetch_all(
            connection,
            MessageResource,
            MESSAGE
            + """
            WHERE id IN (SELECT labelled_messages(%(mailbox)s, %(label)s, %(first)s, %(at)s, %(id)s,
                %(limit)s::integer))
            ORDER BY received_at DESC, id DESC
            """,
            values,
        )
    return await fetch_all(
        connection,
        MessageResource,
        MESSAGE
        + """
        WHERE mailbox_id = %(mailbox)s AND (%(folder)s::bigint IS NULL OR folder_id = %(folder)s)
            AND (%(first)s OR (received_at, id) < (%(at)s, %(id)s)
                OR (%(at)s::timestamptz IS NULL AND (received_at IS NOT NULL OR id < %(id)s)))
        ORDER BY received_at DESC, id DESC LIMIT %(limit)s
        """,
        values,
    )


async def list_thread_messages(
    connection: Connection, thread: int, *, after: int, limit: int
) -> list[MessageResource]:
    return await fetch_all(
        connection,
        MessageResource,
        MESSAGE + " WHERE thread_id = %(thread)s AND id > %(after)s ORDER BY id LIMIT %(limit)s",
        {"thread": thread, "after": after, "limit": limit},
    )


async def list_found_messages(connection: Connection, ids: Sequence[int]) -> list[MessageResource]:
    """These messages, in this order."""
    return await fetch_in_order(connection, MessageResource, MESSAGE + " WHERE id = ANY(%(ids)s)", ids)


async def get_message(connection: Connection, message: int) -> MessageResource | None:
    return await fetch_one(connection, MessageResource, MESSAGE + " WHERE id = %(id)s", {"id": message})


async def get_content(connection: Connection, message: int) -> MessageContentResource | None:
    return await fetch_one(
        connection,
        MessageContentResource,
        "SELECT headers, body_plain, body_html FROM message_contents WHERE message_id = %(id)s",
        {"id": message},
    )


async def find_raw_digest(connection: Connection, message: int) -> bytes | None:
    """The digest of the raw message, if its bytes are stored."""
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


async def list_attachments(connection: Connection, message: int) -> list[AttachmentResource]:
    return await fetch_all(
        connection,
        AttachmentResource,
        _ATTACHMENT + " WHERE message_id = %(id)s ORDER BY part",
        {"id": message},
    )


async def get_attachment(connection: Connection, message: int, part: str) -> AttachmentResource | None:
    return await fetch_one(
        connection,
        AttachmentResource,
        _ATTACHMENT + " WHERE message_id = %(id)s AND part = %(part)s",
        {"id": message, "part": part},
    )


async def list_mail_events(
    connection: Connection, mailbox: UUID, *, below: int | None, limit: int
) -> list[MailEventResource]:
    return await fetch_all(
        connection,
        MailEventResource,
        _EVENT
        + """
        WHERE mail_events.mailbox_id = %(mailbox)s
            AND (%(below)s::bigint IS NULL OR mail_events.id < %(below)s)
        ORDER BY mail_events.id DESC LIMIT %(limit)s
        """,
        {"mailbox": mailbox, "below": below, "limit": limit},
    )


async def list_message_events(connection: Connection, message: int) -> list[MailEventResource]:
    return await fetch_all(
        connection,
        MailEventResource,
        _EVENT + " WHERE message_id = %(message)s ORDER BY mail_events.id DESC LIMIT 100",
        {"message": message},
    )


class MailboxTotals(msgspec.Struct, frozen=True):
    """Each count, and whether it is an estimate: counting more than MAX_COUNTED would read too many rows."""

    messages: tuple[int, bool]
    threads: tuple[int, bool]
    attachments: tuple[int, bool]


async def count_mailbox(connection: Connection, mailbox: UUID) -> MailboxTotals:
    return MailboxTotals(
        await _count(
            connection, "SELECT FROM messages WHERE mailbox_id = %(mailbox)s AND deleted_at IS NULL", mailbox
        ),
        await _count(
            connection, "SELECT FROM threads WHERE mailbox_id = %(mailbox)s AND message_count > 0", mailbox
        ),
        await _count(
            connection,
            """
            SELECT FROM attachments JOIN messages ON messages.id = message_id
            WHERE mailbox_id = %(mailbox)s AND deleted_at IS NULL
            """,
            mailbox,
        ),
    )


async def _count(connection: Connection, statement: LiteralString, mailbox: UUID) -> tuple[int, bool]:
    values = {"mailbox": mailbox, "limit": MAX_COUNTED + 1}
    counting = "SELECT count(*) FROM (" + statement + " LIMIT %(limit)s) AS counted"  # noqa: S608  # of literals
    cursor = await connection.execute(counting, values, prepare=False)
    row = await cursor.fetchone()
    assert row is not None, "a count has a row"
    if row[0] <= MAX_COUNTED:
        return row[0], False
    return max(await estimate_rows(connection, statement, values), row[0]), True


def _page_start(after: tuple[datetime | None, int] | None) -> dict[str, object]:
    return {"first": after is None, "at": after[0] if after else None, "id": after[1] if after else 0}
