"""Many processes migrate at once; roles with too few rights get an error that says what to grant."""

import asyncio
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from psycopg import sql

from databases import session, with_database
from postroom.errors import SchemaError
from postroom.store import roles
from postroom.store.embedded import start_or_join
from postroom.store.embedded.server import SUPERUSER
from postroom.store.schema_migrations import list_shipped, migrate, read_status

PROGRAM = """
import asyncio, sys
from postroom.store.schema_migrations import migrate
for applied in asyncio.run(migrate(sys.argv[1])):
    print(applied.version)
"""
VERSIONS = [migration.version for migration in list_shipped()]


async def migrate_in_a_process(url: str) -> list[int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, url, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return [int(line) for line in output.split()]


async def test_ten_processes_at_once_apply_each_migration_once(empty_database_url):
    applied = await asyncio.gather(*(migrate_in_a_process(empty_database_url) for _ in range(10)))
    assert sorted(version for each in applied for version in each) == VERSIONS
    assert (await read_status(empty_database_url)).current


@pytest.fixture(scope="module")
def own_server():
    """A server of its own, on which roles may come and go."""
    with start_or_join(Path(os.environ["TEST_SERVERS"]) / f"own-{os.getpid()}") as attached:
        yield with_database(as_role(attached.url, SUPERUSER), "postgres")


@pytest.fixture
async def superuser(own_server):
    async with session(own_server) as connection:
        await remove_databases_and_roles(connection)
        yield connection


async def remove_databases_and_roles(connection):
    cursor = await connection.execute(
        "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'"
    )
    for (name,) in await cursor.fetchall():
        await connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    cursor = await connection.execute(
        "SELECT rolname FROM pg_roles WHERE rolname <> current_user AND rolname NOT LIKE 'pg\\_%'"
    )
    for (name,) in await cursor.fetchall():
        await connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def as_role(url: str, role: str) -> str:
    return urlsplit(url)._replace(netloc=f"{role}@").geturl()


async def test_databases_of_one_server_that_migrate_at_once_share_the_roles(superuser, own_server):
    await superuser.execute("CREATE ROLE maker LOGIN CREATEDB CREATEROLE")
    names = [f"shop_{number}" for number in range(6)]
    for name in names:
        await superuser.execute(sql.SQL("CREATE DATABASE {} OWNER maker").format(sql.Identifier(name)))
    urls = [with_database(as_role(own_server, "maker"), name) for name in names]
    await asyncio.gather(*(migrate(each) for each in urls))
    assert all([(await read_status(each)).current for each in urls])


async def test_a_role_without_rights_gets_the_statements_for_the_administrator(superuser, own_server):
    await superuser.execute('CREATE ROLE "plain Jane" LOGIN')
    await superuser.execute("CREATE DATABASE shop")
    jane = with_database(as_role(own_server, "plain%20Jane"), "shop")
    with pytest.raises(SchemaError) as refusal:
        await migrate(jane)
    remedy = str(refusal.value).splitlines()[1:]
    assert remedy == roles.setup_statements("plain Jane")
    assert (await read_status(jane)).missing_roles == [roles.APPLICATION, roles.ENGINE]
    async with session(with_database(own_server, "shop")) as administrator:
        for _ in range(2):  # an administrator may run them again
            for statement in remedy:
                await administrator.execute(statement)
    assert [applied.version for applied in await migrate(jane)] == VERSIONS


async def test_a_service_role_without_the_group_roles_gets_the_grant(superuser, own_server):
    await superuser.execute("CREATE ROLE maker LOGIN CREATEROLE")
    await superuser.execute("CREATE DATABASE shop OWNER maker")
    await superuser.execute("CREATE ROLE service LOGIN NOINHERIT")
    await migrate(with_database(as_role(own_server, "maker"), "shop"))
    service = with_database(as_role(own_server, "service"), "shop")
    with pytest.raises(SchemaError, match="role service cannot assume the role postroom_engine") as refusal:
        await read_status(service)
    [_, grant] = str(refusal.value).splitlines()
    await superuser.execute(grant)
    assert (await read_status(service)).current


async def test_a_right_that_a_migration_lacks_is_named(superuser, own_server):
    await superuser.execute("CREATE ROLE maker LOGIN CREATEROLE")
    await superuser.execute("CREATE DATABASE shop OWNER maker")
    async with session(with_database(own_server, "shop")) as administrator:
        await administrator.execute("CREATE SCHEMA bo_airflow")
    with pytest.raises(SchemaError, match=r"0008_shared_state .*permission denied for schema bo_airflow"):
        await migrate(with_database(as_role(own_server, "maker"), "shop"))


async def test_a_connection_that_cannot_take_its_role_says_what_to_do(superuser, own_server):
    await superuser.execute("CREATE ROLE jane LOGIN")
    async with session(as_role(own_server, "jane")) as jane:
        with pytest.raises(SchemaError, match=f"GRANT {roles.APPLICATION}"):
            await roles.assume(jane, roles.APPLICATION)
