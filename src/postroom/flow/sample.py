"""Sample work for the demo: pieces that take a moment, fail now and then, and come back.

Nothing real happens here; it shows claims, leases, backoff and recovery at work.
"""

import asyncio
import random
from uuid import UUID

from postroom.errors import TransientError
from postroom.model import Done, OrganizationId
from postroom.store import organizations, work
from postroom.store.database import Database
from postroom.store.work import Lease, Wake

KIND = "sample"
PIECES = 40
ORGANIZATION = OrganizationId(UUID("5a3b1e00-0000-4000-8000-000000000001"))


async def provide(database: Database) -> None:
    """The sample organization and its pieces of work; harmless to repeat."""
    async with database.transaction(ORGANIZATION) as connection:
        await organizations.ensure(connection, ORGANIZATION, "Sample")
        await work.wake(
            connection,
            [Wake(ORGANIZATION, KIND, f"piece {number}", delay=number / 10) for number in range(PIECES)],
        )


async def run(_database: Database, lease: Lease) -> Done:
    await asyncio.sleep(random.uniform(0.05, 0.5))
    if lease.attempts == 1 and random.random() < 0.05:
        raise TransientError("the sample failed, as it does now and then", retry_after=2)
    return Done(again_after=random.uniform(2, 10))
