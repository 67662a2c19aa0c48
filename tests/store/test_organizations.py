"""Organizations are inserted by whichever process needs them first."""

import asyncio
from uuid import uuid4

import databases
from postroom.model import OrganizationId
from postroom.store import organizations


async def test_processes_that_insert_the_same_organization_at_once_all_succeed(service_url, owner):
    async with databases.open_pools(service_url, pool_size=12) as database:
        for _ in range(30):
            organization = OrganizationId(uuid4())

            async def ensure(organization=organization):
                async with database.transaction(organization) as connection:
                    await organizations.ensure(connection, organization)

            await asyncio.gather(*(ensure() for _ in range(6)))
            cursor = await owner.execute("SELECT count(*) FROM organizations WHERE id = %s", [organization])
            assert await cursor.fetchone() == (1,)
