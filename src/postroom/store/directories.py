"""The table `directories`: what selects users of a Workspace or tenant, and their common credential.

Its users are in `directory_users`. Secrets are sealed and opened by the caller.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from psycopg.rows import namedtuple_row

from postroom.model import ContentPolicy, CredentialKind, DirectoryId, OrganizationId, ProviderName
from postroom.ports import SealedSecret, SsmParameter, StoredSecret
from postroom.store.database import Connection


class LeaverAction(StrEnum):
    """What happens to the mailbox of a user who leaves. Stored mail always stays."""

    KEEP = "keep"  # keep syncing as long as the provider allows it
    PAUSE = "pause"
    DISCONNECT = "disconnect"


@dataclass(frozen=True, slots=True)
class UserSelection:
    """Which users of a directory are connected. Empty groups, domains and patterns select everyone."""

    groups: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DirectorySettings:
    """What a person chooses about a directory."""

    selection: UserSelection
    policy: ContentPolicy = ContentPolicy.FULL
    folder: str | None = None
    leaver_action: LeaverAction = LeaverAction.PAUSE
    max_leaver_percent: int = 10


@dataclass(frozen=True, slots=True)
class Directory:
    id: DirectoryId
    organization: OrganizationId
    name: str
    provider: ProviderName
    kind: CredentialKind
    tenant_id: str | None
    client_id: str
    admin_address: str | None
    settings: DirectorySettings
    grant: StoredSecret
    added_at: datetime
    listed_at: datetime | None
    listed_users: int | None
    stopped_at: datetime | None
    stop_reason: str | None
    confirmed_leavers: int | None
    last_error: str | None
    removed_at: datetime | None


_COLUMNS = """
    id, organization_id, name, provider, kind, tenant_id, client_id, admin_address, groups, domains, patterns,
    excluded_patterns, content_policy, folder, leaver_action, max_leaver_percent, grant_key_id, sealed_grant,
    ssm_parameter, added_at, listed_at, listed_users, stopped_at, stop_reason, confirmed_leavers, last_error,
    removed_at
"""


async def save(connection: Connection, directory: Directory) -> bool:
    """Insert a directory, or change the one with its id. Returns whether it is new."""
    settings, grant = directory.settings, directory.grant
    cursor = await connection.execute(
        """
        INSERT INTO directories (organization_id, id, name, provider, kind, tenant_id, client_id,
            admin_address, groups, domains, patterns, excluded_patterns, content_policy, folder,
            leaver_action, max_leaver_percent, grant_key_id, sealed_grant, ssm_parameter)
        VALUES (current_organization(), %(id)s, %(name)s, %(provider)s, %(kind)s, %(tenant_id)s,
            %(client_id)s, %(admin_address)s, %(groups)s, %(domains)s, %(patterns)s, %(excluded)s, %(policy)s,
            %(folder)s, %(leaver_action)s, %(max_leaver_percent)s, %(key_id)s, %(sealed)s, %(parameter)s)
        ON CONFLICT (organization_id, id) DO UPDATE SET
            kind = excluded.kind, tenant_id = excluded.tenant_id, client_id = excluded.client_id,
            admin_address = excluded.admin_address, groups = excluded.groups, domains = excluded.domains,
            patterns = excluded.patterns, excluded_patterns = excluded.excluded_patterns,
            content_policy = excluded.content_policy, folder = excluded.folder,
            leaver_action = excluded.leaver_action, max_leaver_percent = excluded.max_leaver_percent,
            grant_key_id = excluded.grant_key_id, sealed_grant = excluded.sealed_grant,
            ssm_parameter = excluded.ssm_parameter, removed_at = NULL, last_error = NULL
        RETURNING xmax = 0
        """,
        {
            "id": directory.id,
            "name": directory.name,
            "provider": directory.provider,
            "kind": directory.kind,
            "tenant_id": directory.tenant_id,
            "client_id": directory.client_id,
            "admin_address": directory.admin_address,
            "groups": list(settings.selection.groups),
            "domains": list(settings.selection.domains),
            "patterns": list(settings.selection.patterns),
            "excluded": list(settings.selection.excluded_patterns),
            "policy": settings.policy,
            "folder": settings.folder,
            "leaver_action": settings.leaver_action,
            "max_leaver_percent": settings.max_leaver_percent,
            "key_id": grant.key_id if isinstance(grant, SealedSecret) else None,
            "sealed": grant.value if isinstance(grant, SealedSecret) else None,
            "parameter": grant.name if isinstance(grant, SsmParameter) else None,
        },
    )
    return await cursor.fetchone() == (True,)


async def get(connection: Connection, directory: DirectoryId) -> Directory | None:
    cursor = connection.cursor(row_factory=namedtuple_row)
    await cursor.execute("SELECT" + _COLUMNS + "FROM directories WHERE id = %s", [directory])
    row = await cursor.fetchone()
    return None if row is None else _to_directory(row)


async def find(connection: Connection, name: str) -> Directory | None:
    cursor = connection.cursor(row_factory=namedtuple_row)
    await cursor.execute("SELECT" + _COLUMNS + "FROM directories WHERE name = %s", [name])
    row = await cursor.fetchone()
    return None if row is None else _to_directory(row)


async def list_all(connection: Connection) -> list[Directory]:
    cursor = connection.cursor(row_factory=namedtuple_row)
    await cursor.execute("SELECT" + _COLUMNS + "FROM directories ORDER BY name")
    return [_to_directory(row) for row in await cursor.fetchall()]


async def record_listing(connection: Connection, directory: DirectoryId, *, listed_users: int) -> None:
    """Record that the directory was listed and applied. What a person confirmed is used up."""
    await connection.execute(
        """
        UPDATE directories SET listed_at = postroom_now(), listed_users = %s, stopped_at = NULL,
            stop_reason = NULL, confirmed_leavers = NULL, last_error = NULL
        WHERE id = %s
        """,
        [listed_users, directory],
    )


async def stop(connection: Connection, directory: DirectoryId, reason: str) -> bool:
    """Record that a person must decide. False if the same is recorded already."""
    cursor = await connection.execute(
        """
        UPDATE directories SET stopped_at = postroom_now(), stop_reason = %(reason)s, confirmed_leavers = NULL
        WHERE id = %(id)s AND stop_reason IS DISTINCT FROM %(reason)s
        """,
        {"id": directory, "reason": reason},
    )
    return cursor.rowcount == 1


async def confirm_leavers(connection: Connection, directory: DirectoryId, count: int) -> None:
    await connection.execute(
        "UPDATE directories SET confirmed_leavers = %s WHERE id = %s", [count, directory]
    )


async def record_error(connection: Connection, directory: DirectoryId, error: str) -> None:
    await connection.execute("UPDATE directories SET last_error = %s WHERE id = %s", [error, directory])


async def mark_removed(connection: Connection, directory: DirectoryId) -> bool:
    cursor = await connection.execute(
        "UPDATE directories SET removed_at = postroom_now() WHERE id = %s AND removed_at IS NULL", [directory]
    )
    return cursor.rowcount == 1


async def delete(connection: Connection, directory: DirectoryId) -> None:
    await connection.execute("DELETE FROM directories WHERE id = %s", [directory])


async def list_outdated_grants(
    connection: Connection, key_id: str
) -> Sequence[tuple[DirectoryId, SealedSecret]]:
    """Grants that are sealed with another key."""
    cursor = await connection.execute(
        "SELECT id, grant_key_id, sealed_grant FROM directories WHERE grant_key_id <> %s FOR UPDATE", [key_id]
    )
    return [(DirectoryId(row[0]), SealedSecret(row[1], row[2])) for row in await cursor.fetchall()]


async def reseal_grant(connection: Connection, directory: DirectoryId, new: SealedSecret) -> None:
    await connection.execute(
        "UPDATE directories SET grant_key_id = %s, sealed_grant = %s WHERE id = %s",
        [new.key_id, new.value, directory],
    )


def _to_directory(row: Any) -> Directory:
    selection = UserSelection(
        tuple(row.groups), tuple(row.domains), tuple(row.patterns), tuple(row.excluded_patterns)
    )
    return Directory(
        id=DirectoryId(row.id),
        organization=OrganizationId(row.organization_id),
        name=row.name,
        provider=ProviderName(row.provider),
        kind=CredentialKind(row.kind),
        tenant_id=row.tenant_id,
        client_id=row.client_id,
        admin_address=row.admin_address,
        settings=DirectorySettings(
            selection,
            ContentPolicy(row.content_policy),
            row.folder,
            LeaverAction(row.leaver_action),
            row.max_leaver_percent,
        ),
        grant=SsmParameter(row.ssm_parameter)
        if row.ssm_parameter
        else SealedSecret(row.grant_key_id, row.sealed_grant),
        added_at=row.added_at,
        listed_at=row.listed_at,
        listed_users=row.listed_users,
        stopped_at=row.stopped_at,
        stop_reason=row.stop_reason,
        confirmed_leavers=row.confirmed_leavers,
        last_error=row.last_error,
        removed_at=row.removed_at,
    )
