"""K4: an append-only ledger whose tampering shows, whose purges do not, and whose writers never wait."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from postroom.flow.ledger import seal
from postroom.model import WorkKind
from postroom.store import ledger, work
from postroom.store.database import open_database
from postroom.store.ledger import NewLedgerEntry, Signer

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SIGNER = Signer("k1", KEY.sign)
ADDRESS = {"address": "jane@example.org"}


def check(key_id, signature, signed):
    if key_id != SIGNER.key_id:
        return None
    try:
        KEY.public_key().verify(signature, signed)
    except InvalidSignature:
        return False
    return True


@pytest.fixture
async def database(service_url):
    async with open_database(service_url, pool_size=12, name="postroom tests") as database:
        yield database


@pytest.fixture
def write(database, organization):
    async def write(count=1, *, personal=None):
        async with database.transaction(organization) as connection:
            entries = [
                NewLedgerEntry(
                    "message_stored", "message", str(number), payload={"size": number}, personal=personal
                )
                for number in range(count)
            ]
            await ledger.append_entries(connection, organization, entries)

    return write


@pytest.fixture
def seal_now(database, organization):
    async def seal_now():
        async with database.engine() as connection:
            await work.enqueue(connection, [work.WorkRequest(organization, WorkKind.SEAL, str(organization))])
            [lease] = (await work.claim(connection, [WorkKind.SEAL], batch=1, lease_seconds=60)).leases
        await seal.run(database, SIGNER, lease)

    return seal_now


@pytest.fixture
def proof(database, organization):
    async def proof(**options):
        return await seal.verify(database, organization, check, **options)

    return proof


@asynccontextmanager
async def without_triggers(owner):
    """What a person with the owner role could do."""
    for table in ("ledger", "ledger_personal", "seals"):
        await owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER".encode())
    yield


async def test_what_was_written_is_sealed_and_proven(write, seal_now, proof):
    await write(3, personal=ADDRESS)
    await seal_now()
    await write(2)
    await seal_now()
    await write(1)
    found = await proof()
    assert found.faults == []
    assert (found.entries, found.seals, found.unsealed, found.purged) == (6, 2, 1, 0)
    assert found.head.startswith("2:")


async def test_a_ledger_longer_than_a_batch_is_sealed_in_several(write, seal_now, proof, owner):
    await write(seal.BATCH + 10)
    await seal_now()
    found = await proof()
    assert (found.faults, found.entries, found.seals) == ([], seal.BATCH + 10, 2)
    cursor = await owner.execute("SELECT count(*) FROM work")
    assert await cursor.fetchone() == (0,)


async def test_the_application_role_cannot_change_the_ledger(write, database, organization, owner):
    await write(1)
    for statement in (
        "UPDATE ledger SET entity_id = 'x'",
        "DELETE FROM ledger",
        "TRUNCATE ledger CASCADE",
        "UPDATE ledger SET position = 5",
    ):
        with pytest.raises(Exception, match=r"append-only|permission denied|lacks a right"):
            async with database.transaction(organization) as connection:
                await connection.execute(statement.encode())
    with pytest.raises(Exception, match="append-only"):
        await owner.execute("UPDATE ledger SET entity_id = 'x'")


@pytest.mark.parametrize(
    "tampering, words",
    [
        ("UPDATE ledger SET payload = '{\"size\": 9}' WHERE position = 2", "was changed"),
        ("UPDATE ledger SET occurred_at = occurred_at + interval '1 s' WHERE position = 2", "was changed"),
        (
            'UPDATE ledger_personal SET personal = \'{"address": "x@example.org"}\'',
            "personal values of entry",
        ),
        ("DELETE FROM ledger_personal; DELETE FROM ledger WHERE position = 2", "covers missing entries"),
        ("UPDATE ledger SET sha256 = sha256(sha256) WHERE position = 2", "does not match its entries"),
        ("UPDATE seals SET signature = sha256(signature)", "invalid signature"),
        ("UPDATE seals SET key_id = 'k2'", "unknown key"),
        ("DELETE FROM seals WHERE number = 1", "one is missing"),
        ("UPDATE seals SET previous_sha256 = sha256('') WHERE number = 2", "not chained"),
    ],
)
async def test_tampering_shows(write, seal_now, proof, owner, tampering, words):
    for _ in range(2):
        await write(3, personal=ADDRESS)
        await seal_now()
    async with without_triggers(owner):
        await owner.execute(tampering.encode())
    assert any(words in fault for fault in (await proof()).faults)


async def test_an_earlier_head_reveals_a_truncated_ledger(write, seal_now, proof, owner):
    for _ in range(2):
        await write(2)
        await seal_now()
    kept = (await proof()).head
    async with without_triggers(owner):
        await owner.execute("DELETE FROM seals WHERE number = 2")
        await owner.execute("DELETE FROM ledger WHERE position > 2")
    assert (await proof()).faults == [], "without the head there is nothing to compare with"
    assert "truncated" in (await proof(head=kept)).faults[0]


async def test_a_head_from_before_is_still_in_a_longer_ledger(write, seal_now, proof):
    await write(1)
    await seal_now()
    kept = (await proof()).head
    await write(1)
    await seal_now()
    assert (await proof(head=kept)).faults == []


async def test_a_purge_is_reported_as_purged_not_as_broken(write, seal_now, proof, database, organization):
    await write(3, personal=ADDRESS)
    await seal_now()
    async with database.transaction(organization) as connection:
        await connection.execute("DELETE FROM ledger_personal")
    found = await proof()
    assert (found.faults, found.purged) == ([], 3)


async def test_an_entry_of_a_slow_transaction_is_sealed_after_it_commits(
    write, seal_now, proof, database, organization, owner
):
    """Ids come in the order of writing, positions in the order of committing; none is skipped."""
    async with database.transaction(organization) as slow:
        await ledger.append_entries(slow, organization, [NewLedgerEntry("sync_started", "mailbox", "slow")])
        await write(2)
        await seal_now()
    await seal_now()
    cursor = await owner.execute("SELECT position, entity_id FROM ledger ORDER BY position")
    assert await cursor.fetchall() == [(1, "0"), (2, "1"), (3, "slow")]
    assert (await proof()).faults == []


async def test_committed_entries_make_sealing_due_whenever_they_came(database, write, organization, owner):
    async def due():
        async with asyncio.timeout(30):
            while True:
                cursor = await owner.execute("SELECT subject FROM work WHERE kind = 'seal'")
                if rows := await cursor.fetchall():
                    return rows
                await asyncio.sleep(0.02)

    await write(1)  # before anybody listens
    listening = asyncio.create_task(seal.keep_scheduled(database))
    assert await due() == [(str(organization),)]
    async with database.engine() as connection:
        [lease] = (await work.claim(connection, [WorkKind.SEAL], batch=1, lease_seconds=60)).leases
    await seal.run(database, SIGNER, lease)
    await write(1)  # while the listener runs
    assert await due() == [(str(organization),)]
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
