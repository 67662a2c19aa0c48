"""What a push reads and writes: the mailboxes it concerns, hints, push times and lifecycle events.

Hints are in the table `notifications`. No parsing and no verification: that is done by the
provider's `push` and by `flow.mail.push`.

The engine role looks up and writes across organizations; the sync of one mailbox reads and clears its hints.
Secrets are stored as digests; the caller compares them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Final, NamedTuple
from uuid import UUID

from psycopg import errors

from postroom.errors import TransientError
from postroom.model import LifecycleEvent, MailboxId, OrganizationId, ProviderName, SubscriptionId
from postroom.store import work
from postroom.store.database import Connection
from postroom.store.work import WorkRequest

MAX_HINTS: Final = 20


# Tuples instead of dataclasses, because thousands are created per second.


class NotifiedMailbox(NamedTuple):
    """A mailbox that a push concerns."""

    organization: OrganizationId
    mailbox: MailboxId


class PushSubscription(NamedTuple):
    """A subscription with a valid secret, and every mailbox of the account it watches."""

    id: SubscriptionId
    provider_subscription_id: str | None
    client_state_sha256: bytes | None
    owner: NotifiedMailbox
    mailboxes: tuple[NotifiedMailbox, ...]


class MailboxNotification(NamedTuple):
    """The combined content of simultaneous notifications about one mailbox."""

    mailbox: NotifiedMailbox
    message_ids: Collection[str]
    missed: bool


@dataclass(frozen=True, slots=True)
class SyncHints:
    """Messages that pushes named, and the period in which the provider says that it lost notifications.

    The period is empty if we dropped hints ourselves, because there were too many.
    """

    message_ids: frozenset[str]
    missed_from: datetime | None
    missed_until: datetime | None

    @property
    def complete(self) -> bool:
        """False if hints were cut off at `MAX_HINTS`, or notifications were missed."""
        return len(self.message_ids) < MAX_HINTS and self.missed_until is None

    @property
    def missed_period(self) -> tuple[datetime, datetime] | None:
        """The period in which the provider lost notifications."""
        since, until = self.missed_from, self.missed_until
        return (since, until) if since is not None and until is not None and since < until else None


NO_HINTS: Final = SyncHints(frozenset(), None, None)


async def find_subscriptions(
    engine: Connection, ids: Collection[UUID], provider_ids: Collection[str]
) -> list[PushSubscription]:
    """Subscriptions with these ids, ours or the provider's. Replaced ones stay valid for seven days.

    Several organizations may connect one account while its provider allows one subscription, so a push
    concerns all of its mailboxes.
    """
    cursor = await engine.execute(
        """
        SELECT subscriptions.id, provider_subscription_id, client_state_sha256,
            subscriptions.organization_id, mailbox_id, watched.organization_id, watched.id
        FROM subscriptions
        JOIN mailboxes AS own
            ON own.organization_id = subscriptions.organization_id AND own.id = mailbox_id
        LEFT JOIN mailboxes AS watched
            ON watched.provider = own.provider AND watched.account_id = own.account_id
            AND watched.disconnected_at IS NULL
        WHERE (subscriptions.id = ANY(%b::uuid[]) OR provider_subscription_id = ANY(%b::text[]))
            AND (replaced_at IS NULL OR replaced_at > (SELECT postroom_now()) - interval '7 days')
        """,
        [list(ids), list(provider_ids)],
        binary=True,
    )
    by_id: dict[UUID, PushSubscription] = {}
    for id_, provider_id, digest, owner, own_mailbox, organization, mailbox in await cursor.fetchall():
        mailboxes = by_id[id_].mailboxes if id_ in by_id else ()
        if mailbox:
            mailboxes += (NotifiedMailbox(organization, mailbox),)
        by_id[id_] = PushSubscription(
            id_, provider_id, digest, NotifiedMailbox(owner, own_mailbox), mailboxes
        )
    return list(by_id.values())


async def find_mailboxes_by_address(
    engine: Connection, provider: ProviderName, addresses: Collection[str]
) -> list[tuple[str, NotifiedMailbox, SubscriptionId | None]]:
    """Mailboxes with these addresses, and their subscriptions."""
    cursor = await engine.execute(
        """
        SELECT address, mailboxes.organization_id, mailboxes.id, subscriptions.id
        FROM mailboxes
        LEFT JOIN subscriptions ON subscriptions.mailbox_id = mailboxes.id
            AND status = 'active' AND replaced_at IS NULL
        WHERE provider = %b AND address = ANY(%b::text[]) AND disconnected_at IS NULL
        """,
        [provider.value, list(addresses)],
    )
    return [(row[0], NotifiedMailbox(row[1], row[2]), row[3]) for row in await cursor.fetchall()]


async def record_notifications(
    engine: Connection,
    notifications: Sequence[MailboxNotification],
    subscriptions: Collection[UUID],
    requests: Sequence[WorkRequest],
) -> None:
    """Store hints and last push times, and enqueue the follow-up work, in one statement.

    Push times have a resolution of one second and skip locked rows, so that they cost little and never wait.
    """
    rows = sorted(notifications, key=itemgetter(0))
    try:
        cursor = await engine.execute(
            _RECORD,
            [
                *work.enqueue_parameters(requests),
                [row.mailbox.organization for row in rows],
                [row.mailbox.mailbox for row in rows],
                ["\n".join(list(row.message_ids)[:MAX_HINTS]) for row in rows],
                [row.missed for row in rows],
                list(subscriptions),
            ],
        )
    except errors.ForeignKeyViolation as error:
        raise TransientError("A mailbox was removed while a push for it was being stored") from error
    await work.notify_workers(engine, cursor)


# Rows are written in key order, so that concurrent statements do not deadlock.
_RECORD = (
    "WITH "  # noqa: S608  # of literals
    + work.ENQUEUE_CTE
    + """
    , notified AS MATERIALIZED (
        SELECT * FROM unnest(%b::uuid[], %b::uuid[], %b::text[], %b::bool[])
            AS notified (organization_id, mailbox_id, message_ids, missed)
    ), notified_mailboxes AS (
        UPDATE mailboxes SET last_notified_at = (SELECT postroom_now()) FROM (
            SELECT mailboxes.organization_id, mailboxes.id FROM mailboxes
            JOIN notified
                ON mailboxes.organization_id = notified.organization_id AND mailboxes.id = mailbox_id
            WHERE last_notified_at IS NULL
                OR last_notified_at < (SELECT postroom_now()) - interval '1 second'
            FOR NO KEY UPDATE OF mailboxes SKIP LOCKED
        ) AS stale
        WHERE mailboxes.organization_id = stale.organization_id AND mailboxes.id = stale.id
    ), notified_subscriptions AS (
        UPDATE subscriptions SET last_notified_at = (SELECT postroom_now()) FROM (
            SELECT subscriptions.id FROM subscriptions
            WHERE id = ANY(%b::uuid[]) AND (last_notified_at IS NULL
                OR last_notified_at < (SELECT postroom_now()) - interval '1 second')
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS stale
        WHERE subscriptions.id = stale.id
    ), hinted AS (
        INSERT INTO notifications AS stored
            (organization_id, mailbox_id, message_ids, missed_from, missed_until)
        SELECT mailboxes.organization_id, mailboxes.id, string_to_array(message_ids, E'\\n'),
            CASE WHEN missed THEN coalesce(last_synced_at, connected_at) END,
            CASE WHEN missed THEN postroom_now() END
        FROM notified
        JOIN mailboxes
            ON mailboxes.organization_id = notified.organization_id AND mailboxes.id = mailbox_id
        WHERE message_ids <> '' OR missed
        ORDER BY mailboxes.organization_id, mailboxes.id
        ON CONFLICT (organization_id, mailbox_id) DO UPDATE SET
            message_ids = ARRAY(
                SELECT DISTINCT unnest(stored.message_ids || excluded.message_ids) LIMIT 20
            ),
            missed_from = least(stored.missed_from, excluded.missed_from),
            missed_until = greatest(stored.missed_until, excluded.missed_until)
        WHERE excluded.missed_until IS NOT NULL
            OR cardinality(stored.message_ids) < 20 AND NOT stored.message_ids @> excluded.message_ids
    )
    """
    + work.SELECT_CLAIMABLE
)


async def record_lifecycle_events(
    engine: Connection, events: Collection[tuple[UUID, LifecycleEvent]]
) -> None:
    """Record lifecycle notifications: required reauthorizations and removals."""
    renewals = [id_ for id_, event in events if event is LifecycleEvent.REAUTHORIZATION_REQUIRED]
    removals = [id_ for id_, event in events if event is LifecycleEvent.SUBSCRIPTION_REMOVED]
    await engine.execute(
        """
        UPDATE subscriptions SET
            reauthorization_requested_at = CASE WHEN subscriptions.id = ANY(%(renewals)s::uuid[])
                THEN postroom_now() ELSE reauthorization_requested_at END,
            removal_reported_at = CASE WHEN subscriptions.id = ANY(%(removals)s::uuid[])
                THEN postroom_now() ELSE removal_reported_at END
        FROM (
            SELECT id FROM subscriptions
            WHERE id = ANY(%(renewals)s::uuid[] || %(removals)s::uuid[]) ORDER BY id FOR NO KEY UPDATE
        ) AS locked
        WHERE subscriptions.id = locked.id
        """,
        {"renewals": renewals, "removals": removals},
    )


async def get_hints(connection: Connection, mailbox: MailboxId) -> SyncHints:
    """Hints from pushes that no sync has used yet."""
    cursor = await connection.execute(
        "SELECT message_ids, missed_from, missed_until FROM notifications WHERE mailbox_id = %s", [mailbox]
    )
    row = await cursor.fetchone()
    return SyncHints(frozenset(row[0]), row[1], row[2]) if row else NO_HINTS


async def clear_hints(connection: Connection, mailbox: MailboxId, used: SyncHints) -> None:
    """Clear the hints that a sync used. Hints that arrived meanwhile stay; a full list may have lost some."""
    await connection.execute(
        """
        WITH clock AS MATERIALIZED (SELECT postroom_now() AS now)
        UPDATE notifications SET
            message_ids = ARRAY(SELECT unnest(message_ids) EXCEPT SELECT unnest(%(ids)s::text[])),
            missed_from = CASE
                WHEN missed_until > coalesce(%(until)s::timestamptz, '-infinity') THEN missed_from
                WHEN cardinality(message_ids) >= %(most)s THEN now END,
            missed_until = CASE
                WHEN cardinality(message_ids) >= %(most)s THEN now
                WHEN missed_until > coalesce(%(until)s::timestamptz, '-infinity') THEN missed_until END
        FROM clock WHERE mailbox_id = %(mailbox)s
        """,
        {
            "mailbox": mailbox,
            "ids": list(used.message_ids),
            "until": used.missed_until,
            "most": MAX_HINTS,
        },
    )
