"""The table `credentials`: the sealed grant and access token of each mailbox, and their resealing.

This module cannot decrypt them: `vault` does. Only the rows of the transaction's organization are visible.
The lease for refreshing a token is in `token_refreshes`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import namedtuple_row

from postroom.model import CredentialKind, DirectoryId, MailboxId
from postroom.ports import SealedSecret, SsmParameter, StoredSecret
from postroom.store.database import Connection


@dataclass(frozen=True, slots=True)
class Credential:
    """A row. Only an application's own credential has a tenant and a client."""

    kind: CredentialKind
    grant: StoredSecret
    scopes: frozenset[str]
    tenant_id: str | None = None
    client_id: str | None = None
    access: SealedSecret | None = None
    access_expires_at: datetime | None = None
    directory: DirectoryId | None = None  # the directory whose grant it is


@dataclass(frozen=True, slots=True)
class OutdatedSecrets:
    """Secrets of a mailbox that are sealed with another key than the current one."""

    mailbox: MailboxId
    grant: SealedSecret | None
    access: SealedSecret | None


async def save(
    connection: Connection,
    mailbox: MailboxId,
    *,
    kind: CredentialKind,
    grant: StoredSecret | None,
    scopes: Collection[str] = (),
    tenant_id: str | None = None,
    client_id: str | None = None,
    access: SealedSecret | None = None,
    access_seconds: float | None = None,
    directory: DirectoryId | None = None,
) -> None:
    """Store or replace the credential of a mailbox: a grant of its own, or that of a directory.

    This ends a lease on the row: a refresh of the previous grant must not overwrite this one.
    """
    await connection.execute(
        """
        INSERT INTO credentials (organization_id, mailbox_id, kind, tenant_id, client_id, scopes,
            grant_key_id, sealed_grant, ssm_parameter, directory_id, access_key_id, sealed_access,
            access_expires_at)
        VALUES (current_organization(), %(mailbox)s, %(kind)s, %(tenant_id)s, %(client_id)s, %(scopes)s,
            %(grant_key_id)s, %(sealed_grant)s, %(ssm_parameter)s, %(directory)s, %(access_key_id)s,
            %(sealed_access)s, postroom_now() + %(access_seconds)s * interval '1 second')
        ON CONFLICT (organization_id, mailbox_id) DO UPDATE SET
            kind = excluded.kind, tenant_id = excluded.tenant_id, client_id = excluded.client_id,
            scopes = excluded.scopes, grant_key_id = excluded.grant_key_id,
            sealed_grant = excluded.sealed_grant, ssm_parameter = excluded.ssm_parameter,
            directory_id = excluded.directory_id,
            access_key_id = excluded.access_key_id, sealed_access = excluded.sealed_access,
            access_expires_at = excluded.access_expires_at,
            lease_token = NULL, leased_until = NULL, updated_at = postroom_now()
        """,
        {
            "mailbox": mailbox,
            "kind": kind,
            "tenant_id": tenant_id,
            "client_id": client_id,
            "scopes": sorted(scopes),
            "grant_key_id": grant.key_id if isinstance(grant, SealedSecret) else None,
            "sealed_grant": grant.value if isinstance(grant, SealedSecret) else None,
            "ssm_parameter": grant.name if isinstance(grant, SsmParameter) else None,
            "directory": directory,
            "access_key_id": access.key_id if access else None,
            "sealed_access": access.value if access else None,
            "access_seconds": access_seconds,
        },
    )


async def load(connection: Connection, mailbox: MailboxId) -> Credential | None:
    cursor = connection.cursor(row_factory=namedtuple_row)
    await cursor.execute(
        """
        SELECT coalesce(directories.kind, credentials.kind) AS kind,
            coalesce(directories.tenant_id, credentials.tenant_id) AS tenant_id,
            coalesce(directories.client_id, credentials.client_id) AS client_id, scopes,
            coalesce(directories.grant_key_id, credentials.grant_key_id) AS grant_key_id,
            coalesce(directories.sealed_grant, credentials.sealed_grant) AS sealed_grant,
            coalesce(directories.ssm_parameter, credentials.ssm_parameter) AS ssm_parameter,
            access_key_id, sealed_access, access_expires_at, directory_id
        FROM credentials LEFT JOIN directories ON directories.id = directory_id WHERE mailbox_id = %s
        """,
        [mailbox],
    )
    row = await cursor.fetchone()
    return None if row is None else _to_credential(row)


async def delete(connection: Connection, mailbox: MailboxId) -> Credential | None:
    """Delete the row and return its credential, so that the caller can remove it from the vault."""
    found = await load(connection, mailbox)
    await connection.execute("DELETE FROM credentials WHERE mailbox_id = %s", [mailbox])
    return found


async def list_mailboxes_of_application(connection: Connection, client_id: str) -> list[MailboxId]:
    """Mailboxes with a credential of their own for this application."""
    cursor = await connection.execute(
        """
        SELECT mailbox_id FROM credentials WHERE client_id = %s AND directory_id IS NULL ORDER BY mailbox_id
        """,
        [client_id],
    )
    return [MailboxId(row[0]) for row in await cursor.fetchall()]


async def count_by_directory(connection: Connection, directory: DirectoryId) -> int:
    """Count the mailboxes that use a directory's grant."""
    cursor = await connection.execute("SELECT count(*) FROM credentials WHERE directory_id = %s", [directory])
    [(count,)] = await cursor.fetchall()
    return count


async def replace_grant(
    connection: Connection, mailbox: MailboxId, client_id: str, kind: CredentialKind, grant: StoredSecret
) -> bool:
    """Replace the application's secret or certificate. Ends a running refresh."""
    cursor = await connection.execute(
        """
        UPDATE credentials SET kind = %(kind)s, grant_key_id = %(key_id)s, sealed_grant = %(sealed)s,
            ssm_parameter = %(parameter)s, lease_token = NULL, leased_until = NULL,
            updated_at = postroom_now()
        WHERE mailbox_id = %(mailbox)s AND client_id = %(client_id)s
        """,
        {
            "mailbox": mailbox,
            "client_id": client_id,
            "kind": kind,
            "key_id": grant.key_id if isinstance(grant, SealedSecret) else None,
            "sealed": grant.value if isinstance(grant, SealedSecret) else None,
            "parameter": grant.name if isinstance(grant, SsmParameter) else None,
        },
    )
    return cursor.rowcount == 1


async def list_outdated(
    connection: Connection, key_id: str, *, after: MailboxId | None, limit: int
) -> list[OutdatedSecrets]:
    """The next rows, by mailbox, with a secret that is sealed with another key."""
    cursor = await connection.execute(
        """
        SELECT mailbox_id, grant_key_id, sealed_grant, access_key_id, sealed_access FROM credentials
        WHERE mailbox_id > %(after)s AND (grant_key_id <> %(key_id)s OR access_key_id <> %(key_id)s)
        ORDER BY mailbox_id LIMIT %(limit)s
        """,
        {"after": after or UUID(int=0), "key_id": key_id, "limit": limit},
    )
    return [
        OutdatedSecrets(
            row[0], _outdated_value(key_id, row[1], row[2]), _outdated_value(key_id, row[3], row[4])
        )
        for row in await cursor.fetchall()
    ]


async def reseal_grant(
    connection: Connection, mailbox: MailboxId, old: SealedSecret, new: SealedSecret
) -> bool:
    """Replace a resealed grant, unless the grant has changed meanwhile."""
    cursor = await connection.execute(
        """
        UPDATE credentials SET grant_key_id = %s, sealed_grant = %s
        WHERE mailbox_id = %s AND grant_key_id = %s AND sealed_grant = %s
        """,
        [new.key_id, new.value, mailbox, old.key_id, old.value],
    )
    return cursor.rowcount == 1


async def reseal_access(
    connection: Connection, mailbox: MailboxId, old: SealedSecret, new: SealedSecret
) -> bool:
    """Replace a resealed access token, unless the token has changed meanwhile."""
    cursor = await connection.execute(
        """
        UPDATE credentials SET access_key_id = %s, sealed_access = %s
        WHERE mailbox_id = %s AND access_key_id = %s AND sealed_access = %s
        """,
        [new.key_id, new.value, mailbox, old.key_id, old.value],
    )
    return cursor.rowcount == 1


async def count_by_key(connection: Connection) -> Mapping[str, int]:
    """Count the organization's sealed values per key. Expired logins do not count."""
    cursor = await connection.execute(
        """
        SELECT key_id, count(*) FROM (
            SELECT grant_key_id AS key_id FROM credentials
            UNION ALL SELECT access_key_id FROM credentials
            UNION ALL SELECT grant_key_id FROM directories
            UNION ALL SELECT key_id FROM oauth_states WHERE expires_at > (SELECT postroom_now())
        ) AS sealed
        WHERE key_id IS NOT NULL GROUP BY key_id
        """
    )
    return dict(await cursor.fetchall())


async def count_parameters(connection: Connection) -> int:
    """Count the organization's grants that are stored in AWS SSM."""
    cursor = await connection.execute(
        """
        SELECT (SELECT count(ssm_parameter) FROM credentials)
            + (SELECT count(ssm_parameter) FROM directories)
        """
    )
    [(count,)] = await cursor.fetchall()
    return count


def _to_credential(row: Any) -> Credential:
    grant = (
        SsmParameter(row.ssm_parameter)
        if row.ssm_parameter
        else SealedSecret(row.grant_key_id, row.sealed_grant)
    )
    return Credential(
        kind=CredentialKind(row.kind),
        grant=grant,
        scopes=frozenset(row.scopes),
        tenant_id=row.tenant_id,
        client_id=row.client_id,
        access=SealedSecret(row.access_key_id, row.sealed_access) if row.access_key_id else None,
        access_expires_at=row.access_expires_at,
        directory=DirectoryId(row.directory_id) if row.directory_id else None,
    )


def _outdated_value(current: str, key_id: str | None, value: bytes | None) -> SealedSecret | None:
    return SealedSecret(key_id, value) if key_id and value and key_id != current else None
