"""Access tokens in the table `credentials`, and the lease by which one process refreshes each.

No transaction stays open during the provider call. Without the lease, no process can store a token. Tokens
are sealed and opened by the caller.
"""

from dataclasses import dataclass
from uuid import UUID

from postroom.model import MailboxHealth, MailboxId, ProviderName
from postroom.ports import SealedSecret, SsmParameter, StoredSecret
from postroom.store import credentials
from postroom.store.credentials import Credential
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class MailboxAccess:
    """A mailbox's credential, and the seconds until its access token expires."""

    provider: ProviderName
    provider_user_id: str
    health: MailboxHealth
    last_error: str | None
    credential: Credential
    seconds_left: float


async def get_access(connection: Connection, mailbox: MailboxId) -> MailboxAccess | None:
    """The access of a mailbox. None if it is disconnected."""
    cursor = await connection.execute(
        """
        SELECT provider, provider_user_id, health, last_error,
            coalesce(extract(epoch FROM access_expires_at - postroom_now()), 0)::float8
        FROM credentials JOIN mailboxes ON mailboxes.id = mailbox_id
        WHERE mailbox_id = %s AND disconnected_at IS NULL
        """,
        [mailbox],
    )
    row = await cursor.fetchone()
    credential = await credentials.load(connection, mailbox)
    if row is None or credential is None:
        return None
    return MailboxAccess(ProviderName(row[0]), row[1], MailboxHealth(row[2]), row[3], credential, row[4])


async def claim_lease(connection: Connection, mailbox: MailboxId, lease: UUID, *, seconds: float) -> bool:
    cursor = await connection.execute(
        """
        UPDATE credentials SET lease_token = %s, leased_until = postroom_now() + %s * interval '1 second'
        WHERE mailbox_id = %s AND (leased_until IS NULL OR leased_until <= postroom_now())
        """,
        [lease, seconds, mailbox],
    )
    return cursor.rowcount == 1


async def holds_lease(connection: Connection, mailbox: MailboxId, lease: UUID) -> bool:
    cursor = await connection.execute(
        "SELECT 1 FROM credentials WHERE mailbox_id = %s AND lease_token = %s", [mailbox, lease]
    )
    return await cursor.fetchone() is not None


async def release_lease(connection: Connection, mailbox: MailboxId, lease: UUID) -> bool:
    cursor = await connection.execute(
        """
        UPDATE credentials SET lease_token = NULL, leased_until = NULL
        WHERE mailbox_id = %s AND lease_token = %s
        """,
        [mailbox, lease],
    )
    return cursor.rowcount == 1


async def store_token(
    connection: Connection,
    mailbox: MailboxId,
    lease: UUID,
    *,
    access: SealedSecret,
    seconds: float,
    grant: StoredSecret | None,
) -> bool:
    """Store the new access token, and a new grant if there is one, and release the lease."""
    cursor = await connection.execute(
        """
        UPDATE credentials SET access_key_id = %(access_key_id)s, sealed_access = %(sealed_access)s,
            access_expires_at = postroom_now() + %(seconds)s * interval '1 second',
            grant_key_id = CASE WHEN %(replaced)s THEN %(grant_key_id)s ELSE grant_key_id END,
            sealed_grant = CASE WHEN %(replaced)s THEN %(sealed_grant)s ELSE sealed_grant END,
            ssm_parameter = CASE WHEN %(replaced)s THEN %(ssm_parameter)s ELSE ssm_parameter END,
            lease_token = NULL, leased_until = NULL, updated_at = postroom_now()
        WHERE mailbox_id = %(mailbox)s AND lease_token = %(lease)s
        """,
        {
            "mailbox": mailbox,
            "lease": lease,
            "access_key_id": access.key_id,
            "sealed_access": access.value,
            "seconds": seconds,
            "replaced": grant is not None,
            "grant_key_id": grant.key_id if isinstance(grant, SealedSecret) else None,
            "sealed_grant": grant.value if isinstance(grant, SealedSecret) else None,
            "ssm_parameter": grant.name if isinstance(grant, SsmParameter) else None,
        },
    )
    return cursor.rowcount == 1
