"""Peak memory of verifying a long ledger, beside that of one a tenth as long. One argument: the entries."""

import asyncio
import shutil
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from uuid import UUID, uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger_key import ENTRY_MACS
from postroom.flow.ledger import seal, verification
from postroom.flow.ledger.seal import SealContext
from postroom.model import OrganizationId, WorkKind
from postroom.store import ledger, organizations, schema_migrations, work
from postroom.store.database import Database, open_database
from postroom.store.embedded import start_or_join
from postroom.store.ledger import NewLedgerEntry, Signer
from postroom.vault import LedgerHeads

ENTRIES, BATCH = 1_000_000, 1000
WANTED_MIB = 32
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


def check(_key: str, signature: bytes, signed: bytes) -> bool:
    KEY.public_key().verify(signature, signed)
    return True


async def append(database: Database, organization: UUID, count: int) -> None:
    for start in range(0, count, BATCH):
        entries = [
            NewLedgerEntry(
                "MESSAGE_INGESTED",
                "message",
                str(number),
                payload={"provider_message_id": f"m{number}", "thread_id": number // 3},
                personal={"from_email": "jane@example.org"} if number % 4 == 0 else None,
            )
            for number in range(start, min(start + BATCH, count))
        ]
        async with database.transaction(organization) as connection:
            await ledger.append_entries(connection, organization, entries)


async def seal_all(database: Database, organization: OrganizationId, home: Path) -> None:
    async with database.engine() as connection:
        await work.enqueue(connection, [work.WorkRequest(organization, WorkKind.SEAL, str(organization))])
        [lease] = (await work.claim(connection, [WorkKind.SEAL], batch=1, lease_seconds=3600)).leases
    await seal.run(SealContext(database, lambda: Signer("bench", KEY.sign), LedgerHeads(home)), lease)


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def read_peak() -> float:
    """The peak of this process's resident memory since the reset, in MiB."""
    [line] = [
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")
    ]
    return int(line.split()[1]) / 1024


async def measure(database: Database, home: Path, count: int) -> float:
    """Fill a ledger, seal and verify it, and return the peak of the resident memory during verification."""
    organization = OrganizationId(uuid4())
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization)
    times = [time.perf_counter()]
    await append(database, organization, count)
    times.append(time.perf_counter())
    await seal_all(database, organization, home)
    times.append(time.perf_counter())
    reset_peak()
    found = await verification.verify(database, organization, check)
    peak = read_peak()
    times.append(time.perf_counter())
    assert (found.faults, found.entries, found.unsealed) == ([], count, 0)
    appended, sealed, verified = (round(end - start) for start, end in pairwise(times))
    print(
        f"{count:,} entries: appended in {appended} s, sealed in {sealed} s, verified in {verified} s"
        f" with at most {peak:.0f} MiB resident",
        flush=True,
    )
    return peak


async def main(url: str, home: Path, count: int) -> float:
    await schema_migrations.migrate(url)
    async with open_database(url, pool_size=6, name="bench", entry_macs=ENTRY_MACS) as database:
        small = await measure(database, home, count // 10)
        return await measure(database, home, count) - small


if __name__ == "__main__":
    home = Path(tempfile.mkdtemp(prefix="postroom-bench-"))
    try:
        with start_or_join(home) as server:
            growth = asyncio.run(main(server.url, home, int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"ten times the entries need {growth:.0f} MiB more; wanted: at most {WANTED_MIB}")
    sys.exit(growth > WANTED_MIB)
