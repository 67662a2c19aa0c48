"""Pools recover after the server closed all connections, as it does when it restarts."""

import asyncio

import pytest

from postroom.errors import DatabaseUnavailable
from postroom.store.database import open_database

NAME = "postroom tests of the pool"


async def end_all(owner):
    await owner.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = %s", [NAME]
    )


async def test_connections_closed_while_idle_are_not_handed_out(database_url, owner, organization):
    async with open_database(database_url, pool_size=8, name=NAME) as database:

        async def one():
            async with database.transaction(organization) as connection:
                await asyncio.sleep(0.05)  # so that they are connections of their own
                await connection.execute("SELECT 1")

        await asyncio.gather(*(one() for _ in range(5)))
        await end_all(owner)
        await asyncio.gather(*(one() for _ in range(10)))


async def test_one_failure_drops_all_dead_connections(database_url, owner, organization):
    async with open_database(database_url, pool_size=8, name=NAME) as database:

        async def ended_meanwhile():
            async with database.transaction(organization) as connection:
                await end_all(owner)
                await connection.execute("SELECT 1")

        with pytest.raises(DatabaseUnavailable):
            await ended_meanwhile()
        async with database.transaction(organization) as connection:
            await connection.execute("SELECT 1")
