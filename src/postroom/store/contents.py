"""What is kept of messages beyond their metadata, taken away again when a content policy is lowered."""

from collections.abc import Sequence
from dataclasses import dataclass

from postroom.model import Enclosure, MailboxId
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class Held:
    """An attachment, and what may be asked about its message."""

    message: int
    internet_message_id: str | None
    from_name: str | None
    from_address: str | None
    subject: str | None
    is_newsletter: bool
    is_automated: bool
    enclosure: Enclosure


async def strip(connection: Connection, mailbox: MailboxId) -> None:
    """Remove bodies, headers and snippets; the search finds subject and people only."""
    await connection.execute(
        """
        UPDATE message_contents SET headers = NULL, body_plain = NULL, body_html = NULL,
            search = message_search(subject, concat_ws(' ', from_name, from_address, (
                SELECT string_agg(concat_ws(' ', person ->> 'name', person ->> 'address'), ' ')
                FROM jsonb_array_elements(to_recipients || cc_recipients || bcc_recipients) AS person
            )), NULL)
        FROM messages WHERE messages.id = message_id AND mailbox_id = %s
        """,
        [mailbox],
    )
    await connection.execute(
        """
        UPDATE messages SET snippet = NULL, raw_sha256 = NULL
        WHERE mailbox_id = %s AND (snippet IS NOT NULL OR raw_sha256 IS NOT NULL)
        """,
        [mailbox],
    )
    await connection.execute(
        "UPDATE threads SET snippet = NULL WHERE mailbox_id = %s AND snippet IS NOT NULL", [mailbox]
    )


async def attachments_after(
    connection: Connection, mailbox: MailboxId, message: int, part: str, *, limit: int
) -> list[Held]:
    """The attachments of a mailbox in the order of their key, from after one of them on."""
    cursor = await connection.execute(
        """
        SELECT message_id, internet_message_id, from_name, from_address, subject, is_newsletter, is_automated,
            part, kind, media_type, attachments.size, file_name, is_inline, content_id
        FROM attachments JOIN messages ON messages.organization_id = attachments.organization_id
            AND messages.id = message_id
        WHERE mailbox_id = %s AND (message_id, part) > (%s, %s)
        ORDER BY message_id, part LIMIT %s
        """,
        [mailbox, message, part, limit],
    )
    return [
        Held(row[0], row[1], row[2], row[3], row[4], row[5], row[6], Enclosure(*row[7:]))
        for row in await cursor.fetchall()
    ]


async def detach(connection: Connection, attachments: Sequence[tuple[int, str]]) -> None:
    if attachments:
        await connection.execute(
            """
            DELETE FROM attachments USING unnest(%b::int8[], %b::text[]) AS gone (message, part)
            WHERE message_id = gone.message AND attachments.part = gone.part
            """,
            [[message for message, _ in attachments], [part for _, part in attachments]],
        )
