"""The table `subscriptions`: Graph subscriptions and Gmail watches of mailboxes.

A row is committed before the provider is asked, so that an early push finds it. A row is

    unconfirmed   no confirmed_at: the provider may or may not have created it
    live          confirmed, status active, not replaced
    replaced      replaced_at is set, status says why; its secret stays valid for seven more days

What a push reads and writes is in `notifications`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
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
    replacement_requested_at: datetime | None
    proven_since: datetime | None
    seconds_left: float
    renewed_seconds_ago: float
    reauthorized_seconds_ago: float
    needs_reauthorization: bool

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
    confirmed_at, expires_at, last_renewed_at, last_notified_at, replaced_at, replacement_requested_at,
    proven_since,
    coalesce(extract(epoch FROM expires_at - postroom_now()), 0)::float8 AS seconds_left,
    coalesce(extract(epoch FROM postroom_now() - last_renewed_at), 'infinity')::float8 AS renewed_seconds_ago,
    coalesce(extract(epoch FROM postroom_now() - last_reauthorized_at), 'infinity')::float8
        AS reauthorized_seconds_ago,
    coalesce(reauthorization_requested_at > last_renewed_at, false) AS needs_reauthorization
"""


async def list_by_mailbox(connection: Connection, mailbox: MailboxId) -> list[Subscription]:
    """Subscriptions of a mailbox, newest first."""
    cursor = connection.cursor(row_factory=class_row(Subscription))
    await cursor.execute(
        "SELECT" + _COLUMNS + "FROM subscriptions WHERE mailbox_id = %s ORDER BY created_at DESC", [mailbox]
    )
    return await cursor.fetchall()


async def get_live(connection: Connection, mailbox: MailboxId) -> Subscription | None:
    return next((row for row in await list_by_mailbox(connection, mailbox) if row.is_live), None)


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


async def add_successor(
    connection: Connection,
    predecessor: SubscriptionId,
    subscription: SubscriptionId,
    *,
    notification_url: str,
) -> None:
    """Insert the row of a subscription that is about to move to another URL. It keeps its secret."""
    await connection.execute(
        """
        INSERT INTO subscriptions (organization_id, id, mailbox_id, resource, notification_url,
            client_state_sha256)
        SELECT organization_id, %s, mailbox_id, resource, %s, client_state_sha256
        FROM subscriptions WHERE id = %s
        """,
        [subscription, notification_url, predecessor],
    )


async def confirm(
    connection: Connection,
    subscription: SubscriptionId,
    remote_subscription: RemoteSubscription,
    *,
    secret_sha256: bytes | None = None,
) -> float:
    """Confirm that the provider created or renewed it, and return the seconds until it expires.

    `secret_sha256` is set if it was created for another mailbox of the account, whose secret then applies.
    """
    cursor = await connection.execute(
        """
        UPDATE subscriptions SET provider_subscription_id = %(provider_id)s, resource = %(resource)s,
            notification_url = coalesce(%(url)s, notification_url), expires_at = %(expires_at)s,
            client_state_sha256 = coalesce(%(secret)s, client_state_sha256),
            confirmed_at = coalesce(confirmed_at, postroom_now()), last_renewed_at = postroom_now(),
            last_reauthorized_at = CASE WHEN reauthorization_requested_at > last_renewed_at
                THEN postroom_now() ELSE last_reauthorized_at END
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


async def mark_silent(connection: Connection, subscription: SubscriptionId) -> None:
    """Mark a subscription as replaced because new mail arrived without pushes."""
    await connection.execute(
        """
        UPDATE subscriptions SET replaced_at = postroom_now(), status = 'expired', is_silent = true,
            replacement_requested_at = NULL
        WHERE id = %s
        """,
        [subscription],
    )


async def request_replacement(
    connection: Connection, subscription: SubscriptionId, *, min_age_seconds: float
) -> bool:
    """Request that a subscription of at least this age is replaced; whether it was not requested before."""
    cursor = await connection.execute(
        """
        UPDATE subscriptions SET replacement_requested_at = postroom_now()
        WHERE id = %s AND replacement_requested_at IS NULL
            AND confirmed_at <= postroom_now() - %s * interval '1 second'
        """,
        [subscription, min_age_seconds],
    )
    return cursor.rowcount == 1


async def set_proven_since(
    connection: Connection, subscription: SubscriptionId, since: datetime | None
) -> None:
    """Set since when pushes through a subscription are proven to arrive. None: they are not proven."""
    await connection.execute(
        "UPDATE subscriptions SET proven_since = %s WHERE id = %s", [since, subscription]
    )


async def count_silent(connection: Connection, mailbox: MailboxId) -> int:
    """How many subscriptions were replaced in the last day because of missing pushes."""
    cursor = await connection.execute(
        """
        SELECT count(*) FROM subscriptions
        WHERE mailbox_id = %s AND is_silent AND replaced_at > postroom_now() - interval '1 day'
        """,
        [mailbox],
    )
    [row] = await cursor.fetchall()
    return row[0]


async def request_reauthorization(connection: Connection, mailbox: MailboxId) -> None:
    """Request that the live subscription is renewed at once, with the token of this mailbox."""
    await connection.execute(
        """
        UPDATE subscriptions SET reauthorization_requested_at = postroom_now()
        WHERE mailbox_id = %s AND status = 'active' AND replaced_at IS NULL AND confirmed_at IS NOT NULL
        """,
        [mailbox],
    )


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
