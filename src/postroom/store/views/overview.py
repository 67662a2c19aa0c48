"""Queries of the overview page (figures by minute of the last hour), and of the demo page.

For the demo: the ids of all messages, which it compares with the simulator's.
"""

from dataclasses import dataclass
from typing import Final

from postroom.model import MailboxId
from postroom.store.database import Connection

MINUTES: Final = 60
# The plots read at most this many messages, however much mail there is.
MAX_PLOTTED_MESSAGES: Final = 20_000


@dataclass(frozen=True, slots=True)
class LastHour:
    """Figures per minute, oldest first. A minute without new mail has no latency."""

    messages: list[int]
    seconds: list[float | None]  # median latency from the provider to the store
    quota: list[float]  # of the mailbox nearest to its provider's limit; 1 is all
    reviews: list[int]  # open at the end of the minute
    backlog: list[int]  # unprocessed documents at the end of the minute
    median_seconds: float | None  # median latency of the hour


async def read_last_hour(connection: Connection) -> LastHour:
    cursor = await connection.execute(_LAST_HOUR, {"most": MAX_PLOTTED_MESSAGES, "minutes": MINUTES - 1})
    row = await cursor.fetchone()
    assert row is not None
    return LastHour(*row)


_LAST_HOUR = """
    WITH recent AS (
        SELECT created_at, received_at, mailbox_id FROM messages
        WHERE organization_id = current_organization() ORDER BY id DESC LIMIT %(most)s
    ), came AS (
        SELECT floor(extract(epoch FROM postroom_now() - recent.created_at) / 60)::int AS ago,
            CASE WHEN received_at > connected_at
                THEN extract(epoch FROM recent.created_at - received_at)::float8 END AS seconds
        FROM recent JOIN mailboxes ON mailboxes.id = mailbox_id
        WHERE recent.created_at > postroom_now() - interval '1 hour'
    ), counted AS (
        SELECT ago, count(*)::int AS messages, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS seconds
        FROM came GROUP BY ago
    ), used AS (
        SELECT floor(extract(epoch FROM date_trunc('minute', postroom_now()) - minute) / 60)::int AS ago,
            max(share) AS share
        FROM quota_usage WHERE minute > postroom_now() - interval '1 hour' GROUP BY 1
    ), asked AS (
        SELECT floor(extract(epoch FROM postroom_now() - created_at) / 60)::int AS ago,
            floor(extract(epoch FROM postroom_now() - decided_at) / 60)::int AS decided_ago
        FROM reviews WHERE decided_at IS NULL OR decided_at > postroom_now() - interval '1 hour'
    ), waited AS (
        SELECT minute, count(asked.ago)::int AS reviews FROM generate_series(0, %(minutes)s) AS minute
        LEFT JOIN asked ON asked.ago >= minute AND (decided_ago IS NULL OR decided_ago < minute)
        GROUP BY minute
    ), taken AS (
        SELECT floor(extract(epoch FROM postroom_now() - created_at) / 60)::int AS ago,
            CASE WHEN state NOT IN ('queued', 'processing') THEN
                floor(extract(epoch FROM postroom_now() - coalesce(
                    (SELECT min(reviews.created_at) FROM reviews WHERE document_id = documents.id),
                    state_since
                )) / 60)::int END AS read_ago
        FROM documents WHERE organization_id = current_organization() AND (
            state IN ('queued', 'processing')
            OR (state IN ('completed', 'skipped', 'needs_review', 'failed')  -- bounded by an index
                AND created_at > postroom_now() - interval '1 day'
                AND state_since > postroom_now() - interval '1 hour'))
    ), unread AS (
        SELECT minute, count(taken.ago)::int AS documents FROM generate_series(0, %(minutes)s) AS minute
        LEFT JOIN taken ON taken.ago >= minute AND (read_ago IS NULL OR read_ago < minute)
        GROUP BY minute
    )
    SELECT array_agg(coalesce(messages, 0) ORDER BY minute DESC),
        array_agg(seconds ORDER BY minute DESC),
        array_agg(coalesce(share, 0) ORDER BY minute DESC),
        array_agg(reviews ORDER BY minute DESC),
        array_agg(documents ORDER BY minute DESC),
        (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FROM came)
    FROM waited JOIN unread USING (minute)
    LEFT JOIN counted ON counted.ago = minute LEFT JOIN used ON used.ago = minute
"""


async def list_message_ids(connection: Connection, mailbox: MailboxId) -> list[tuple[str, str]]:
    """Provider id and Internet message id of each message that is not deleted."""
    cursor = await connection.execute(
        """
        SELECT provider_message_id, coalesce(internet_message_id, '') FROM messages
        WHERE mailbox_id = %s AND deleted_at IS NULL
        """,
        [mailbox],
    )
    return await cursor.fetchall()
