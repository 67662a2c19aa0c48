"""How far the current sync of a mailbox is, and totals of its completed syncs. Reads only."""

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from postroom.model import MailboxId
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """`settled`: nothing is due or running. `listed` of `expected` messages were listed.

    `seconds_left` is how long the rest takes at the pace so far.
    """

    settled: bool
    listing: bool
    listed: int
    expected: int
    error: str | None
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True)
class SyncTotals:
    """Totals of the SYNC_COMPLETED entries in the ledger."""

    syncs: int
    threads: int
    messages: int
    attachments: int
    events: int
    errors: int


async def get_progress(connection: Connection, mailbox: MailboxId, kind: str) -> SyncProgress:
    cursor = connection.cursor(row_factory=class_row(SyncProgress))
    await cursor.execute(
        """
        SELECT coalesce(lease_token IS NULL AND (due_at > postroom_now() OR due_at IS NULL), true) AS settled,
            listing, listed, greatest(expected, listed) AS expected,
            coalesce(work.last_error,
                CASE WHEN health IN ('token_refresh_failed', 'provider_error', 'operator_error')
                    THEN mailboxes.last_error END) AS error,
            CASE WHEN listing AND open_listed > 0 AND open_expected > open_listed
                THEN extract(epoch FROM postroom_now() - started_at)::float8
                    * (open_expected - open_listed) / open_listed END AS seconds_left
        FROM mailboxes
        LEFT JOIN work ON kind = %(kind)s AND subject = mailboxes.id::text
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(listed), 0)::int8 AS listed, coalesce(sum(expected), 0)::int8 AS expected,
                coalesce(bool_or(kind <> 'backfill' OR completed_at IS NULL), false) AS listing,
                min(started_at) FILTER (WHERE completed_at IS NULL) AS started_at,
                sum(listed) FILTER (WHERE completed_at IS NULL) AS open_listed,
                sum(expected) FILTER (WHERE completed_at IS NULL) AS open_expected
            FROM cursors WHERE mailbox_id = mailboxes.id AND kind IN ('backfill', 'resync', 'refill')
        ) AS listings
        WHERE mailboxes.id = %(mailbox)s
        """,
        {"mailbox": mailbox, "kind": kind},
    )
    progress = await cursor.fetchone()
    return progress or SyncProgress(
        settled=True, listing=False, listed=0, expected=0, error="There is no such mailbox."
    )


async def sum_since(connection: Connection, mailbox: MailboxId, since: datetime) -> SyncTotals:
    cursor = connection.cursor(row_factory=class_row(SyncTotals))
    await cursor.execute(
        """
        SELECT count(*) AS syncs, coalesce(sum((payload ->> 'threads_synced')::int8), 0)::int8 AS threads,
            coalesce(sum((payload ->> 'messages_synced')::int8), 0)::int8 AS messages,
            coalesce(sum((payload ->> 'attachments_saved')::int8), 0)::int8 AS attachments,
            coalesce(sum((payload ->> 'events')::int8), 0)::int8 AS events,
            coalesce(sum((payload ->> 'errors')::int8), 0)::int8 AS errors
        FROM ledger
        WHERE entity_type = 'mailbox' AND entity_id = %s AND event_type = 'SYNC_COMPLETED'
            AND occurred_at >= %s
        """,
        [str(mailbox), since],
    )
    totals = await cursor.fetchone()
    assert totals is not None, "a sum has a row"
    return totals
