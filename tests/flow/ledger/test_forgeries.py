"""K4: `ledger verify` finds every forgery by a database superuser who does not have the keys.

Each forgery starts from an intact ledger: three seals, a purged entry, and entries that are not sealed yet.
The forger disables triggers and checks, and computes plain digests as Postroom does. The sealer then runs
once more, so that it could sign what was forged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import pytest
import structlog
from psycopg.types.json import Jsonb

import databases
from ledger_sealing import check_signature, seal_ledger
from postroom.flow.ledger import verification
from postroom.store import ledger
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.ledger import LedgerEntry, NewLedgerEntry
from postroom.vault import LedgerHeads

TABLES = ("ledger", "ledger_personal", "ledger_purges", "seals")
FORGED = NewLedgerEntry("MEMBER_ADDED", "member", "forged", "command line", {"role": "admin"})
INSERT = """
    INSERT INTO ledger (organization_id, id, position, event_type, entity_type, entity_id, actor_id, payload,
        personal_sha256, sha256, mac, occurred_at)
    OVERRIDING SYSTEM VALUE VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


@dataclass
class ForgedLedger:
    """An organization's ledger in the hands of a forger."""

    database: Database
    owner: Connection
    organization: UUID
    home: Path
    purged: Sequence[object] = ()  # a copy of the purged personal values, made before the purge

    async def write(self, *names, personal=None):
        entries = [NewLedgerEntry("MESSAGE_INGESTED", "message", name, personal=personal) for name in names]
        async with self.database.transaction(self.organization) as connection:
            await ledger.append_entries(connection, self.organization, entries)

    async def seal(self):
        await seal_ledger(self.database, self.home, self.organization)

    async def verify(self):
        heads = LedgerHeads(self.home).list_known(self.organization)
        return await verification.verify(self.database, self.organization, check_signature, heads=heads)

    async def entries(self) -> list[LedgerEntry]:
        """All entries, oldest first."""
        async with self.database.transaction(self.organization) as connection:
            return (await ledger.list_newest(connection, limit=100))[::-1]

    async def execute(self, *statements: str):
        for statement in statements:
            await self.owner.execute(statement.encode())

    async def insert(self, *, entry_id=9999, position=None, digest=None, mac=None, like=None):
        """Insert a row: a forged entry with its correct digest, or a copy of another entry."""
        [(now,)] = await (await self.owner.execute("SELECT postroom_now()")).fetchall()
        content, when = like or FORGED, like.occurred_at if like else now
        personal = like.personal_sha256 if like else None
        digest = digest or ledger.entry_digest(self.organization, content, personal, when)
        await self.owner.execute(
            INSERT,
            [
                self.organization,
                entry_id,
                position,
                content.event_type,
                content.entity_type,
                content.entity_id,
                content.actor_id,
                Jsonb(content.payload),
                personal,
                digest,
                mac,
                when,
            ],
        )

    async def rewrite(self, entry: LedgerEntry, **changes):
        """Change an entry, and set its digest to the correct one."""
        changed = replace(entry, **changes)
        digest = ledger.entry_digest(self.organization, changed, changed.personal_sha256, changed.occurred_at)
        await self.owner.execute(
            "UPDATE ledger SET entity_id = %s, actor_id = %s, sha256 = %s WHERE id = %s",
            [changed.entity_id, changed.actor_id, digest, entry.id],
        )

    async def chain_again(self, *, version=2):
        """Recompute the digests of all seals. Signatures need a key that the forger does not have."""
        previous = None
        async with self.database.transaction(self.organization) as connection:
            seals = await ledger.list_seals(connection, after=0, limit=100)
        for seal in seals:
            async with self.database.transaction(self.organization) as connection:
                covered = await ledger.list_between(
                    connection, seal.first_position, seal.last_position, limit=100
                )
            digest = ledger.seal_digest(
                previous, seal.number, seal.first_position, seal.last_position, covered, version=version
            )
            await self.owner.execute(
                "UPDATE seals SET previous_sha256 = %s, sha256 = %s, version = %s WHERE number = %s",
                [previous, digest, version, seal.number],
            )
            previous = digest


@pytest.fixture
async def forged(database_url, owner, organization, tmp_path):
    async with databases.open_pools(database_url) as database:
        forged = ForgedLedger(database, owner, organization, tmp_path)
        await forged.write("a", "b", "c", personal={"address": "jane@example.org"})
        await forged.seal()
        cursor = await owner.execute("SELECT * FROM ledger_personal ORDER BY entry_id LIMIT 1")
        [forged.purged] = await cursor.fetchall()
        async with database.transaction(organization) as connection:
            await ledger.purge_personal(connection, "message", ["a"])
        await forged.seal()
        await forged.write("d", "e")
        await forged.seal()
        await forged.write("f", "g")
        assert (await forged.verify()).faults == []
        for table in TABLES:
            await forged.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        await forged.execute("ALTER TABLE ledger DROP CONSTRAINT ledger_mac_check")
        yield forged


async def insert_below_the_first_position(forged):
    await forged.insert(position=-5, digest=bytes(32), mac=bytes(40))


async def insert_far_ahead(forged):
    await forged.insert(position=1_000_000, digest=bytes(32), mac=bytes(40))


async def insert_for_the_sealer_without_a_mac(forged):
    await forged.insert()


async def insert_for_the_sealer_with_an_invented_mac(forged):
    await forged.insert(mac=bytes(40))


async def insert_for_the_sealer_with_the_key_id_of_a_real_mac(forged):
    [real, *_] = await forged.entries()
    await forged.insert(mac=real.mac[:8] + bytes(32))


async def insert_a_copy_of_a_real_entry(forged):
    *_, real = await forged.entries()
    await forged.insert(like=real, mac=real.mac)


async def repeat_a_sealed_entry_with_its_id(forged):
    """Its MAC is valid: it covers the id."""
    real = (await forged.entries())[4]
    await forged.execute("ALTER TABLE ledger DROP CONSTRAINT ledger_pkey CASCADE")
    await forged.insert(entry_id=real.id, like=real, mac=real.mac)


async def repeat_a_seal(forged):
    await forged.execute(
        "ALTER TABLE seals DROP CONSTRAINT seals_pkey",
        "ALTER TABLE seals DROP CONSTRAINT seals_organization_id_first_position_key",
        "INSERT INTO seals SELECT * FROM seals WHERE number = 2",
    )


async def remove_the_digest_of_an_entry(forged):
    await forged.execute(
        "ALTER TABLE ledger ALTER COLUMN sha256 DROP NOT NULL",
        "UPDATE ledger SET sha256 = NULL WHERE position IS NULL",
    )


async def move_an_entry_to_the_end_of_time(forged):
    await forged.execute("UPDATE ledger SET occurred_at = 'infinity' WHERE position = 2")


async def write_a_number_that_python_does_not_read(forged):
    await forged.execute("""UPDATE ledger SET payload = '{"count": 1e5000}' WHERE position = 2""")


async def insert_with_a_negative_id(forged):
    await forged.insert(entry_id=-1)


async def insert_as_an_entry_of_an_earlier_version(forged):
    await forged.owner.execute("INSERT INTO ledger_boundaries VALUES (%s, 10000)", [forged.organization])
    await forged.insert()


async def delete_personal_values_as_if_purged(forged):
    await forged.execute("DELETE FROM ledger_personal")


async def delete_personal_values_with_a_copied_purge(forged):
    [_, target, *_] = await forged.entries()
    await forged.owner.execute("DELETE FROM ledger_personal WHERE entry_id = %s", [target.id])
    await forged.owner.execute(
        "INSERT INTO ledger_purges SELECT organization_id, %s, purge_entry_id, mac FROM ledger_purges",
        [target.id],
    )


async def tie_a_purge_to_another_entry(forged):
    await forged.execute("UPDATE ledger_purges SET purge_entry_id = (SELECT max(id) FROM ledger)")


async def remove_the_record_of_a_purge(forged):
    await forged.execute("DELETE FROM ledger_purges")


async def bring_purged_values_back(forged):
    [purged, *_] = await forged.entries()
    await forged.owner.execute(
        "INSERT INTO ledger_personal VALUES (%s, %s, %s, '{}')", [forged.organization, purged.id, bytes(32)]
    )


async def undo_a_purge_with_its_record(forged):
    await forged.execute("DELETE FROM ledger_purges")
    organization, entry, salt, personal = forged.purged
    await forged.owner.execute(
        "INSERT INTO ledger_personal VALUES (%s, %s, %s, %s)", [organization, entry, salt, Jsonb(personal)]
    )


async def delete_personal_values_with_a_purge_of_an_invented_key(forged):
    [_, target, *_] = await forged.entries()
    await forged.owner.execute("DELETE FROM ledger_personal WHERE entry_id = %s", [target.id])
    await forged.owner.execute(
        "INSERT INTO ledger_purges SELECT organization_id, %s, purge_entry_id, %s FROM ledger_purges",
        [target.id, bytes(40)],
    )


async def add_personal_values_to_an_entry_without_any(forged):
    *_, entry = await forged.entries()
    await forged.owner.execute(
        "INSERT INTO ledger_personal VALUES (%s, %s, %s, '{}')", [forged.organization, entry.id, bytes(32)]
    )


async def change_a_sealed_entry_and_its_digest(forged):
    [entry, *_] = await forged.entries()
    await forged.rewrite(entry, actor_id="member:other")
    await forged.chain_again()


async def change_an_unsealed_entry_and_its_digest(forged):
    *_, entry = await forged.entries()
    await forged.rewrite(entry, entity_id="other")


async def swap_the_positions_of_two_entries(forged):
    await forged.execute(
        "UPDATE ledger SET position = -1 WHERE position = 2",
        "UPDATE ledger SET position = 2 WHERE position = 3",
        "UPDATE ledger SET position = 3 WHERE position = -1",
    )


async def swap_the_ids_of_two_entries(forged):
    *_, first, second = await forged.entries()
    await forged.execute("ALTER TABLE ledger ALTER COLUMN id SET GENERATED BY DEFAULT")
    for before, after in ((first.id, -1), (second.id, first.id), (-1, second.id)):
        await forged.owner.execute("UPDATE ledger SET id = %s WHERE id = %s", [after, before])


async def delete_an_entry_and_close_the_gap(forged):
    await forged.execute(
        "DELETE FROM ledger WHERE position = 5",
        "UPDATE ledger SET position = 5 WHERE position = 6",
        "UPDATE seals SET last_position = 5 WHERE number = 3",
    )
    await forged.chain_again()


async def delete_the_last_seal_with_its_entries(forged):
    await forged.execute(
        "DELETE FROM seals WHERE number = 3", "DELETE FROM ledger WHERE position > 4 OR position IS NULL"
    )


async def unseal_entries_and_delete_one(forged):
    await forged.execute(
        "DELETE FROM seals WHERE number = 3",
        "DELETE FROM ledger WHERE position = 5",
        "UPDATE ledger SET position = NULL WHERE position > 4",
    )


async def delete_all_seals(forged):
    await forged.execute("DELETE FROM seals", "UPDATE ledger SET position = NULL")
    await forged.execute("DELETE FROM ledger WHERE entity_id = 'e'")


async def delete_everything(forged):
    await forged.execute(
        "DELETE FROM ledger_purges", "DELETE FROM ledger_personal", "DELETE FROM seals", "DELETE FROM ledger"
    )


async def remove_the_mac_of_an_entry(forged):
    await forged.execute("UPDATE ledger SET mac = NULL WHERE position = 2")


async def pretend_that_an_earlier_version_wrote_everything(forged):
    await forged.execute("UPDATE ledger SET mac = NULL")
    await forged.owner.execute("INSERT INTO ledger_boundaries VALUES (%s, 10000)", [forged.organization])
    await forged.chain_again(version=1)


async def add_a_seal_before_the_first(forged):
    await forged.insert(position=-5, mac=bytes(40))
    await forged.execute(
        """
        INSERT INTO seals
        SELECT organization_id, 0, -5, -5, NULL, sha256, signature, key_id, sealed_at, version
        FROM seals WHERE number = 1
        """
    )


async def stretch_a_seal_over_a_billion_positions(forged):
    await forged.execute("UPDATE seals SET last_position = 1000000000 WHERE number = 3")


async def sign_with_another_key(forged):
    await forged.execute("UPDATE seals SET key_id = 'mine', signature = sha256(sha256)")


FORGERIES = {
    insert_below_the_first_position: "outside the seals",
    insert_far_ahead: "outside the seals",
    insert_for_the_sealer_without_a_mac: "entry 9999 has no MAC",
    insert_for_the_sealer_with_an_invented_mac: "entry 9999 has a MAC of the key 0000",
    insert_for_the_sealer_with_the_key_id_of_a_real_mac: "entry 9999 has an invalid MAC",
    insert_a_copy_of_a_real_entry: "entry 9999 has an invalid MAC",
    repeat_a_sealed_entry_with_its_id: "1 entries have the id of another entry",
    repeat_a_seal: "1 seals have the number of another seal",
    remove_the_digest_of_an_entry: "cannot be read",
    move_an_entry_to_the_end_of_time: "cannot be read",
    write_a_number_that_python_does_not_read: "cannot be read",
    insert_with_a_negative_id: "entry -1 has no MAC",
    insert_as_an_entry_of_an_earlier_version: "entry 9999 has no MAC",
    delete_personal_values_as_if_purged: "deleted without a purge",
    delete_personal_values_with_a_copied_purge: "has an invalid MAC",
    tie_a_purge_to_another_entry: "not a purge",
    remove_the_record_of_a_purge: "deleted without a purge",
    bring_purged_values_back: "are back after their purge",
    undo_a_purge_with_its_record: "records 1 purges, but 0 entries name it",
    delete_personal_values_with_a_purge_of_an_invented_key: "has a MAC of the key 0000",
    add_personal_values_to_an_entry_without_any: "personal values of entry",
    change_a_sealed_entry_and_its_digest: "invalid MAC",
    change_an_unsealed_entry_and_its_digest: "invalid MAC",
    swap_the_positions_of_two_entries: "does not match its entries",
    swap_the_ids_of_two_entries: "invalid MAC",
    delete_an_entry_and_close_the_gap: "invalid signature",
    delete_the_last_seal_with_its_entries: "truncated",
    unseal_entries_and_delete_one: "truncated",
    delete_all_seals: "truncated",
    delete_everything: "truncated",
    remove_the_mac_of_an_entry: "has no MAC",
    pretend_that_an_earlier_version_wrote_everything: "invalid signature",
    add_a_seal_before_the_first: "numbers below 1",
    stretch_a_seal_over_a_billion_positions: "covers missing entries",
    sign_with_another_key: "unknown key",
}


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
async def test_forgery_is_found(forged, forge):
    await forge(forged)
    assert any(FORGERIES[forge] in fault for fault in (await forged.verify()).faults)
    await forged.seal()
    await forged.write("later")
    await forged.seal()
    found = await forged.verify()
    assert any(FORGERIES[forge] in fault for fault in found.faults), found.faults


@pytest.mark.parametrize(
    "forge, event, level",
    [
        (insert_for_the_sealer_without_a_mac, "ledger.entries_forged", "error"),
        (insert_a_copy_of_a_real_entry, "ledger.entries_forged", "error"),
        (repeat_a_sealed_entry_with_its_id, "ledger.entries_forged", "error"),
        (insert_for_the_sealer_with_an_invented_mac, "ledger.entries_waiting", "warning"),
    ],
)
async def test_sealer_distinguishes_forged_entries_from_those_of_an_unknown_key(forged, forge, event, level):
    await forge(forged)
    with structlog.testing.capture_logs() as lines:
        await forged.seal()
    assert [(line["event"], line["log_level"], line["count"]) for line in lines] == [(event, level, 1)]
    cursor = await forged.owner.execute("SELECT id FROM ledger WHERE position IS NULL")
    assert len(await cursor.fetchall()) == 1, "it seals all others"


async def test_untouched_ledger_stays_intact(forged):
    await forged.seal()
    await forged.write("later")
    await forged.seal()
    found = await forged.verify()
    assert (found.faults, found.entries, found.purged, found.unsealed) == ([], 9, 1, 0)
