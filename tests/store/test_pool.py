"""Connections in a pool when the server ends them all, as it does when it restarts."""

import asyncio

import pytest

from postroom.errors import DatabaseUnavailable
from postroom.store.database import open_database

NAME = "postroom tests of the pool"


async def test_one_failure_is_enough_when_every_connection_was_ended(database_url, owner, organization):
    async with open_database(database_url, pool_size=8, name=NAME) as database:

        async def one():
            async with database.transaction(organization) as connection:
                await asyncio.sleep(0.05)  # so that they are connections of their own
                await connection.execute("SELECT 1")

        await asyncio.gather(*(one() for _ in range(5)))
        await owner.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = %s",
            [NAME],
        )
        with pytest.raises(DatabaseUnavailable):
            await one()
        for _ in range(5):
            await one()
