"""Query of each mailbox's status beyond its health: listing, subscription, last audit, next attempt."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from psycopg.rows import class_row

from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class MailboxStatus:
    mailbox_id: UUID
    listing: bool  # a listing is not complete
    listed: int
    expected: int
    subscription_status: str | None  # `unconfirmed` until the provider confirmed it
    subscription_expires_at: datetime | None
    audited_at: datetime | None
    compared: int | None
    differing: int | None
    repair_started_at: datetime | None
    next_attempt_at: datetime | None  # while the mailbox is not healthy: of the work that failed
    failed_attempts: int | None


# The work that ends the problem of an unhealthy mailbox, as `retry`. A running attempt has not failed.
RETRY_JOIN: Final = """
    LEFT JOIN LATERAL (
        SELECT due_at, attempts - (state = 'leased')::int AS attempts FROM work
        WHERE subject = mailboxes.id::text AND health NOT IN ('active', 'token_refresh_failed')
            AND kind = CASE WHEN health_cause IN ('no_subscription', 'push_silent', 'subscription_denied')
                THEN 'subscribe' ELSE 'sync' END
    ) AS retry ON true
"""


async def list_by_mailbox(connection: Connection) -> Mapping[UUID, MailboxStatus]:
    cursor = connection.cursor(row_factory=class_row(MailboxStatus))
    await cursor.execute(
        """
        SELECT mailboxes.id AS mailbox_id, listings.listing, listings.listed,
            greatest(listings.expected, listings.listed) AS expected,
            subscription.status AS subscription_status, subscription.expires_at AS subscription_expires_at,
            audit.completed_at AS audited_at, audit.listed AS compared, audit.differing,
            audit.repair_started_at,
            retry.due_at AS next_attempt_at, retry.attempts AS failed_attempts
        FROM mailboxes
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(listed), 0)::int8 AS listed, coalesce(sum(expected), 0)::int8 AS expected,
                coalesce(bool_or(kind <> 'backfill' OR completed_at IS NULL), false) AS listing
            FROM cursors WHERE mailbox_id = mailboxes.id AND kind IN ('backfill', 'resync', 'refill')
        ) AS listings
        LEFT JOIN LATERAL (
            SELECT CASE WHEN confirmed_at IS NULL THEN 'unconfirmed' ELSE status END AS status, expires_at
            FROM subscriptions
            WHERE mailbox_id = mailboxes.id AND replaced_at IS NULL
            ORDER BY confirmed_at IS NULL, created_at DESC LIMIT 1
        ) AS subscription ON true
        LEFT JOIN LATERAL (
            SELECT completed_at, listed, missing + extra + different AS differing, repair_started_at
            FROM audits WHERE mailbox_id = mailboxes.id ORDER BY id DESC LIMIT 1
        ) AS audit ON true
        """  # noqa: S608  # of literals
        + RETRY_JOIN
    )
    return {status.mailbox_id: status for status in await cursor.fetchall()}
