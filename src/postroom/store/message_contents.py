"""Removal of what a content policy forbids: bodies, headers and attachments of messages.

Contents are written in `messages`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from postroom.model import MailboxId, RemoteAttachment
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class MailboxAttachment:
    """An attachment with what decides whether the policy `documents` stores it."""

    message_id: int
    mailbox_address: str
    sender: str
    detected: str | None  # the type that its first bytes show
    has_document: bool  # it, or a file inside, became a document
    attachment: RemoteAttachment


_ATTACHMENTS: Final = """
    SELECT attachments.message_id, mailboxes.address, coalesce(from_address, ''), detected,
        EXISTS (SELECT FROM arrivals WHERE arrivals.message_id = attachments.message_id
            AND (arrivals.part = attachments.part OR starts_with(arrivals.part, attachments.part || '/'))),
        attachments.part, kind, attachments.media_type, attachments.size, file_name, is_inline, content_id
    FROM attachments
    JOIN messages ON messages.id = attachments.message_id
    JOIN mailboxes ON mailboxes.id = messages.mailbox_id
    LEFT JOIN blobs
        ON blobs.organization_id = attachments.organization_id AND blobs.sha256 = attachments.sha256
"""


async def list_message_ids_after(
    connection: Connection, mailbox: MailboxId, message: int, *, limit: int
) -> list[int]:
    cursor = await connection.execute(
        "SELECT id FROM messages WHERE mailbox_id = %s AND id > %s ORDER BY id LIMIT %s",
        [mailbox, message, limit],
    )
    return [row[0] for row in await cursor.fetchall()]


async def strip_contents(connection: Connection, messages: Sequence[int], *, names: bool = False) -> None:
    """Remove bodies, headers and snippets. Search then covers subject, people and remaining attachments.

    With `names`, search also forgets the removed attachments of messages that have none of these.
    """
    await connection.execute(
        """
        UPDATE message_contents SET headers = NULL, body_plain = NULL, body_html = NULL,
            search = message_search(subject, concat_ws(' ', from_name, from_address, (
                SELECT string_agg(concat_ws(' ', person ->> 'name', person ->> 'address'), ' ')
                FROM jsonb_array_elements(to_recipients || cc_recipients || bcc_recipients) AS person
            )), (SELECT string_agg(file_name, ' ' ORDER BY part) FROM attachments
                 WHERE attachments.message_id = messages.id), NULL)
        FROM messages WHERE messages.id = message_id AND message_id = ANY(%b::int8[])
            AND (%s OR headers IS NOT NULL OR body_plain IS NOT NULL OR body_html IS NOT NULL
                OR ts_filter(search, '{c}') <> '')
        """,
        [messages, names],
    )
    await connection.execute(
        """
        UPDATE messages SET snippet = NULL, raw_sha256 = NULL
        WHERE id = ANY(%b::int8[]) AND (snippet IS NOT NULL OR raw_sha256 IS NOT NULL)
        """,
        [messages],
    )
    await connection.execute(
        """
        UPDATE threads SET snippet = NULL
        WHERE snippet IS NOT NULL AND id IN (SELECT thread_id FROM messages WHERE id = ANY(%b::int8[]))
        """,
        [messages],
    )


async def list_attachments(connection: Connection, messages: Sequence[int]) -> list[MailboxAttachment]:
    """The attachments of these messages."""
    cursor = await connection.execute(
        _ATTACHMENTS + "WHERE attachments.message_id = ANY(%b::int8[]) ORDER BY 1, attachments.part",
        [messages],
    )
    return [
        MailboxAttachment(*row[:5], attachment=RemoteAttachment(*row[5:])) for row in await cursor.fetchall()
    ]


async def list_attachments_after(
    connection: Connection, after: tuple[int, str], *, limit: int
) -> list[MailboxAttachment]:
    """The attachments of `documents` mailboxes whose bytes are stored, after this one."""
    cursor = await connection.execute(
        _ATTACHMENTS
        + """
        WHERE content_policy = 'documents' AND attachments.sha256 IS NOT NULL
            AND (attachments.message_id, attachments.part) > (%s, %s)
        ORDER BY attachments.message_id, attachments.part LIMIT %s
        """,
        [*after, limit],
    )
    return [
        MailboxAttachment(*row[:5], attachment=RemoteAttachment(*row[5:])) for row in await cursor.fetchall()
    ]


async def delete_attachments(connection: Connection, attachments: Sequence[tuple[int, str]]) -> None:
    if attachments:
        await connection.execute(
            """
            DELETE FROM attachments USING unnest(%b::int8[], %b::text[]) AS removed (message, part)
            WHERE message_id = removed.message AND attachments.part = removed.part
            """,
            [[message for message, _ in attachments], [part for _, part in attachments]],
        )
