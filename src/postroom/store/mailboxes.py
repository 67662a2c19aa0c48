"""The table `mailboxes`: connect, find, pause, disconnect and purge mailboxes; their policy.

Also lists and removes a mailbox's active subscriptions for a disconnect; the rest is in `subscriptions`.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from postroom.model import (
    Account,
    ContentPolicy,
    HealthCause,
    MailboxHealth,
    MailboxId,
    OrganizationId,
    ProviderName,
    RemoteSubscription,
)
from postroom.store import mailbox_health
from postroom.store import purge as mail_purge
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class Mailbox:
    id: MailboxId
    organization: OrganizationId
    provider: ProviderName
    account_id: str
    provider_user_id: str
    address: str
    folder: str | None
    policy: ContentPolicy
    health: MailboxHealth
    health_cause: HealthCause | None
    health_since: datetime
    failing_since: datetime | None
    last_error: str | None
    last_synced_at: datetime | None
    last_notified_at: datetime | None
    connected_at: datetime
    paused_at: datetime | None
    disconnected_at: datetime | None

    def __post_init__(self) -> None:
        for name, kind in (("provider", ProviderName), ("policy", ContentPolicy), ("health", MailboxHealth)):
            object.__setattr__(self, name, kind(getattr(self, name)))
        object.__setattr__(self, "health_cause", HealthCause.resolve(self.health, self.health_cause))

    @property
    def has_lost_grant(self) -> bool:
        """Whether only a reconnect can continue it."""
        return self.disconnected_at is None and self.health is MailboxHealth.TOKEN_REFRESH_FAILED

    @property
    def can_sync(self) -> bool:
        return self.disconnected_at is None and self.paused_at is None and not self.has_lost_grant


_COLUMNS = """
    id, organization_id AS organization, provider, account_id, provider_user_id, address, folder,
    content_policy AS policy, health, health_cause, health_since, failing_since, last_error, last_synced_at,
    last_notified_at, connected_at, paused_at, disconnected_at
"""


async def connect(
    connection: Connection,
    provider: ProviderName,
    account: Account,
    *,
    new_id: MailboxId,
    policy: ContentPolicy,
    folder: str | None = None,
) -> tuple[Mailbox, bool]:
    """Insert the mailbox of an account or reconnect the existing one. Returns it and whether it is new.

    A reconnect keeps the mailbox's data, updates its address and resets its health. A paused mailbox stays
    paused, unless it was disconnected.
    """
    was_inactive = await _lock_inactive(connection, provider, account)
    cursor = await connection.execute(
        """
        INSERT INTO mailboxes (organization_id, id, provider, account_id, provider_user_id, address,
            content_policy, folder)
        VALUES (current_organization(), %s, %s, %s, %s, lower(%s), %s, %s)
        ON CONFLICT (organization_id, provider, account_id) DO UPDATE SET
            provider_user_id = excluded.provider_user_id, address = excluded.address,
            content_policy = excluded.content_policy, folder = excluded.folder,
            health = 'active', health_cause = NULL, health_since = postroom_now(), failing_since = NULL,
            last_error = NULL,
            connected_at = postroom_now(), disconnected_at = NULL,
            paused_at = CASE WHEN mailboxes.disconnected_at IS NULL THEN mailboxes.paused_at END
        RETURNING id, xmax = 0
        """,
        [
            new_id,
            provider,
            account.account_id,
            account.provider_user_id,
            account.address,
            policy,
            folder,
        ],
    )
    row = await cursor.fetchone()
    assert row
    mailbox = await get(connection, MailboxId(row[0]))
    assert mailbox
    if was_inactive:
        await mailbox_health.append_health_event(connection, mailbox.id, None)
    return mailbox, row[1]


async def lock_account(connection: Connection, provider: ProviderName, account: Account) -> None:
    """Make concurrent logins of one account wait for each other, also if its mailbox does not exist yet.

    Inserts that conflict in two unique indexes, the id and the account, could deadlock.
    """
    await connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(current_organization()::text || %s || %s, 0))",
        [provider, account.account_id],
    )


async def _lock_inactive(connection: Connection, provider: ProviderName, account: Account) -> bool:
    """Lock the mailbox of an account; whether it exists and is disconnected or unhealthy."""
    cursor = await connection.execute(
        """
        SELECT health <> 'active' OR disconnected_at IS NOT NULL FROM mailboxes
        WHERE provider = %s AND account_id = %s FOR NO KEY UPDATE
        """,
        [provider, account.account_id],
    )
    return await cursor.fetchone() == (True,)


async def get(connection: Connection, mailbox: MailboxId) -> Mailbox | None:
    cursor = connection.cursor(row_factory=class_row(Mailbox))
    await cursor.execute("SELECT" + _COLUMNS + "FROM mailboxes WHERE id = %s", [mailbox])
    return await cursor.fetchone()


async def find_by_account(connection: Connection, provider: ProviderName, account_id: str) -> Mailbox | None:
    cursor = connection.cursor(row_factory=class_row(Mailbox))
    await cursor.execute(
        "SELECT" + _COLUMNS + "FROM mailboxes WHERE provider = %s AND account_id = %s", [provider, account_id]
    )
    return await cursor.fetchone()


async def resolve_account(connection: Connection, provider: ProviderName, account: Account) -> Account:
    """The account under the id stored here. A mailbox stored under a makeshift id gets the account's own."""
    if account.substitute_id is None:
        return account
    if account.account_id != account.substitute_id:
        await connection.execute(
            """
            UPDATE mailboxes SET account_id = %(own)s
            WHERE provider = %(provider)s AND account_id = %(makeshift)s
                AND NOT EXISTS (SELECT FROM mailboxes WHERE provider = %(provider)s AND account_id = %(own)s)
            """,
            {"own": account.account_id, "provider": provider, "makeshift": account.substitute_id},
        )
        return account
    tenant = account.substitute_id.partition(":")[0]
    cursor = await connection.execute(
        """
        SELECT account_id, provider_user_id FROM mailboxes
        WHERE provider = %s AND address = lower(%s) AND starts_with(account_id, %s)
        """,
        [provider, account.address, f"{tenant}:"],
    )
    row = await cursor.fetchone()
    return replace(account, account_id=row[0], provider_user_id=row[1]) if row else account


async def find(connection: Connection, name: str) -> list[Mailbox]:
    """Mailboxes by address, id, or prefix of an id of at least four characters."""
    cursor = connection.cursor(row_factory=class_row(Mailbox))
    await cursor.execute(
        "SELECT"
        + _COLUMNS
        + """
        FROM mailboxes
        WHERE address = lower(%(name)s)
            OR (length(%(name)s) >= 4 AND starts_with(id::text, lower(%(name)s)))
        ORDER BY connected_at
        """,
        {"name": name},
    )
    return await cursor.fetchall()


async def list_all(connection: Connection) -> list[Mailbox]:
    cursor = connection.cursor(row_factory=class_row(Mailbox))
    await cursor.execute("SELECT" + _COLUMNS + "FROM mailboxes ORDER BY address, provider")
    return await cursor.fetchall()


async def list_app_only_ids(connection: Connection) -> set[MailboxId]:
    """Mailboxes connected with an application's own credential instead of a login."""
    cursor = await connection.execute("SELECT mailbox_id FROM credentials WHERE kind <> 'delegated'")
    return {MailboxId(row[0]) for row in await cursor.fetchall()}


async def list_one_per_application(connection: Connection) -> list[MailboxId]:
    """One connected mailbox of each application that has a credential of its own."""
    cursor = await connection.execute(
        """
        SELECT DISTINCT ON (provider, tenant_id, client_id) id
        FROM mailboxes JOIN credentials ON mailbox_id = id
        WHERE kind <> 'delegated' AND disconnected_at IS NULL
        ORDER BY provider, tenant_id, client_id, id
        """
    )
    return [MailboxId(row[0]) for row in await cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class SyncPreconditions:
    """What a running sync checks before each commit: what it may store, and whether more was requested."""

    policy: ContentPolicy
    is_active: bool
    generation: int
    seconds_since_enqueued: float | None
    has_purged_people: bool
    has_open_failures: bool


async def get_sync_preconditions(
    connection: Connection, mailbox: MailboxId, work: int
) -> SyncPreconditions | None:
    cursor = await connection.execute(
        """
        SELECT content_policy, paused_at IS NULL AND disconnected_at IS NULL, generation,
            extract(epoch FROM postroom_now() - enqueued_at)::float8,
            EXISTS (SELECT FROM purged_people),
            EXISTS (SELECT FROM failures WHERE mailbox_id = mailboxes.id AND resolved_at IS NULL)
        FROM mailboxes CROSS JOIN work WHERE mailboxes.id = %b AND work.id = %b
        """,
        [mailbox, work],
    )
    row = await cursor.fetchone()
    return SyncPreconditions(ContentPolicy(row[0]), *row[1:]) if row else None


async def pause(connection: Connection, mailbox: MailboxId) -> bool:
    cursor = await connection.execute(
        """
        UPDATE mailboxes SET paused_at = postroom_now()
        WHERE id = %s AND paused_at IS NULL AND disconnected_at IS NULL
        """,
        [mailbox],
    )
    return cursor.rowcount == 1


async def resume(connection: Connection, mailbox: MailboxId) -> bool:
    cursor = await connection.execute(
        "UPDATE mailboxes SET paused_at = NULL WHERE id = %s AND paused_at IS NOT NULL", [mailbox]
    )
    return cursor.rowcount == 1


async def set_policy(connection: Connection, mailbox: MailboxId, policy: ContentPolicy) -> bool:
    cursor = await connection.execute(
        "UPDATE mailboxes SET content_policy = %s WHERE id = %s AND content_policy <> %s",
        [policy, mailbox, policy],
    )
    return cursor.rowcount == 1


async def disconnect(connection: Connection, mailbox: MailboxId) -> bool:
    cursor = await connection.execute(
        "UPDATE mailboxes SET disconnected_at = postroom_now() WHERE id = %s AND disconnected_at IS NULL",
        [mailbox],
    )
    return cursor.rowcount == 1


async def purge(connection: Connection, mailbox: MailboxId) -> list[UUID]:
    """Delete the mailbox with all its mail, and the people whom the ledger names through it.

    Returns the archived documents whose copies must move, because their paths name these people.
    """
    moved = await mail_purge.mark_archive_paths_of_mailbox(connection, mailbox)
    await mail_purge.erase_people_of_mailbox(connection, mailbox)
    await connection.execute("DELETE FROM mailboxes WHERE id = %s", [mailbox])
    return moved


async def list_active_subscriptions(connection: Connection, mailbox: MailboxId) -> list[RemoteSubscription]:
    """Subscriptions of a mailbox that may still exist at the provider."""
    cursor = await connection.execute(
        """
        SELECT provider_subscription_id, resource, notification_url, coalesce(expires_at, postroom_now())
        FROM subscriptions WHERE mailbox_id = %s AND status = 'active'
        """,
        [mailbox],
    )
    return [RemoteSubscription(*row) for row in await cursor.fetchall()]


async def remove_subscriptions(connection: Connection, mailbox: MailboxId) -> None:
    await connection.execute(
        """
        UPDATE subscriptions SET status = 'removed', replaced_at = coalesce(replaced_at, postroom_now())
        WHERE mailbox_id = %s AND status = 'active'
        """,
        [mailbox],
    )


async def list_others_of_account(
    engine: Connection, provider: ProviderName, account_id: str, *, excluding: MailboxId
) -> list[tuple[OrganizationId, MailboxId]]:
    """Mailboxes of the same account in other organizations. While there are any, it stays subscribed."""
    cursor = await engine.execute(
        """
        SELECT organization_id, id FROM mailboxes
        WHERE provider = %s AND account_id = %s AND id <> %s AND disconnected_at IS NULL
        """,
        [provider, account_id, excluding],
    )
    return [(OrganizationId(row[0]), MailboxId(row[1])) for row in await cursor.fetchall()]
