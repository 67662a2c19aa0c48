"""The environment of the sync benchmarks: mailsim, a database, connected mailboxes, a worker process.

The worker is the real one without document work, which has its own benchmarks.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

ROOT = Path(__file__).parents[2]
# The tests' helpers start mailsim and submit its consent page. Some benchmarks have the names of tests.
sys.path[:] = [str(ROOT / "tests"), *(place for place in sys.path if place != str(ROOT / "bench"))]

from flow.simulated_world import SimulatedWorld, open_world, settings, settings_given  # noqa: E402
from postroom.flow.mailboxes.connect import ConnectedMailbox  # noqa: E402
from postroom.model import OrganizationId, ProviderName  # noqa: E402
from postroom.store import roles, schema_migrations  # noqa: E402
from postroom.store.database import open_database  # noqa: E402
from postroom.store.embedded import start_or_join  # noqa: E402
from postroom.wiring import secrets  # noqa: E402
from simulator.driver import Simulation, running  # noqa: E402

__all__ = ["open_world", "settings"]  # for a sync in the benchmark's own process
NO_QUOTA = "999999999"  # units per minute
PATIENCE_SECONDS = 3 * 3600
MESSAGE_KINDS = ["plain", "html", "reply", "newsletter"]
MESSAGE_BYTES, ATTACHMENT_BYTES = 8_000, 100_000


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_megabytes(pid: int) -> float:
    """Resident memory of a process, shared libraries included."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def note_the_load() -> None:
    """Warn if the machine is busy before the benchmark starts: rates and latencies would mean little."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        print(f"the machine is busy (load {load:.1f}, {cores} cores): the rates mean little")


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def verdict(text: str, *, reached: bool) -> bool:
    print(f"  {'reached' if reached else 'MISSED'}: {text}")
    return reached


@dataclass
class SyncEnvironment:
    sim: Simulation
    url: str
    owner: psycopg.AsyncConnection[Any]
    organization: OrganizationId
    home: Path

    def settings(self, **changed: str) -> dict[str, str]:
        """The environment variables for Postroom's processes."""
        given = settings_given(self.sim) | {"home": str(self.home), "database_url": self.url} | changed
        return {f"POSTROOM_{name.upper()}": value for name, value in given.items()}

    async def connect(self, provider: str, addresses: Sequence[str]) -> dict[str, UUID]:
        """Connect mailboxes, which makes their first sync due; returns their ids by address."""
        found: dict[str, UUID] = {}
        waiting = iter(addresses)

        async def log_in(made: SimulatedWorld) -> None:
            for address in waiting:
                done = await made.login(ProviderName(provider), address)
                assert isinstance(done, ConnectedMailbox), done
                found[address] = done.mailbox.id

        async with (
            open_database(
                self.url,
                pool_size=4,
                name="bench",
                entry_macs=secrets.build_entry_macs(settings(self.sim, self.home)),
            ) as database,
            open_world(self.sim, database, self.organization, self.home) as made,
        ):
            await asyncio.gather(*(log_in(made) for _ in range(4)))
        return found

    def fill(self, provider: str, address: str, messages: int) -> None:
        """Create a mailbox of 8 KB messages; the newest tenth of them has attachments of 100 KB."""
        large = messages // 10
        self.sim.create(
            provider, address, messages=messages - large, kinds=MESSAGE_KINDS, size=MESSAGE_BYTES, days=20
        )
        while large > 0:
            some = min(large, 1000)
            self.sim.post(
                f"mailboxes/{address}/messages", kind="big", size=ATTACHMENT_BYTES, count=some, seed=large
            )
            large -= some

    async def one(self, query: str, *parameters: object) -> Any:
        row = await (await self.owner.execute(query.encode(), parameters)).fetchone()
        return row[0] if row else None

    async def stored(self) -> int:
        """The number of stored messages."""
        return await self.one("SELECT count(*) FROM messages")

    async def until_backfilled(self, mailboxes: int) -> None:
        """Wait until the backfill of this many mailboxes is complete."""
        query = """
            SELECT count(*) FROM (SELECT FROM cursors WHERE kind = 'backfill' GROUP BY mailbox_id
                HAVING bool_and(completed_at IS NOT NULL)) AS done
        """
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self.one(query) < mailboxes:  # noqa: ASYNC110  # another process does it
                await asyncio.sleep(0.05)


@asynccontextmanager
async def open_environment(*options: str) -> AsyncGenerator[SyncEnvironment]:
    """A mailsim with these options and an empty store; both are removed afterwards."""
    with _home() as home, running(*options, checked=False) as sim, start_or_join(home / "server") as server:
        await schema_migrations.migrate(server.url)
        organization = OrganizationId(uuid4())
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as owner:
            await roles.assume(owner)
            await owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'Bench')", [organization])
            yield SyncEnvironment(sim, server.url, owner, organization, home / "home")


@contextmanager
def _home() -> Generator[Path]:
    home = Path(tempfile.mkdtemp(prefix="postroom-bench-"))
    try:
        yield home
    finally:
        while home.exists():  # the server stops by itself, shortly after its last client
            shutil.rmtree(home, ignore_errors=True)
            time.sleep(0.1)


@contextmanager
def program(
    settings: dict[str, str], *command: str, until: str
) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Run a Postroom process for the block; yields it and the rest of its first line after `until`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, *command],
        env=kept | {"PYTHONPATH": path} | settings,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(until), f"{command} said {line!r}"
        yield process, line.removeprefix(until).strip()
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


@contextmanager
def worker(settings: dict[str, str]) -> Generator[subprocess.Popen[str]]:
    quiet = {"POSTROOM_LOG_LEVEL": "error"}
    command = str(Path(__file__).with_name("worker.py"))
    with program(quiet | settings, command, until="ready") as (process, _):
        yield process


@contextmanager
def web(settings: dict[str, str]) -> Generator[str]:
    """Run the web process for the block; yields its URL."""
    quiet = {"POSTROOM_LOG_LEVEL": "error", "POSTROOM_PORT": "0"}
    with program(quiet | settings, "-m", "postroom", "serve", until="Postroom: ") as (_, address):
        yield address
