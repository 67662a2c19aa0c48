"""Rotate the keys of the vault: count their uses, seal every value again, remove unused keys.

A rotation runs alongside everything else. Rows are read and written back in small transactions, and a value
is replaced only if it is still the one that was read, so a token that was refreshed meanwhile stays. The keys
themselves and the encryption are in `vault`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from postroom.errors import OperatorError, TransientError
from postroom.flow.outbound import deliver, send_notices
from postroom.model import OrganizationId
from postroom.ports import SealedSecret, SecretLocation
from postroom.store import credentials, directories, notices, organizations, webhooks
from postroom.store.connection import Connection
from postroom.store.credentials import OutdatedSecrets
from postroom.store.database import Database
from postroom.vault import KeyFile, KeySource, Sealer

BATCH: Final = 50
PASSES: Final = 3
# Longer than any process takes from sealing a value to committing it.
SETTLED_SECONDS: Final = 600


class KeyState(StrEnum):
    """What a key is used for."""

    SEALS = "seals"
    OPENS = "opens"
    MISSING = "missing"  # values in the database need it, but it is not configured


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A key, and how many values in the database are sealed with it."""

    id: str
    state: KeyState
    values: int


@dataclass(frozen=True, slots=True)
class RotationResult:
    """The result of a rotation: values sealed again, values left with older keys, and unused keys."""

    key_id: str
    sealed: int
    left: int
    unused: Sequence[str]


async def list_key_uses(database: Database, keys: KeySource) -> list[KeyUse]:
    """List every configured or missing key; the one that seals comes first."""
    values = await _count_values_by_key(database)
    known = [key.id for key in keys.list_all()]
    states = [KeyState.SEALS] + [KeyState.OPENS] * len(known)
    there = [KeyUse(key, state, values.get(key, 0)) for key, state in zip(known, states, strict=False)]
    missing = sorted(values.keys() - set(known))
    return there + [KeyUse(key, KeyState.MISSING, values[key]) for key in missing]


async def count_ssm_parameters(database: Database) -> int:
    """Count the grants stored in AWS SSM."""
    count = 0
    for organization in await _list_organizations(database):
        async with database.transaction(organization) as connection:
            count += await credentials.count_parameters(connection)
    return count


async def rotate(database: Database, keys: KeySource, *, new_key: bool) -> RotationResult:
    """Seal every value again that another key sealed.

    With `new_key`, first add a key, if the keys are in a file.

    A process may be about to write a value it sealed with the previous key, so the rows are walked again
    until none is left. The number of passes is limited, since a process may run with other keys.
    """
    found = await _list_organizations(database)  # fails before a key is added if the database is unusable
    if new_key and isinstance(keys, KeyFile):
        keys.add()
    sealed, left, used = 0, 0, list[KeyUse]()
    for _ in range(PASSES):
        sealed += sum([await _reseal_organization(database, Sealer(keys), each) for each in found])
        used = await list_key_uses(database, keys)
        left = sum(key.values for key in used if key.state is not KeyState.SEALS)
        if not left:
            break
    unused = [key.id for key in used if key.state is KeyState.OPENS and not key.values]
    return RotationResult(keys.first().id, sealed, left, unused)


async def remove_keys(database: Database, keys: KeyFile, key_ids: Sequence[str]) -> None:
    """Remove unused keys permanently."""
    known = {use.id: use for use in await list_key_uses(database, keys)}
    for key in key_ids:
        if key not in known or known[key].state is KeyState.MISSING:
            raise OperatorError(f"There is no key {key!a}. `postroom vault status` lists them.")
        if known[key].state is KeyState.SEALS:
            raise OperatorError(f"Key {key} is the current key. Run `postroom vault rotate` first.")
        if known[key].values:
            raise OperatorError(
                f"Key {key} is still in use; values sealed with it: {known[key].values}."
                " Run `postroom vault rotate --finish`; pending logins expire within minutes."
            )
    wait = SETTLED_SECONDS - keys.unchanged_seconds()
    if wait > 0:
        raise TransientError(
            "The keys changed recently, and a process may still write a value sealed with an old one."
            f" Run this again in {wait / 60:.0f} minutes.",
            retry_after=wait,
        )
    keys.remove(key_ids)


async def _count_values_by_key(database: Database) -> Mapping[str, int]:
    values: Counter[str] = Counter()
    for organization in await _list_organizations(database):
        async with database.transaction(organization) as connection:
            values.update(await credentials.count_by_key(connection))
            values.update(await webhooks.count_by_key(connection))
            values.update(await notices.count_by_key(connection))
    return values


async def _list_organizations(database: Database) -> list[OrganizationId]:
    async with database.engine() as connection:
        return await organizations.list_ids(connection)


async def _reseal_organization(database: Database, sealer: Sealer, organization: OrganizationId) -> int:
    done, after = 0, None
    while True:
        key_id = sealer.keys.first().id
        async with database.transaction(organization) as connection:
            rows = await credentials.list_outdated(connection, key_id, after=after, limit=BATCH)
            done += sum([await _reseal_credential(connection, sealer, organization, row) for row in rows])
        if len(rows) < BATCH:
            return done + await _reseal_other_secrets(database, sealer, organization)
        after = rows[-1].mailbox


async def _reseal_other_secrets(database: Database, sealer: Sealer, organization: OrganizationId) -> int:
    """Seal the grants of directories, the secrets of webhooks and the URLs of notices again."""
    done, key_id = 0, sealer.keys.first().id
    async with database.transaction(organization) as connection:
        for directory, old in await directories.list_outdated_grants(connection, key_id):
            if new := _try_reseal(sealer, SecretLocation(organization, directory, "grant").context, old):
                await directories.reseal_grant(connection, directory, new)
                done += 1
        for webhook, old in await webhooks.list_outdated_secrets(connection, key_id):
            if new := _try_reseal(sealer, deliver.secret_context(organization, webhook), old):
                await webhooks.update_secret(connection, webhook, new)
                done += 1
        for destination, old in await notices.list_outdated_urls(connection, key_id):
            if new := _try_reseal(sealer, send_notices.url_context(organization, destination), old):
                await notices.update_url(connection, destination, new)
                done += 1
    return done


async def _reseal_credential(
    connection: Connection, sealer: Sealer, organization: OrganizationId, row: OutdatedSecrets
) -> int:
    done = 0
    if row.grant and (
        new := _try_reseal(sealer, SecretLocation(organization, row.mailbox, "grant").context, row.grant)
    ):
        done += await credentials.reseal_grant(connection, row.mailbox, row.grant, new)
    if row.access and (
        new := _try_reseal(sealer, SecretLocation(organization, row.mailbox, "access").context, row.access)
    ):
        done += await credentials.reseal_access(connection, row.mailbox, row.access, new)
    return done


def _try_reseal(sealer: Sealer, context: str, old: SealedSecret) -> SealedSecret | None:
    """Seal a value again. One that cannot be opened stays as it is and counts as left."""
    try:
        return sealer.seal(context, sealer.open(context, old))
    except OperatorError:
        return None
