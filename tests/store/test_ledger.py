"""The ledger is append-only for every role."""

import asyncio
from hashlib import sha256

import pytest
from psycopg import errors

from databases import session
from postroom.store.roles import APPLICATION, ENGINE

DIGEST = sha256(b"example").digest()
MAC = bytes(8) + DIGEST
NUMBER_ALL = """
    SELECT entry_id, entry_position FROM number_ledger(
        ARRAY(SELECT id FROM ledger WHERE position IS NULL ORDER BY id LIMIT 10))
"""


async def write(connection, organization, *, personal=False):
    cursor = await connection.execute(
        """
        INSERT INTO ledger (organization_id, event_type, entity_type, entity_id, sha256, mac)
        VALUES (%s, 'SYNC_STARTED', 'mailbox', '1', %s, %s) RETURNING id
        """,
        [organization, DIGEST, MAC],
    )
    [(entry,)] = await cursor.fetchall()
    if personal:
        await connection.execute(
            "INSERT INTO ledger_personal VALUES (%s, %s, %s, '{}')", [organization, entry, DIGEST]
        )
    return entry


async def add_seal(connection, organization, position):
    await connection.execute(
        """
        INSERT INTO seals (organization_id, number, first_position, last_position, sha256, signature, key_id)
        VALUES (%s, 1, %s, %s, %s, %s, 'example')
        """,
        [organization, position, position, DIGEST, DIGEST],
    )


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
    "UPDATE ledger_purges SET entry_id = 1",
    "DELETE FROM ledger_purges",
    "TRUNCATE ledger_purges",
    "UPDATE ledger_personal SET personal = '[]'",
    "TRUNCATE ledger_personal",
    "UPDATE seals SET number = 2",
    "DELETE FROM seals",
    "TRUNCATE seals",
]


@pytest.mark.parametrize("role", [APPLICATION, ENGINE])
async def test_application_and_engine_roles_cannot_change_entries(database_url, organization, role):
    async with session(database_url, role, organization) as connection:
        for statement in [*REFUSED, "UPDATE ledger SET position = 1", "DELETE FROM ledger_personal"]:
            with pytest.raises(errors.InsufficientPrivilege):
                await connection.execute(statement)


async def test_even_the_owner_cannot_change_entries(owner, organization):
    entry = await write(owner, organization, personal=True)
    await owner.execute(
        "INSERT INTO ledger_purges VALUES (%s, %s, %s, %s)", [organization, entry, entry, MAC]
    )
    await owner.execute("UPDATE ledger SET position = 1")
    await write(owner, organization)
    await add_seal(owner, organization, 1)
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
    for deleted in ([(entry, DIGEST)], []):
        cursor = await application.execute("SELECT * FROM delete_ledger_personal(ARRAY[%s])", [entry])
        assert await cursor.fetchall() == deleted
    cursor = await application.execute("SELECT id FROM ledger")
    assert await cursor.fetchall() == [(entry,)]


async def test_purge_and_numbering_reach_only_their_own_organization(
    owner, application, organization, other_organization
):
    theirs = await write(owner, other_organization, personal=True)
    for function in (b"delete_ledger_personal", b"number_ledger"):
        cursor = await application.execute(b"SELECT * FROM %s(ARRAY[%d])" % (function, theirs))
        assert await cursor.fetchall() == []


async def test_entry_without_a_mac_is_rejected(owner, organization):
    with pytest.raises(errors.CheckViolation):
        await owner.execute(
            """
            INSERT INTO ledger (organization_id, event_type, entity_type, entity_id, sha256)
            VALUES (%s, 'SYNC_STARTED', 'mailbox', '1', %s)
            """,
            [organization, DIGEST],
        )


async def test_entries_are_numbered_once_in_the_given_order(application, organization):
    entries = [await write(application, organization) for _ in range(3)]
    for places in ([(entries[2], 1), (entries[0], 2)], []):
        cursor = await application.execute("SELECT * FROM number_ledger(%s)", [[entries[2], entries[0]]])
        assert await cursor.fetchall() == places


async def test_late_commit_is_numbered_after_earlier_commits(database_url, application, organization):
    async with session(database_url, APPLICATION, organization) as slow:
        async with slow.transaction():
            late = await write(slow, organization)
            early = await write(application, organization)
            cursor = await application.execute(NUMBER_ALL)
            assert await cursor.fetchall() == [(early, 1)]
        await add_seal(application, organization, 1)
        cursor = await application.execute(NUMBER_ALL)
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
            await application.execute(NUMBER_ALL)
            waiting = asyncio.create_task(second.execute(NUMBER_ALL))
            await until_it_waits(owner, second)
        assert (await waiting).rowcount == 0
    await add_seal(application, organization, 1)
    entry = await write(application, organization)
    cursor = await application.execute(NUMBER_ALL)
    assert await cursor.fetchall() == [(entry, 2)]
