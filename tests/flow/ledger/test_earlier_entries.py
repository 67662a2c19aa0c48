"""Entries of versions without MACs stay verifiable, and none can be added later."""

import pytest

import databases
from ledger_sealing import SIGNER, check_signature, seal_ledger
from postroom.flow.ledger import verification
from postroom.store import ledger
from postroom.store.ledger import NewLedgerEntry

ADDRESS = {"address": "jane@example.org"}


@pytest.fixture
async def database(database_url):
    async with databases.open_pools(database_url) as database:
        yield database


@pytest.fixture
def write(database, organization):
    async def write(*names):
        entries = [NewLedgerEntry("MESSAGE_INGESTED", "message", name, personal=ADDRESS) for name in names]
        async with database.transaction(organization) as connection:
            await ledger.append_entries(connection, organization, entries)

    return write


@pytest.fixture
def proof(database, organization):
    async def proof():
        return await verification.verify(database, organization, check_signature)

    return proof


@pytest.fixture
async def upgraded(database, write, owner, organization):
    """A ledger as an earlier version left it: one seal, an unrecorded purge, and two unsealed entries."""
    await write("a", "b")
    await owner.execute("ALTER TABLE ledger DISABLE TRIGGER USER")
    await owner.execute("ALTER TABLE ledger DROP CONSTRAINT ledger_mac_check")
    await owner.execute("UPDATE ledger SET mac = NULL")
    async with database.transaction(organization) as connection:
        entries = await ledger.list_entries_to_seal(connection, after=0, limit=10)
        await ledger.seal_entries(connection, organization, SIGNER, entries, None, version=1)
    await owner.execute("DELETE FROM ledger_personal WHERE entry_id = (SELECT min(id) FROM ledger)")
    await write("c", "d")
    await owner.execute("UPDATE ledger SET mac = NULL")
    await owner.execute("INSERT INTO ledger_boundaries SELECT %s, max(id) FROM ledger", [organization])


@pytest.mark.usefixtures("upgraded")
async def test_entries_without_macs_stay_verifiable(database, write, proof, owner, organization, tmp_path):
    found = await proof()
    assert (found.faults, found.without_mac, found.purged, found.unsealed) == ([], 4, 1, 2)
    assert found.authenticated_from is None
    await write("e")
    await seal_ledger(database, tmp_path, organization)
    await seal_ledger(database, tmp_path, organization)
    found = await proof()
    assert (found.faults, found.without_mac, found.purged, found.unsealed) == ([], 4, 1, 0)
    assert found.authenticated_from == 5
    cursor = await owner.execute("SELECT version, last_position FROM seals ORDER BY number")
    assert await cursor.fetchall() == [(1, 2), (1, 4), (2, 7)]
    cursor = await owner.execute("SELECT event_type, payload FROM ledger ORDER BY position DESC LIMIT 2")
    assert await cursor.fetchall() == [
        ("LEDGER_AUTHENTICATION_STARTED", {"earlier_entries": 4}),
        ("PERSONAL_VALUES_PURGED", {"entries": 1}),
    ]


@pytest.mark.usefixtures("upgraded")
async def test_earlier_ledger_is_sealed_once_even_if_nothing_is_added(
    database, proof, owner, organization, tmp_path
):
    """An idle organization must not accept entries without a MAC for longer than the others."""
    await owner.execute(
        "DELETE FROM ledger_personal WHERE entry_id IN (SELECT id FROM ledger WHERE position IS NULL)"
    )
    await owner.execute("DELETE FROM ledger WHERE position IS NULL")
    for due in ([organization], []):
        async with database.engine() as connection:
            assert await ledger.list_organizations_to_seal(connection) == due
        await seal_ledger(database, tmp_path, organization)
    await owner.execute(
        """
        INSERT INTO ledger (organization_id, id, event_type, entity_type, entity_id, sha256)
        OVERRIDING SYSTEM VALUE SELECT %s, last_entry_id, 'MEMBER_ADDED', 'member', 'forged', sha256('')
        FROM ledger_boundaries
        """,
        [organization],
    )
    await seal_ledger(database, tmp_path, organization)
    found = await proof()
    assert (found.unsealed, found.authenticated_from) == (1, 3)
    assert any("has no MAC" in fault for fault in found.faults)


@pytest.mark.usefixtures("upgraded")
async def test_entry_without_a_mac_is_a_forgery_once_macs_are_sealed(
    database, write, proof, owner, organization, tmp_path
):
    await write("e")
    await seal_ledger(database, tmp_path, organization)
    await write("f")
    await owner.execute("UPDATE ledger_boundaries SET last_entry_id = 10000")
    await owner.execute("UPDATE ledger SET mac = NULL WHERE entity_id = 'f'")
    await owner.execute(
        "DELETE FROM ledger_personal WHERE entry_id = (SELECT min(entry_id) FROM ledger_personal)"
    )
    await seal_ledger(database, tmp_path, organization)
    found = await proof()
    assert found.unsealed == 1
    assert [fault.partition(" entry ")[0].partition(" ")[0] for fault in found.faults] == ["the", "entry"]
    assert "deleted without a purge" in found.faults[0]
    assert "has no MAC" in found.faults[1]
