"""Create and revoke API keys, each with an entry in the ledger.

A call's key is checked in `web.api.authentication`.
"""

from postroom.errors import PermanentError
from postroom.model import OrganizationId, Scope, Secret
from postroom.store import api_keys, ledger, organizations
from postroom.store.api_keys import ApiKey
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry


async def create(
    database: Database,
    organization: OrganizationId,
    name: str,
    scopes: frozenset[Scope],
    *,
    days: float | None = None,
    actor: str | None = None,
) -> tuple[ApiKey, Secret]:
    """Create a key and return its secret, which is shown only this once."""
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization, f"Organization {organization}")
        seconds = days * 86400 if days is not None else None
        api_key, key = await api_keys.create(
            connection, name.strip()[:200], scopes, seconds=seconds, actor=actor
        )
        entry = NewLedgerEntry(
            "API_KEY_CREATED", "api_key", str(api_key.id), actor, {"scopes": sorted(scopes)}
        )
        await ledger.append_entries(connection, organization, [entry])
    return api_key, key


async def revoke(
    database: Database, organization: OrganizationId, name_or_prefix: str, *, actor: str | None = None
) -> int:
    """Revoke the key with this name or prefix; how many were revoked, one or none.

    Raises PermanentError if several valid keys match.
    """
    async with database.transaction(organization) as connection:
        revoked = await api_keys.revoke(connection, name_or_prefix)
        if len(revoked) > 1:
            prefixes = ", ".join(sorted(key.prefix for key in revoked))
            raise PermanentError(f"Several keys have this name. Give the prefix of one: {prefixes}.")
        entries = [NewLedgerEntry("API_KEY_REVOKED", "api_key", str(key.id), actor) for key in revoked]
        await ledger.append_entries(connection, organization, entries)
    return len(revoked)
