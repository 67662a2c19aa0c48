"""The table `api_keys`: create, list, revoke and find the keys that programs authenticate with.

Only a digest of each key is stored.
"""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final
from uuid import UUID

from psycopg.rows import class_row

from postroom.model import OrganizationId, Scope, Secret
from postroom.store.database import Connection

PREFIX: Final = "pr_"
SHOWN_CHARACTERS: Final = 8


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: UUID
    name: str
    prefix: str
    scopes: list[str]
    created_by: str | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    records_calls: bool


@dataclass(frozen=True, slots=True)
class ApiKeyBearer:
    """The owner of an API key and its scopes."""

    id: UUID
    organization: OrganizationId
    scopes: frozenset[Scope]
    records_calls: bool


_READ = """
    SELECT id, name, prefix, scopes, created_by, created_at, expires_at, last_used_at, revoked_at,
        records_calls
    FROM api_keys
"""


def digest(key: Secret) -> bytes:
    return sha256(key.reveal().encode()).digest()


async def create(
    connection: Connection,
    name: str,
    scopes: frozenset[Scope],
    *,
    seconds: float | None,
    actor: str | None = None,
    records_calls: bool = False,
) -> tuple[ApiKey, Secret]:
    """Create a key for the transaction's organization. The secret is returned only here."""
    key = Secret(PREFIX + token_urlsafe(32))
    cursor = connection.cursor(row_factory=class_row(ApiKey))
    await cursor.execute(
        """
        INSERT INTO api_keys (organization_id, name, prefix, key_sha256, scopes, created_by, records_calls,
            expires_at)
        VALUES (current_organization(), %s, %s, %s, %s, %s, %s, postroom_now() + %s * interval '1 second')
        RETURNING id, name, prefix, scopes, created_by, created_at, expires_at, last_used_at, revoked_at,
            records_calls
        """,
        [
            name,
            key.reveal()[: len(PREFIX) + SHOWN_CHARACTERS],
            digest(key),
            sorted(scopes),
            actor,
            records_calls,
            seconds,
        ],
    )
    row = await cursor.fetchone()
    assert row is not None, "an INSERT returns its row"
    return row, key


async def list_all(connection: Connection) -> list[ApiKey]:
    cursor = connection.cursor(row_factory=class_row(ApiKey))
    await cursor.execute(_READ + " ORDER BY created_at, id")
    return await cursor.fetchall()


async def get(connection: Connection, key: UUID) -> ApiKey | None:
    cursor = connection.cursor(row_factory=class_row(ApiKey))
    await cursor.execute(_READ + " WHERE id = %s", [key])
    return await cursor.fetchone()


async def revoke(connection: Connection, named: str) -> list[ApiKey]:
    """Revoke the valid keys with this id, prefix or name, and return them."""
    cursor = connection.cursor(row_factory=class_row(ApiKey))
    await cursor.execute(
        """
        UPDATE api_keys SET revoked_at = postroom_now()
        WHERE %(named)s IN (id::text, prefix, name) AND revoked_at IS NULL
        RETURNING id, name, prefix, scopes, created_by, created_at, expires_at, last_used_at, revoked_at,
            records_calls
        """,
        {"named": named},
    )
    return await cursor.fetchall()


async def find_bearer(engine: Connection, key: Secret) -> ApiKeyBearer | None:
    """The bearer of a key. None if it is unknown, revoked or expired. Requires the engine role."""
    cursor = await engine.execute(
        """
        SELECT id, organization_id, scopes, records_calls FROM api_keys
        WHERE key_sha256 = %s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > postroom_now())
        """,
        [digest(key)],
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    valid = {scope.value for scope in Scope}
    return ApiKeyBearer(
        row[0], OrganizationId(row[1]), frozenset(Scope(scope) for scope in row[2] if scope in valid), row[3]
    )


async def record_use(connection: Connection, key: UUID) -> None:
    await connection.execute("UPDATE api_keys SET last_used_at = postroom_now() WHERE id = %s", [key])
