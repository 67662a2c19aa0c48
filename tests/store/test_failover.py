"""Y3: processes find the new primary by themselves, and a failover that lost commits repeats no number."""

import asyncio
import time
from uuid import uuid4

import pytest

import databases
from postroom.errors import DatabaseUnavailable
from postroom.model import OrganizationId, WorkKind
from postroom.store import feed, organizations, work
from postroom.store.schema_migrations import migrate
from replicas import replicated_server


async def create_organization(url):
    organization = OrganizationId(uuid4())
    async with databases.session(url) as owner:
        await organizations.ensure(owner, organization)
    return organization


async def append(database, organization, *, until_it_works=False):
    """Append an event, and return its id and position."""
    deadline = time.monotonic() + 60
    while True:
        try:
            async with database.transaction(organization) as connection:
                await feed.append_event(connection, "mailbox.paused", "mailbox", "example")
            async with database.transaction(organization) as connection:
                await feed.assign_positions(connection)
                return (await feed.list_after(connection, 0, 10_000))[-1]
        except DatabaseUnavailable:
            assert until_it_works, "the database is available"
            assert time.monotonic() < deadline, "no primary was found"
            await asyncio.sleep(0.1)


async def read_bounds(database, organization):
    async with database.transaction(organization) as connection:
        return await feed.get_bounds(connection)


async def claim_recovery(database):
    async with database.engine() as connection:
        claim = await work.claim(connection, [WorkKind.RECOVER], batch=10, lease_seconds=60)
    return [lease.organization for lease in claim.leases]


@pytest.mark.parametrize("synchronous", [True, False])
async def test_failover_repeats_no_id_and_no_position(synchronous):
    with replicated_server(synchronous=synchronous) as server:
        await migrate(server.url())
        organization = await create_organization(server.url())
        async with databases.open_pools(server.url()) as database:
            first = await append(database, organization)
            if not synchronous:
                server.cut_off()
            seen = await append(database, organization)
            assert await claim_recovery(database) == []
            server.kill_primary()
            server.promote()
            after = await append(database, organization, until_it_works=True)

            assert after.id > seen.id
            assert after.position > seen.position
            bounds = await read_bounds(database, organization)
            assert bounds.pruned > seen.position, "a reader that saw lost events starts over"
            assert bounds.pruned < after.position
            async with database.transaction(organization) as connection:
                stored = {event.id for event in await feed.list_after(connection, 0, 100)}
            assert stored == {first.id, after.id} | ({seen.id} if synchronous else set())
            assert await claim_recovery(database) == [organization], "once, however many connections"
