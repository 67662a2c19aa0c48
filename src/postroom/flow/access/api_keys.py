"""Create and revoke API keys, and record the calls of some, each with an entry in the ledger.

A call's key is checked in `web.api.authentication`.
"""

from collections.abc import Mapping
from typing import Final

from postroom.errors import PermanentError
from postroom.model import OrganizationId, Scope, Secret
from postroom.store import api_keys, ledger, organizations
from postroom.store.api_keys import ApiKey
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry

# The actor of a call is this and the id of its key.
ACTOR_PREFIX: Final = "key:"


async def create(
    database: Database,
    organization: OrganizationId,
    name: str,
    scopes: frozenset[Scope],
    *,
    days: float | None = None,
    actor: str | None = None,
    records_calls: bool = False,
) -> tuple[ApiKey, Secret]:
    """Create a key and return its secret, which is shown only this once."""
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization)
        seconds = days * 86400 if days is not None else None
        api_key, key = await api_keys.create(
            connection,
            name.strip()[:200],
            scopes,
            seconds=seconds,
            actor=actor,
            records_calls=records_calls,
        )
        payload = {"scopes": sorted(scopes), "records_calls": records_calls}
        entry = NewLedgerEntry("API_KEY_CREATED", "api_key", str(api_key.id), actor, payload)
        await ledger.append_entries(connection, organization, [entry])
    return api_key, key


async def record_call(
    database: Database,
    organization: OrganizationId,
    actor: str,
    operation: str,
    *,
    path: Mapping[str, str],
    query: Mapping[str, str],
    rejection: str | None = None,
) -> None:
    """Record a call before it is executed, or why it was rejected.

    Queries can contain personal data, such as words to search for, and so can the path of a rejected call,
    which may not be valid.
    """
    payload = {"operation": operation, "path": dict(path)}
    personal = dict(query)
    if rejection is not None:
        payload = {"operation": operation, "rejection": rejection}
        personal |= path
    entry = NewLedgerEntry(
        "API_CALLED",
        "api_key",
        actor.removeprefix(ACTOR_PREFIX),
        actor,
        payload,
        personal=personal or None,
    )
    async with database.transaction(organization) as connection:
        await ledger.append_entries(connection, organization, [entry])


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
