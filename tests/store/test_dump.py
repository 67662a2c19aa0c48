"""The owner backs up everything, and what is restored separates organizations as before."""

import asyncio

from databases import session
from postroom.store.embedded.binaries import find_binaries
from postroom.store.roles import APPLICATION
from postroom.store.schema_migrations import read_status
from store.guards import granted_to_everybody, unguarded
from store.rows import Filling, key_of, organization_tables


async def run(*command):
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0


async def test_a_dump_of_the_owner_restores_to_the_same(
    database_url, empty_database_url, owner, organization, other_organization, tmp_path
):
    for each in (organization, other_organization):
        await Filling(owner, each).fill()
    # Those of 18 restore to nothing older than 17.
    programs = find_binaries(16 if owner.info.server_version < 170000 else 18)
    dump = str(tmp_path / "dump")
    await run(programs.program("pg_dump"), "-Fc", "-f", dump, database_url)
    await run(programs.program("pg_restore"), "--exit-on-error", "-d", empty_database_url, dump)

    assert (await read_status(empty_database_url)).current
    async with (
        session(empty_database_url) as copy,
        session(empty_database_url, APPLICATION, organization) as us,
    ):
        assert await unguarded(copy) == []
        assert await granted_to_everybody(copy) == []
        for table in await organization_tables(owner):
            original = await (await owner.execute(f"SELECT * FROM {table} ORDER BY 1")).fetchall()
            assert await (await copy.execute(f"SELECT * FROM {table} ORDER BY 1")).fetchall() == original
            cursor = await us.execute(f"SELECT DISTINCT {key_of(table)} FROM {table}")
            assert await cursor.fetchall() == [(organization,)], table
