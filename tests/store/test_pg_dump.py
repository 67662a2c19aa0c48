"""A pg_dump by the owner restores all rows and the separation of organizations."""

import asyncio

from databases import session
from postroom.store.embedded.binaries import find_binaries
from postroom.store.roles import APPLICATION
from postroom.store.schema_migrations import read_status
from store.catalog_checks import list_public_grants, list_unguarded_tables
from store.table_filler import TableFiller, organization_column, organization_tables


async def run(*command):
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0


async def test_a_dump_of_the_owner_restores_to_the_same(
    database_url, empty_database_url, owner, organization, other_organization, tmp_path
):
    for each in (organization, other_organization):
        await TableFiller(owner, each).fill()
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
        assert await list_unguarded_tables(copy) == []
        assert await list_public_grants(copy) == []
        for table in await organization_tables(owner):
            original = await (await owner.execute(f"SELECT * FROM {table} ORDER BY 1")).fetchall()
            assert await (await copy.execute(f"SELECT * FROM {table} ORDER BY 1")).fetchall() == original
            cursor = await us.execute(f"SELECT DISTINCT {organization_column(table)} FROM {table}")
            assert await cursor.fetchall() == [(organization,)], table
