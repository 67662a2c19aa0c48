"""The table `subscriptions`: Graph subscriptions and Gmail watches of mailboxes.

A row is committed before the provider is asked, so that an early push finds it. A row is

    unconfirmed   no confirmed_at: the provider may or may not have created it
    live          confirmed, status active, not replaced
    replaced      replaced_at is set, status says why; its secret stays valid for seven more days

What a push reads and writes is in `notifications`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from psycopg.rows import class_row

from postroom.model import MailboxId, OrganizationId, RemoteSubscription, SubscriptionId
from postroom.store.database import Connection


class SubscriptionStatus(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Subscription:
    id: SubscriptionId
    mailbox: MailboxId
    status: SubscriptionStatus
    provider_subscription_id: str | None
    resource: str
    notification_url: str
    created_at: datetime
    confirmed_at: datetime | None
    expires_at: datetime | None
    last_renewed_at: datetime | None
    last_notified_at: datetime | None
    replaced_at: datetime | None
    seconds_left: float
    renewed_seconds_ago: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", SubscriptionStatus(self.status))

    @property
    def is_live(self) -> bool:
        return (
            self.confirmed_at is not None
            and self.status is SubscriptionStatus.ACTIVE
            and self.replaced_at is None
        )

    @property
    def remote_subscription(self) -> RemoteSubscription:
        """The subscription as the provider knows it."""
        assert self.expires_at
        return RemoteSubscription(
            self.provider_subscription_id, self.resource, self.notification_url, self.expires_at
        )


@dataclass(frozen=True, slots=True)
class SubscriptionSecret:
    """The columns that the engine role may read in any organization."""

    id: SubscriptionId
    mailbox: MailboxId
    provider_subscription_id: str | None
    client_state_sha256: bytes | None
    is_live: bool


_COLUMNS = """
    id, mailbox_id AS mailbox, status, provider_subscription_id, resource, notification_url, created_at,
    confirmed_at, expires_at, last_renewed_at, last_notified_at, replaced_at,
    coalesce(extract(epoch FROM expires_at - postroom_now()), 0)::float8 AS seconds_left,
    coalesce(extract(epoch FROM postroom_now() - last_renewed_at), 'infinity')::float8 AS renewed_seconds_ago
"""


async def list_by_mailbox(connection: Connection, mailbox: MailboxId) -> list[Subscription]:
    """Subscriptions of a mailbox, newest first."""
    cursor = connection.cursor(row_factory=class_row(Subscription))
    await cursor.execute(
        "SELECT" + _COLUMNS + "FROM subscriptions WHERE mailbox_id = %s ORDER BY created_at DESC", [mailbox]
    )
    return await cursor.fetchall()


async def list_all(connection: Connection) -> list[Subscription]:
    cursor = connection.cursor(row_factory=class_row(Subscription))
    await cursor.execute("SELECT" + _COLUMNS + "FROM subscriptions ORDER BY mailbox_id, created_at DESC")
    return await cursor.fetchall()


async def add_unconfirmed(
    connection: Connection,
    mailbox: MailboxId,
    subscription: SubscriptionId,
    *,
    notification_url: str,
    secret_sha256: bytes,
) -> datetime:
    """Insert the row of a subscription that is about to be created, and return its creation time."""
    cursor = await connection.execute(
        """
        INSERT INTO subscriptions (organization_id, id, mailbox_id, resource, notification_url,
            client_state_sha256)
        VALUES (current_organization(), %s, %s, '', %s, %s) RETURNING created_at
        """,
        [subscription, mailbox, notification_url, secret_sha256],
    )
    [row] = await cursor.fetchall()
    return row[0]


async def confirm(
    connection: Connection,
    subscription: SubscriptionId,
    remote_subscription: RemoteSubscription,
    *,
    secret_sha256: bytes | None = None,
) -> float:
    """Confirm that the provider created it, and return the seconds until it expires.

    `secret_sha256` is set if it was created for another mailbox of the account, whose secret then applies.
    """
    cursor = await connection.execute(
        """
        UPDATE subscriptions SET provider_subscription_id = %(provider_id)s, resource = %(resource)s,
            notification_url = coalesce(%(url)s, notification_url), expires_at = %(expires_at)s,
            client_state_sha256 = coalesce(%(secret)s, client_state_sha256),
            confirmed_at = coalesce(confirmed_at, postroom_now()), last_renewed_at = postroom_now()
        WHERE id = %(id)s
        RETURNING extract(epoch FROM expires_at - postroom_now())::float8
        """,
        {
            "id": subscription,
            "provider_id": remote_subscription.provider_subscription_id,
            "resource": remote_subscription.resource,
            "url": remote_subscription.notification_url,
            "expires_at": remote_subscription.expires_at,
            "secret": secret_sha256,
        },
    )
    [row] = await cursor.fetchall()
    return row[0]


async def discard_unconfirmed(connection: Connection, subscription: SubscriptionId) -> None:
    """Delete the row of a subscription that the provider did not create."""
    await connection.execute(
        "DELETE FROM subscriptions WHERE id = %s AND confirmed_at IS NULL", [subscription]
    )


async def mark_replaced(connection: Connection, subscription: SubscriptionId) -> SubscriptionStatus:
    """Mark a subscription as replaced: `expired` if its time was over, else `removed`."""
    cursor = await connection.execute(
        """
        UPDATE subscriptions SET replaced_at = coalesce(replaced_at, postroom_now()),
            status = CASE WHEN expires_at <= postroom_now() THEN 'expired' ELSE 'removed' END
        WHERE id = %s RETURNING status
        """,
        [subscription],
    )
    [row] = await cursor.fetchall()
    return SubscriptionStatus(row[0])


async def replace_silent(
    connection: Connection,
    mailbox: MailboxId,
    *,
    changed_at: datetime,
    patience_seconds: float,
    skew_seconds: float,
) -> SubscriptionId | None:
    """Mark the live subscription as replaced if it failed to push a change in time.

    `changed_at` comes from the provider's clock, all other times from ours; `skew_seconds` allows for it.
    """
    cursor = await connection.execute(
        """
        UPDATE subscriptions SET replaced_at = postroom_now(), status = 'expired'
        FROM mailboxes
        WHERE mailbox_id = %(mailbox)s AND mailboxes.id = mailbox_id
          AND status = 'active' AND replaced_at IS NULL AND confirmed_at < %(before)s
          AND %(changed_at)s < postroom_now() - %(patience)s * interval '1 second'
          AND (subscriptions.last_notified_at < %(before)s) IS NOT FALSE
          AND (mailboxes.last_notified_at < %(before)s) IS NOT FALSE
        RETURNING subscriptions.id
        """,
        {
            "mailbox": mailbox,
            "changed_at": changed_at,
            "before": changed_at - timedelta(seconds=skew_seconds),
            "patience": patience_seconds,
        },
    )
    row = await cursor.fetchone()
    return SubscriptionId(row[0]) if row else None


async def delete_replaced(connection: Connection, mailbox: MailboxId) -> None:
    """Delete replaced subscriptions whose secret is no longer valid."""
    await connection.execute(
        """
        DELETE FROM subscriptions
        WHERE mailbox_id = %s AND replaced_at < postroom_now() - interval '7 days'
        """,
        [mailbox],
    )


async def find_secrets(
    engine: Connection, ids: Collection[UUID], provider_ids: Collection[str]
) -> list[SubscriptionSecret]:
    """Rows with these ids, ours or the provider's, in any organization."""
    cursor = engine.cursor(row_factory=class_row(SubscriptionSecret))
    await cursor.execute(
        """
        SELECT id, mailbox_id AS mailbox, provider_subscription_id, client_state_sha256,
            status = 'active' AND replaced_at IS NULL AS is_live
        FROM subscriptions
        WHERE id = ANY(%s::uuid[]) OR provider_subscription_id = ANY(%s::text[])
        """,
        [list(ids), list(provider_ids)],
    )
    return await cursor.fetchall()


async def list_mailboxes_without_work(
    engine: Connection, kind: str
) -> Sequence[tuple[OrganizationId, MailboxId]]:
    """Connected mailboxes that have no work of this kind."""
    cursor = await engine.execute(
        """
        SELECT organization_id, id FROM mailboxes
        WHERE disconnected_at IS NULL
          AND NOT EXISTS (SELECT FROM work WHERE kind = %s AND subject = mailboxes.id::text)
        """,
        [kind],
    )
    return [(OrganizationId(row[0]), MailboxId(row[1])) for row in await cursor.fetchall()]


async def read_clock(connection: Connection) -> datetime:
    """The database's current time."""
    cursor = await connection.execute("SELECT postroom_now()")
    [row] = await cursor.fetchall()
    return row[0]


@dataclass(frozen=True, slots=True)
class SubscriptionProgress:
    """State of a mailbox's subscription work. `settled`: nothing is due or running."""

    settled: bool
    is_live: bool
    error: str | None


async def get_progress(connection: Connection, mailbox: MailboxId, kind: str) -> SubscriptionProgress:
    cursor = connection.cursor(row_factory=class_row(SubscriptionProgress))
    await cursor.execute(
        """
        SELECT coalesce(lease_token IS NULL AND due_at > postroom_now(), true) AS settled,
            EXISTS (
                SELECT FROM subscriptions WHERE mailbox_id = mailboxes.id AND status = 'active'
                  AND replaced_at IS NULL AND expires_at > postroom_now()
            ) AS is_live,
            coalesce(work.last_error, mailboxes.last_error) AS error
        FROM mailboxes LEFT JOIN work ON kind = %s AND subject = mailboxes.id::text
        WHERE mailboxes.id = %s
        """,
        [kind, mailbox],
    )
    return await cursor.fetchone() or SubscriptionProgress(
        settled=True, is_live=False, error="There is no such mailbox."
    )
