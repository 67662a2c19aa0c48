"""What the benchmarks of the sync share: mailsim, a database, connected mailboxes, and a worker process.

The worker is the real one, with every kind of work but the reading of documents, which is measured elsewhere.
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
# The tests' way to start mailsim and to go through its consent page. Benchmarks have the names of some tests.
sys.path[:] = [str(ROOT / "tests"), *(place for place in sys.path if place != str(ROOT / "bench"))]

from flow.connecting import World, settings, settings_given, world  # noqa: E402
from postroom.flow.mailboxes.connect import ConnectedMailbox  # noqa: E402
from postroom.model import OrganizationId, ProviderName  # noqa: E402
from postroom.store import roles, schema_migrations  # noqa: E402
from postroom.store.database import open_database  # noqa: E402
from postroom.store.embedded import start_or_join  # noqa: E402
from simulator.driver import Simulation, running  # noqa: E402

__all__ = ["settings", "world"]  # for a sync in the benchmark's own process
NO_QUOTA = "999999999"  # units a minute
PATIENCE_SECONDS = 3 * 3600
LETTERS = ["plain", "html", "reply", "newsletter"]
LETTER_BYTES, ATTACHMENT_BYTES = 8_000, 100_000


def cpu_seconds(pid: int) -> float:
    """That a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_megabytes(pid: int) -> float:
    """What a process holds in memory, shared libraries included."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def note_the_load() -> None:
    """To be asked before anything runs: rates and latencies count on a quiet machine."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        print(f"the machine is busy with other things (load {load:.1f}, {cores} cores): rates say little")


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def verdict(text: str, *, reached: bool) -> bool:
    print(f"  {'reached' if reached else 'MISSED'}: {text}")
    return reached


@dataclass
class Stage:
    sim: Simulation
    url: str
    owner: psycopg.AsyncConnection[Any]
    organization: OrganizationId
    home: Path

    def settings(self, **changed: str) -> dict[str, str]:
        """As environment of Postroom's programs."""
        given = settings_given(self.sim) | {"home": str(self.home), "database_url": self.url} | changed
        return {f"POSTROOM_{name.upper()}": value for name, value in given.items()}

    async def connect(self, provider: str, addresses: Sequence[str]) -> dict[str, UUID]:
        """Mailboxes by address. Connecting makes their first sync due."""
        found: dict[str, UUID] = {}
        waiting = iter(addresses)

        async def log_in(made: World) -> None:
            for address in waiting:
                done = await made.login(ProviderName(provider), address)
                assert isinstance(done, ConnectedMailbox), done
                found[address] = done.mailbox.id

        async with (
            open_database(self.url, pool_size=4, name="bench") as database,
            world(self.sim, database, self.organization, self.home) as made,
        ):
            await asyncio.gather(*(log_in(made) for _ in range(4)))
        return found

    def fill(self, provider: str, address: str, messages: int) -> None:
        """A mailbox of 8 KB letters; a tenth of them, the newest, have an attachment of 100 KB."""
        large = messages // 10
        self.sim.create(
            provider, address, messages=messages - large, kinds=LETTERS, size=LETTER_BYTES, days=20
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
        """Messages that are committed."""
        return await self.one("SELECT count(*) FROM messages")

    async def until_backfilled(self, mailboxes: int) -> None:
        """Until so many mailboxes are listed to the end."""
        query = """
            SELECT count(*) FROM (SELECT FROM cursors WHERE kind = 'backfill' GROUP BY mailbox_id
                HAVING bool_and(completed_at IS NOT NULL)) AS done
        """
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self.one(query) < mailboxes:  # noqa: ASYNC110  # another process does it
                await asyncio.sleep(0.05)


@asynccontextmanager
async def stage(*options: str) -> AsyncGenerator[Stage]:
    """A mailsim with these options and an empty store, both gone afterwards."""
    with _home() as home, running(*options, checked=False) as sim, start_or_join(home / "server") as server:
        await schema_migrations.migrate(server.url)
        organization = OrganizationId(uuid4())
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as owner:
            await roles.assume(owner)
            await owner.execute("INSERT INTO organizations (id, name) VALUES (%s, 'Bench')", [organization])
            yield Stage(sim, server.url, owner, organization, home / "home")


@contextmanager
def _home() -> Generator[Path]:
    home = Path(tempfile.mkdtemp(prefix="postroom-bench-"))
    try:
        yield home
    finally:
        while home.exists():  # the server stops by itself, a moment after its last user
            shutil.rmtree(home, ignore_errors=True)
            time.sleep(0.1)


@contextmanager
def program(
    settings: dict[str, str], *command: str, until: str
) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A process of ours for the block, and what it said behind `until`, when it was ready."""
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
    """The web process: its address."""
    quiet = {"POSTROOM_LOG_LEVEL": "error", "POSTROOM_PORT": "0"}
    with program(quiet | settings, "-m", "postroom", "serve", until="Postroom: ") as (_, address):
        yield address
