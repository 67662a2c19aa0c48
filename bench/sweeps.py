"""What a sweep that finds nothing costs: requests to the provider, transactions, CPU time.

One mailbox of each provider is swept again and again in this process, while the virtual clock advances by
five minutes each time. Each sweep has a claim of its own here; a busy worker claims several at once. The goal
at Gmail is 1 1/12 requests, because labels are read once an hour. A mailbox at Microsoft has a feed for each
folder, and each sweep reads its folders.
"""

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass

import uvloop

from postroom import logs
from postroom.flow.mail import sync
from postroom.flow.mailboxes.connect import ConnectedMailbox
from postroom.model import ProviderName, WorkKind
from postroom.store import work
from postroom.store.database import Database, open_database
from postroom.store.embedded.stale_processes import find_server_processes
from postroom.store.work import Lease, WorkRequest
from postroom.wiring import secrets
from postroom.wiring.engine import build_engine
from sync_environment import (
    NO_QUOTA,
    SyncEnvironment,
    cpu_seconds,
    open_environment,
    open_world,
    settings,
    verdict,
)

SWEEPS, WARM, INTERVAL_SECONDS = 120, 24, 300
WANTED_REQUESTS, WANTED_TRANSACTIONS = 1.2, 3  # one reads, one writes; others are the server's own
MESSAGES = 20


@dataclass
class Costs:
    requests: int = 0
    transactions: int = 0
    database: float = 0.0
    worker: float = 0.0


async def claim(there: SyncEnvironment, database: Database, mailbox: object) -> Lease:
    async with database.engine() as connection:
        await work.enqueue(connection, [WorkRequest(there.organization, WorkKind.SYNC, str(mailbox))])
        claimed = await work.claim(connection, [WorkKind.SYNC], batch=1, lease_seconds=300)
    [lease] = claimed.leases
    return lease


async def count_transactions(there: SyncEnvironment) -> int:
    """Those that the server counted, once its sessions have reported them."""
    await asyncio.sleep(1.5)
    return await there.one(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    )


async def measure(there: SyncEnvironment, provider: ProviderName, sweeps: int) -> Costs:
    address = f"idle@{provider}.example.com"
    there.sim.create(provider.value, address, messages=MESSAGES, days=20, kinds=["plain"])
    macs = secrets.build_entry_macs(settings(there.sim, there.home))
    async with (
        open_database(there.url, pool_size=8, name="bench", entry_macs=macs) as database,
        open_world(there.sim, database, there.organization, there.home, gmail_quota=NO_QUOTA) as world,
    ):
        connected = await world.login(provider, address)
        assert isinstance(connected, ConnectedMailbox)
        engine = build_engine(
            settings(there.sim, there.home, gmail_quota=NO_QUOTA), database, world.engine.client
        )
        mailbox = connected.mailbox.id

        async def sweep() -> float:
            """The seconds of CPU that this process needs for one sweep, without the claim."""
            await there.owner.execute(
                "UPDATE clock_offset SET ahead = ahead + %s * interval '1 second'", [INTERVAL_SECONDS]
            )
            lease = await claim(there, database, mailbox)
            begin = time.process_time()
            await sync.run(engine.sync, lease)
            return time.process_time() - begin

        for _ in range(WARM):
            await sweep()
        transactions, requests = await count_transactions(there), _count_requests(there, address)
        server = _server_cpu(there)
        worker = sum([await sweep() for _ in range(sweeps)])
        return Costs(
            _count_requests(there, address) - requests,
            await count_transactions(there) - transactions - 2 * sweeps,  # the clock and the claim
            _server_cpu(there) - server,
            worker,
        )


def _count_requests(there: SyncEnvironment, address: str) -> int:
    meters = [meter for meter in there.sim.get("meters") if meter["mailbox"] == address]
    return sum(sum(meter["calls"].values()) for meter in meters)


def _server_cpu(there: SyncEnvironment) -> float:
    return sum(map(cpu_seconds, find_server_processes(there.home.parent / "server/postgres/data")))


async def main(sweeps: int) -> int:
    async with open_environment("--quota", "off") as there:
        reached: list[bool] = []
        for provider in ProviderName:
            costs = await measure(there, provider, sweeps)
            print(
                f"{provider}: {costs.requests / sweeps:.2f} requests, {costs.transactions / sweeps:.2f}"
                f" transactions, database {costs.database / sweeps * 1000:.1f} ms of CPU with the claim,"
                f" worker {costs.worker / sweeps * 1000:.1f} ms"
            )
            if provider is ProviderName.GMAIL:
                reached += [
                    verdict(
                        f"requests (wanted: {WANTED_REQUESTS} or less)",
                        reached=costs.requests / sweeps <= WANTED_REQUESTS,
                    ),
                    verdict(
                        f"transactions (wanted: {WANTED_TRANSACTIONS} or less)",
                        reached=costs.transactions / sweeps <= WANTED_TRANSACTIONS,
                    ),
                ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=SWEEPS)
    given = parser.parse_args()
    logs.configure("worker", level="error")
    sys.exit(uvloop.run(main(given.sweeps)))
