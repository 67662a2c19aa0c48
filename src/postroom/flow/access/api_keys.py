"""API keys: made and revoked, each with an entry in the ledger."""

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
    """A key, shown this once."""
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization, f"Organization {organization}")
        seconds = days * 86400 if days is not None else None
        made, key = await api_keys.create(
            connection, name.strip()[:200], scopes, seconds=seconds, actor=actor
        )
        entry = NewLedgerEntry("API_KEY_CREATED", "api_key", str(made.id), actor, {"scopes": sorted(scopes)})
        await ledger.append_entries(connection, organization, [entry])
    return made, key


async def revoke(
    database: Database, organization: OrganizationId, named: str, *, actor: str | None = None
) -> int:
    """How many were good until now and are called so: one or none. Of several, one must be named better."""
    async with database.transaction(organization) as connection:
        gone = await api_keys.revoke(connection, named)
        if len(gone) > 1:
            beginnings = ", ".join(sorted(each.prefix for each in gone))
            raise PermanentError(f"Several keys are called so. Name one by its beginning: {beginnings}.")
        entries = [NewLedgerEntry("API_KEY_REVOKED", "api_key", str(each.id), actor) for each in gone]
        await ledger.append_entries(connection, organization, entries)
    return len(gone)
