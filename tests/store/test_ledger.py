"""The ledger is append-only for every role."""

import asyncio
from hashlib import sha256

import pytest
from psycopg import errors

from databases import session
from postroom.store.roles import APPLICATION, ENGINE

DIGEST = sha256(b"example").digest()


async def write(connection, organization, *, personal=False):
    cursor = await connection.execute(
        """
        INSERT INTO ledger (organization_id, event_type, entity_type, entity_id, sha256)
        VALUES (%s, 'SYNC_STARTED', 'mailbox', '1', %s) RETURNING id
        """,
        [organization, DIGEST],
    )
    [(entry,)] = await cursor.fetchall()
    if personal:
        await connection.execute(
            "INSERT INTO ledger_personal VALUES (%s, %s, %s, '{}')", [organization, entry, DIGEST]
        )
    return entry


@pytest.fixture
async def application(database_url, organization):
    async with session(database_url, APPLICATION, organization) as connection:
        yield connection


REFUSED = [
    "UPDATE ledger SET event_type = 'NOTHING'",
    "UPDATE ledger SET position = 2 WHERE position = 1",
    "UPDATE ledger SET position = NULL",
    "UPDATE ledger SET position = 7, payload = '[]' WHERE position IS NULL",
    "DELETE FROM ledger",
    "TRUNCATE ledger CASCADE",
    "UPDATE ledger_personal SET personal = '[]'",
    "TRUNCATE ledger_personal",
    "UPDATE seals SET number = 2",
    "DELETE FROM seals",
    "TRUNCATE seals",
]


@pytest.mark.parametrize("role", [APPLICATION, ENGINE])
async def test_application_and_engine_roles_cannot_change_entries(database_url, organization, role):
    async with session(database_url, role, organization) as connection:
        for statement in [*REFUSED, "UPDATE ledger SET position = 1"]:
            with pytest.raises(errors.InsufficientPrivilege):
                await connection.execute(statement)


async def test_even_the_owner_cannot_change_entries(owner, organization):
    await write(owner, organization, personal=True)
    await owner.execute("UPDATE ledger SET position = 1")
    await write(owner, organization)
    await owner.execute(
        """
        INSERT INTO seals (organization_id, number, first_position, last_position, sha256, signature, key_id)
        VALUES (%s, 1, 1, 1, %s, %s, 'example')
        """,
        [organization, DIGEST, DIGEST],
    )
    for statement in REFUSED:
        with pytest.raises(errors.RestrictViolation, match="append-only"):
            await owner.execute(statement)


async def test_an_entry_is_written_without_a_position(application, organization):
    with pytest.raises(errors.InsufficientPrivilege):
        await application.execute(
            """
            INSERT INTO ledger (organization_id, event_type, entity_type, entity_id, sha256, position)
            VALUES (%s, 'SYNC_STARTED', 'mailbox', '1', %s, 1)
            """,
            [organization, DIGEST],
        )


async def test_a_purge_deletes_the_personal_values_and_keeps_the_entry(application, organization):
    entry = await write(application, organization, personal=True)
    assert (await application.execute("DELETE FROM ledger_personal")).rowcount == 1
    cursor = await application.execute("SELECT id FROM ledger")
    assert await cursor.fetchall() == [(entry,)]


async def test_entries_are_numbered_once_in_order_without_gaps(application, organization):
    entries = [await write(application, organization) for _ in range(5)]
    numbered = []
    for _ in range(4):
        cursor = await application.execute("SELECT * FROM number_ledger(2)")
        numbered += await cursor.fetchall()
    assert numbered == [(entry, place, DIGEST) for place, entry in enumerate(entries, start=1)]


async def test_late_commit_is_numbered_after_earlier_commits(database_url, application, organization):
    async with session(database_url, APPLICATION, organization) as slow:
        async with slow.transaction():
            late = await write(slow, organization)
            early = await write(application, organization)
            cursor = await application.execute("SELECT entry_id, entry_position FROM number_ledger(10)")
            assert await cursor.fetchall() == [(early, 1)]
        cursor = await application.execute("SELECT entry_id, entry_position FROM number_ledger(10)")
        assert await cursor.fetchall() == [(late, 2)]


async def until_it_waits(owner, connection):
    async def waits():
        cursor = await owner.execute(
            "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s",
            [connection.info.backend_pid],
        )
        return await cursor.fetchone()

    while await waits() != (True,):  # noqa: ASYNC110  # the server sends no event
        await asyncio.sleep(0.01)


async def test_concurrent_sealers_never_assign_a_position_twice(
    database_url, owner, application, organization
):
    await write(application, organization)
    async with session(database_url, APPLICATION, organization) as second:
        async with application.transaction():
            await application.execute("SELECT * FROM number_ledger(10)")
            waiting = asyncio.create_task(second.execute("SELECT * FROM number_ledger(10)"))
            await until_it_waits(owner, second)
        assert (await waiting).rowcount == 0
    await write(application, organization)
    cursor = await application.execute("SELECT entry_position FROM number_ledger(10)")
    assert await cursor.fetchall() == [(2,)]


async def test_sealer_numbers_only_its_own_organization(
    database_url, owner, application, organization, other_organization
):
    await write(owner, other_organization)
    cursor = await application.execute("SELECT * FROM number_ledger(10)")
    assert await cursor.fetchall() == []
    async with session(database_url, APPLICATION) as unassigned:
        cursor = await unassigned.execute("SELECT * FROM number_ledger(10)")
        assert await cursor.fetchall() == []
