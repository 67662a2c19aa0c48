"""C3: every value is sealed again or kept as it is; an old key is removed only once nothing needs it."""

import os
import time
from pathlib import Path

import pytest

from postroom.errors import OperatorError, TransientError
from postroom.flow.storage import key_rotation
from postroom.flow.storage.key_rotation import KeyState, KeyUse, RotationResult
from postroom.model import CredentialKind, SealingKey, Secret
from postroom.ports import SecretLocation, SsmParameter
from postroom.store import credentials
from postroom.vault import ConfiguredKeys, KeyFile, LocalVault, Sealer

OLD, NEW, NEWEST = (SealingKey(name, name[-1].encode() * 32) for name in ("old", "new", "newest"))


@pytest.fixture
def keys(tmp_path):
    return KeyFile(tmp_path)


@pytest.fixture
def connect(database, make_mailbox):
    """Connect a mailbox, its grant and its access token sealed with these keys."""

    async def act(organization, keys):
        mailbox = await make_mailbox(organization)
        vault = LocalVault(Sealer(keys))
        grant, access = (
            SecretLocation(organization, mailbox, "grant"),
            SecretLocation(organization, mailbox, "access"),
        )
        async with database.transaction(organization) as connection:
            await credentials.save(
                connection,
                mailbox,
                kind=CredentialKind.DELEGATED,
                grant=await vault.store(grant, Secret(f"grant {mailbox}")),
                access=await vault.store(access, Secret(f"access {mailbox}")),
            )
        return organization, mailbox

    return act


@pytest.fixture
def opens(database):
    """Whether both secrets of a mailbox open with these keys and are what they were."""

    async def act(keys, organization, mailbox):
        async with database.transaction(organization) as connection:
            row = await credentials.load(connection, mailbox)
        vault = LocalVault(Sealer(keys))
        grant = await vault.fetch(SecretLocation(organization, mailbox, "grant"), row.grant)
        access = await vault.fetch(SecretLocation(organization, mailbox, "access"), row.access)
        return (grant, access) == (Secret(f"grant {mailbox}"), Secret(f"access {mailbox}"))

    return act


def let_settle(keys):
    """As if the keys had last changed a while ago."""
    Path(keys.source).touch()
    os.utime(keys.source, (time.time(), time.time() - key_rotation.SETTLED_SECONDS - 1))


async def test_the_values_of_every_organization_are_sealed_with_a_new_key(
    database, connect, opens, make_organization, keys
):
    old = keys.first().id
    organizations = [await make_organization() for _ in range(3)]
    places = [await connect(each, keys) for each in organizations for _ in range(key_rotation.BATCH + 5)]
    done = await key_rotation.rotate(database, keys, new_key=True)
    new = keys.first()
    assert done == RotationResult(new.id, 2 * len(places), 0, [old])
    assert await key_rotation.list_key_uses(database, keys) == [
        KeyUse(new.id, KeyState.SEALS, 2 * len(places)),
        KeyUse(old, KeyState.OPENS, 0),
    ]
    assert all([await opens(ConfiguredKeys((new,)), *place) for place in places])


async def test_a_rotation_that_stopped_half_way_is_finished_without_another_key(
    database, connect, organization, keys
):
    await connect(organization, keys)
    old, new = keys.first().id, keys.add().id
    await connect(organization, keys)
    assert await key_rotation.rotate(database, keys, new_key=False) == RotationResult(new, 2, 0, [old])
    assert await key_rotation.rotate(database, keys, new_key=False) == RotationResult(new, 0, 0, [old])


async def test_given_keys_are_used_in_their_order_and_none_is_made(database, connect, opens, organization):
    place = await connect(organization, ConfiguredKeys((OLD,)))
    done = await key_rotation.rotate(database, ConfiguredKeys((NEW, OLD)), new_key=True)
    assert done == RotationResult("new", 2, 0, ["old"])
    assert await opens(ConfiguredKeys((NEW,)), *place)


async def test_a_value_whose_key_is_missing_stays_and_is_reported(database, connect, opens, organization):
    lost = await connect(organization, ConfiguredKeys((OLD,)))
    found = await connect(organization, ConfiguredKeys((NEW,)))
    have = ConfiguredKeys((NEWEST, NEW))
    assert await key_rotation.rotate(database, have, new_key=False) == RotationResult("newest", 2, 2, ["new"])
    assert await opens(ConfiguredKeys((OLD,)), *lost)
    assert await opens(ConfiguredKeys((NEWEST,)), *found)
    assert (await key_rotation.list_key_uses(database, have))[-1] == KeyUse("old", KeyState.MISSING, 2)


async def test_grants_in_ssm_are_counted_and_left_where_they_are(database, organization, make_mailbox, keys):
    mailbox = await make_mailbox(organization)
    kept = SsmParameter("/postroom/x")
    async with database.transaction(organization) as connection:
        await credentials.save(connection, mailbox, kind=CredentialKind.DELEGATED, grant=kept)
    assert (await key_rotation.rotate(database, keys, new_key=True)).sealed == 0
    assert await key_rotation.count_ssm_parameters(database) == 1
    async with database.transaction(organization) as connection:
        assert (await credentials.load(connection, mailbox)).grant == kept


async def test_a_key_that_is_needed_or_seals_or_is_not_there_is_not_forgotten(
    database, connect, organization, keys
):
    await connect(organization, keys)
    old, new = keys.first(), keys.add()
    let_settle(keys)
    for key_id, words in ((old.id, "sealed with it: 2"), (new.id, "the current key"), ("x", "no key 'x'")):
        with pytest.raises(OperatorError, match=words):
            await key_rotation.remove_keys(database, keys, [key_id])
    assert list(keys.list_all()) == [new, old]


async def test_a_key_is_forgotten_once_no_write_can_still_use_it(database, connect, organization, keys):
    await connect(organization, keys)
    older = keys.first()
    old = keys.add()
    await key_rotation.rotate(database, keys, new_key=True)
    with pytest.raises(TransientError, match="10 minutes"):
        await key_rotation.remove_keys(database, keys, [old.id])
    let_settle(keys)
    await key_rotation.remove_keys(database, keys, [old.id, older.id])
    assert [key.id for key in keys.list_all()] == [keys.first().id]
