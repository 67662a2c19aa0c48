"""The lease on a credential's row: of all processes that need a new access token, one asks the provider.

No transaction stays open during that call. Whoever no longer holds the lease can store nothing.
"""

from dataclasses import dataclass
from uuid import UUID

from postroom.model import Health, MailboxId, ProviderName
from postroom.ports import Kept, Parameter, Sealed
from postroom.store import credentials
from postroom.store.credentials import Credential
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class Standing:
    """What a mailbox is opened with, and for how many seconds its access token still holds."""

    provider: ProviderName
    health: Health
    last_error: str | None
    credential: Credential
    seconds_left: float


async def look(connection: Connection, mailbox: MailboxId) -> Standing | None:
    """Nothing for a mailbox that is disconnected."""
    cursor = await connection.execute(
        """
        SELECT provider, health, last_error,
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
    return Standing(ProviderName(row[0]), Health(row[1]), row[2], credential, row[3])


async def claim(connection: Connection, mailbox: MailboxId, lease: UUID, *, seconds: float) -> bool:
    cursor = await connection.execute(
        """
        UPDATE credentials SET lease_token = %s, leased_until = postroom_now() + %s * interval '1 second'
        WHERE mailbox_id = %s AND (leased_until IS NULL OR leased_until <= postroom_now())
        """,
        [lease, seconds, mailbox],
    )
    return cursor.rowcount == 1


async def holds(connection: Connection, mailbox: MailboxId, lease: UUID) -> bool:
    cursor = await connection.execute(
        "SELECT 1 FROM credentials WHERE mailbox_id = %s AND lease_token = %s", [mailbox, lease]
    )
    return await cursor.fetchone() is not None


async def release(connection: Connection, mailbox: MailboxId, lease: UUID) -> bool:
    cursor = await connection.execute(
        """
        UPDATE credentials SET lease_token = NULL, leased_until = NULL
        WHERE mailbox_id = %s AND lease_token = %s
        """,
        [mailbox, lease],
    )
    return cursor.rowcount == 1


async def store(
    connection: Connection,
    mailbox: MailboxId,
    lease: UUID,
    *,
    access: Sealed,
    seconds: float,
    grant: Kept | None,
) -> bool:
    """Keep what the provider gave, with the new grant if there is one, and let others go on."""
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
            "grant_key_id": grant.key_id if isinstance(grant, Sealed) else None,
            "sealed_grant": grant.value if isinstance(grant, Sealed) else None,
            "ssm_parameter": grant.name if isinstance(grant, Parameter) else None,
        },
    )
    return cursor.rowcount == 1
