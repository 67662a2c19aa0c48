"""The table `threads`: insert the threads of messages and recompute their totals.

The lists of threads on the mail pages are in `views.threads`.
"""

from collections.abc import Collection
from typing import NamedTuple

from postroom.model import MailboxId
from postroom.store.database import Connection, prepare_mode


class Thread(NamedTuple):
    id: int
    key: str
    is_new: bool


class ThreadTotals(NamedTuple):
    id: int
    key: str
    message_count: int


async def insert_missing_threads(
    connection: Connection, mailbox: MailboxId, keys: Collection[str]
) -> dict[str, Thread]:
    """The threads with these keys. Missing ones are inserted."""
    if not keys:
        return {}
    cursor = await connection.execute(
        """
        WITH input AS MATERIALIZED (
            SELECT key FROM unnest(%b::text[]) AS key
        ), made AS (
            INSERT INTO threads (organization_id, mailbox_id, provider_thread_id)
            SELECT current_organization(), %b, key FROM input
            ON CONFLICT DO NOTHING
            RETURNING id, provider_thread_id
        )
        SELECT id, provider_thread_id, true FROM made
        UNION ALL
        SELECT id, provider_thread_id, false FROM threads
        WHERE mailbox_id = %b AND provider_thread_id IN (SELECT key FROM input)
        """,
        [sorted(keys), mailbox, mailbox],
        prepare=prepare_mode(keys),
    )
    return {row[1]: Thread(*row) for row in await cursor.fetchall()}


async def sum_threads(connection: Connection, threads: Collection[int]) -> list[ThreadTotals]:
    """Recompute the totals of threads. Deleted messages do not count; an empty thread stays."""
    if not threads:
        return []
    cursor = await connection.execute(_SUM_THREADS, [sorted(threads)], prepare=prepare_mode(threads))
    return [ThreadTotals(*row) for row in await cursor.fetchall()]


_SUM_THREADS = """
    WITH touched AS MATERIALIZED (
        SELECT id FROM unnest(%b::int8[]) AS id
    ), live AS MATERIALIZED (
        SELECT thread_id, messages.id, subject, snippet, received_at, has_attachments, labels, from_address,
            to_recipients || cc_recipients || bcc_recipients AS recipients
        FROM messages JOIN touched ON thread_id = touched.id WHERE deleted_at IS NULL
    ), counted AS (
        SELECT thread_id, count(*)::int AS message_count, min(received_at) AS first, max(received_at) AS last,
            bool_or(has_attachments) AS has_attachments,
            (array_agg(subject ORDER BY received_at, id))[1] AS subject,
            (array_agg(snippet ORDER BY received_at DESC, id DESC))[1] AS snippet
        FROM live GROUP BY thread_id
    ), labelled AS (
        SELECT thread_id, array_agg(DISTINCT label) AS labels
        FROM live CROSS JOIN LATERAL unnest(labels) AS label GROUP BY thread_id
    ), people AS (
        SELECT thread_id, array_agg(DISTINCT address) AS participants FROM (
            SELECT thread_id, lower(from_address) AS address FROM live
            UNION ALL
            SELECT thread_id, lower(recipient ->> 'address')
            FROM live CROSS JOIN LATERAL jsonb_array_elements(recipients) AS recipient
        ) AS person WHERE address <> '' GROUP BY thread_id
    )
    UPDATE threads SET message_count = coalesce(counted.message_count, 0), subject = counted.subject,
        snippet = counted.snippet, first_message_at = counted.first, last_message_at = counted.last,
        has_attachments = coalesce(counted.has_attachments, false),
        labels = coalesce(labelled.labels, '{}'), participants = coalesce(people.participants, '{}'),
        updated_at = (SELECT postroom_now())
    FROM touched
    LEFT JOIN counted ON counted.thread_id = touched.id
    LEFT JOIN labelled ON labelled.thread_id = touched.id
    LEFT JOIN people ON people.thread_id = touched.id
    WHERE threads.id = touched.id
    RETURNING threads.id, provider_thread_id, threads.message_count
"""
