"""K4: the ledger is append-only: tampering is detected, purges are no tampering, and writers never wait."""

import asyncio
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from ledger_sealing import check_signature, run_seal, seal_ledger
from postroom.flow.ledger import seal, verification
from postroom.model import WorkKind
from postroom.ports import SealedSecret
from postroom.store import feed, ledger, webhooks, work
from postroom.store.ledger import NewLedgerEntry
from postroom.vault import LedgerHeads

ADDRESS = {"address": "jane@example.org"}


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
def seal_now(database, organization, tmp_path):
    async def seal_now():
        await seal_ledger(database, tmp_path, organization)

    return seal_now


@pytest.fixture
def proof(database, organization):
    async def proof(**options):
        return await verification.verify(database, organization, check_signature, **options)

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
    await write(ledger.MAX_SEALED + 10)
    await seal_now()
    found = await proof()
    assert (found.faults, found.entries, found.seals) == ([], ledger.MAX_SEALED + 10, 2)
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
    assert "truncated" in (await proof(heads=[kept])).faults[0]


async def test_a_head_from_before_is_still_in_a_longer_ledger(write, seal_now, proof):
    await write(1)
    await seal_now()
    kept = (await proof()).head
    await write(1)
    await seal_now()
    assert (await proof(heads=[kept])).faults == []


async def test_a_purge_is_reported_as_purged_not_as_broken(write, seal_now, proof, database, organization):
    await write(3, personal=ADDRESS)
    await seal_now()
    async with database.transaction(organization) as connection:
        await ledger.purge_personal(connection, "message", ["0", "1"])
        await ledger.purge_personal(connection, "message", ["1"])  # nothing is left to purge or to record
    for unsealed in (1, 0):
        found = await proof()
        assert (found.faults, found.purged, found.unsealed) == ([], 2, unsealed)
        await seal_now()
    async with database.transaction(organization) as connection:
        newest, *_ = await ledger.list_newest(connection, limit=1)
    assert (newest.event_type, newest.payload) == ("PERSONAL_VALUES_PURGED", {"entries": 2})


async def test_sealing_keeps_the_newest_head_unless_the_kept_one_is_gone(
    write, seal_now, proof, owner, organization, tmp_path
):
    heads = LedgerHeads(tmp_path)
    for number in (1, 2):
        await write(1)
        await seal_now()
        assert heads.load()[organization].startswith(f"{number}:")
    kept = heads.load()[organization]
    async with without_triggers(owner):
        await owner.execute("DELETE FROM seals WHERE number = 2")
        await owner.execute("DELETE FROM ledger WHERE position = 2")
    for _ in range(2):
        await write(1)
        await seal_now()
    assert heads.load()[organization] == kept
    assert "truncated" in (await proof(heads=[kept])).faults[0]


async def test_published_heads_reveal_a_truncation_if_the_home_is_lost_too(
    write, proof, database, organization, owner, tmp_path
):
    heads = LedgerHeads(tmp_path / "home", tmp_path / "published")
    for _ in range(2):
        await write(1)
        await seal_ledger(database, heads, organization)
    [first, second] = (line.split()[1:] for line in heads.published.read_text().splitlines())
    assert [first[0], second[0]] == [str(organization)] * 2
    assert second[1] == heads.load()[organization] != first[1]
    heads.path.unlink()
    async with without_triggers(owner):
        await owner.execute("DELETE FROM seals")
        await owner.execute("DELETE FROM ledger")
    found = await proof(heads=heads.list_known(organization))
    assert [second[1] in fault and "truncated" in fault for fault in found.faults] == [True]


async def test_head_of_a_truncated_ledger_is_not_published(
    write, proof, database, organization, owner, tmp_path
):
    """Deleting the kept heads does not help a forger: the next head must extend the published ones too."""
    heads = LedgerHeads(tmp_path / "home", tmp_path / "published")
    for _ in range(3):
        await write(1)
        await seal_ledger(database, heads, organization)
    published = heads.published.read_text()
    heads.path.unlink()
    async with without_triggers(owner):
        await owner.execute("DELETE FROM seals WHERE number > 1")
        await owner.execute("DELETE FROM ledger WHERE position > 1")
    for _ in range(3):
        await write(1)
        await seal_ledger(database, heads, organization)
    assert (heads.published.read_text(), heads.path.exists()) == (published, False)
    newest = published.split()[-1]
    found = await proof(heads=heads.list_known(organization))
    assert [fault for fault in found.faults if newest in fault and "1 other known" in fault]


async def test_every_published_head_must_be_in_the_ledger(
    write, proof, database, organization, owner, tmp_path
):
    heads = LedgerHeads(tmp_path / "home", tmp_path / "published")
    for _ in range(2):
        await write(1)
        await seal_ledger(database, heads, organization)
    first, second = heads.published.read_text().splitlines()
    heads.published.write_text(f"{first.replace(' 1:', ' 9:')}\n{second}\n")
    found = await proof(heads=heads.list_known(organization))
    assert ["head 9:" in fault for fault in found.faults] == [True]


async def test_head_that_cannot_be_published_is_not_kept_until_it_can(
    write, database, organization, owner, tmp_path
):
    heads = LedgerHeads(tmp_path / "home", tmp_path / "published")
    heads.published.mkdir()
    await write(1)
    await seal_ledger(database, heads, organization)
    assert heads.load() == {}
    cursor = await owner.execute("SELECT state, last_error FROM work WHERE kind = 'seal'")
    assert await cursor.fetchall() == [("waiting", None)], "due again, and the feed does not wait for it"
    heads.published.rmdir()
    await seal_ledger(database, heads, organization)  # nothing is left to seal
    assert heads.published.read_text().split()[1:] == [str(organization), heads.load()[organization]]


async def test_head_is_published_to_webhooks_that_select_it(write, seal_now, proof, database, organization):
    await write(1)
    await seal_now()
    async with database.transaction(organization) as connection:
        assert await feed.assign_positions(connection) == 0, "no webhook selects it"
        secret = SealedSecret("k1", b"sealed")
        await webhooks.add(connection, uuid4(), "https://example.com/hook", ["ledger.sealed"], secret)
    await write(2)
    for _ in range(3):  # the event itself makes sealing due; nothing is sealed, and nothing published
        await seal_now()
    async with database.transaction(organization) as connection:
        published = await feed.list_after(connection, 0, 10)
    assert [(event.kind, event.entity_id, event.data) for event in published] == [
        ("ledger.sealed", str(organization), {"head": (await proof()).head, "entries": 3})
    ]


async def test_long_ledger_of_small_seals_is_verified_in_batches(write, seal_now, proof, owner):
    """More seals than one batch loads, with batches that end between two seals."""
    for count in [3] * 5 + [1] * 110 + [1500]:
        await write(count)
        await seal_now()
    found = await proof()
    assert (found.faults, found.entries, found.seals) == ([], 1625, 117)
    async with without_triggers(owner):
        await owner.execute("UPDATE ledger SET entity_id = 'changed' WHERE position IN (101, 1001, 1625)")
    assert len((await proof()).faults) == 3


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


async def test_committed_entries_make_sealing_due_whenever_they_came(
    database, write, organization, owner, tmp_path
):
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
    await run_seal(database, tmp_path, lease)
    await write(1)  # while the listener runs
    assert await due() == [(str(organization),)]
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
