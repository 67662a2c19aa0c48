"""Queries of the mail pages: threads of a mailbox, folder or label, and their messages.

Those of the API are in `views.mail`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from postroom.api_types import MessageResource
from postroom.store.database import Connection
from postroom.store.views import fetch_all, fetch_one
from postroom.store.views.mail import MESSAGE, find_label

# A page scans at most this many messages, even for a rare label.
MAX_SCANNED_MESSAGES: Final = 20_000
# A thread in a list names at most this many senders.
MAX_NAMED_SENDERS: Final = 4

# Time and id of the last message of a page. The next page starts below.
MessagePosition = tuple[datetime, int]


class ThreadSummary(msgspec.Struct, frozen=True):
    """A thread in a list. `newest` is its newest message in the mailbox, folder or label."""

    id: int
    subject: str | None
    message_count: int
    has_attachments: bool
    newest: int
    newest_at: datetime
    people: list[str] | None


class _PageEnd(msgspec.Struct, frozen=True):
    received_at: datetime
    id: int


async def list_page(
    connection: Connection,
    mailbox: UUID,
    *,
    folder: int | None,
    below: MessagePosition | None,
    limit: int,
) -> tuple[list[ThreadSummary], MessagePosition | None]:
    """A page of threads, newest mail first, and the position where it ends. Ignores deleted messages."""
    label = None if folder is None else await find_label(connection, mailbox, folder)
    values: dict[str, object] = {
        "mailbox": mailbox,
        "folder": folder if label is None else None,
        "label": label,
        "at": below[0] if below else None,
        "id": below[1] if below else 0,
        "walked": MAX_SCANNED_MESSAGES,
        "named": MAX_NAMED_SENDERS,
    }
    summaries = await fetch_all(
        connection, ThreadSummary, _LIST_THREADS, values | {"limit": limit + 1}, prepare=False
    )
    if len(summaries) > limit:
        last = summaries[limit - 1]
        return summaries[:limit], (last.newest_at, last.newest)
    end = await fetch_one(connection, _PageEnd, _SELECT_PAGE_END, values, prepare=False)
    return summaries, (end.received_at, end.id) if end else None


# Scans messages from the newest and skips those whose thread has a newer one, which was listed already. So
# the cost of a page depends on its own size, however much mail there is.
_SCAN_MESSAGES: Final = """
    SELECT thread_id, id, received_at, labels, deleted_at FROM messages
    WHERE mailbox_id = %(mailbox)s AND (%(folder)s::bigint IS NULL OR folder_id = %(folder)s)
        AND (received_at, id) < (coalesce(%(at)s::timestamptz, 'infinity'), %(id)s)
    ORDER BY received_at DESC, id DESC
"""
_LIST_THREADS: Final = (
    "WITH newest AS MATERIALIZED (SELECT thread_id, id, received_at FROM ("  # noqa: S608  # of literals
    + _SCAN_MESSAGES
    + """
        LIMIT %(walked)s) AS walked
        WHERE deleted_at IS NULL AND (%(label)s::text IS NULL OR %(label)s = ANY(labels)) AND NOT EXISTS (
            SELECT FROM messages AS newer
            WHERE newer.thread_id = walked.thread_id AND newer.deleted_at IS NULL
                AND (%(folder)s::bigint IS NULL OR newer.folder_id = %(folder)s)
                AND (%(label)s::text IS NULL OR %(label)s = ANY(newer.labels))
                AND (newer.received_at, newer.id) > (walked.received_at, walked.id)
            OFFSET 0  -- one index lookup per message: no plan that reads all messages first
        )
        ORDER BY received_at DESC, id DESC LIMIT %(limit)s
    )
    SELECT threads.id, subject, message_count, has_attachments, newest.id, newest.received_at, people.names
    FROM newest JOIN threads ON threads.id = thread_id
    CROSS JOIN LATERAL (
        SELECT array_agg(name ORDER BY since) AS names FROM (
            SELECT coalesce(nullif(from_name, ''), from_address) AS name, min(received_at) AS since
            FROM messages WHERE thread_id = threads.id AND deleted_at IS NULL GROUP BY 1
            ORDER BY since LIMIT %(named)s
        ) AS senders WHERE name <> ''
    ) AS people
    ORDER BY newest.received_at DESC, newest.id DESC
    """
)
_SELECT_PAGE_END: Final = (
    "SELECT received_at, id FROM (" + _SCAN_MESSAGES + " OFFSET %(walked)s - 1 LIMIT 1) AS last"  # noqa: S608  # of literals
)


async def list_messages(
    connection: Connection, thread: int, *, below: MessagePosition | None, limit: int
) -> list[MessageResource]:
    """The newest messages of a thread below a position, oldest first."""
    newest_first = await fetch_all(
        connection,
        MessageResource,
        MESSAGE
        + """
        WHERE thread_id = %(thread)s
            AND (%(at)s::timestamptz IS NULL OR (received_at, id) < (%(at)s, %(id)s))
        ORDER BY received_at DESC, id DESC LIMIT %(limit)s
        """,
        {
            "thread": thread,
            "at": below[0] if below else None,
            "id": below[1] if below else 0,
            "limit": limit,
        },
    )
    return newest_first[::-1]


async def find_messages_with_text(connection: Connection, messages: Sequence[int]) -> frozenset[int]:
    """The messages among these whose text is stored."""
    cursor = await connection.execute(
        """
        SELECT message_id FROM message_contents
        WHERE message_id = ANY(%b::int8[]) AND (body_html IS NOT NULL OR body_plain IS NOT NULL)
        """,
        [list(messages)],
    )
    return frozenset(row[0] for row in await cursor.fetchall())
