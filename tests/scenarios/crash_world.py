"""A small Postroom over the simulator whose processes can be killed at a crash point, and started again."""

import asyncio
import json
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest

from flow.simulated_world import settings
from postroom.blobs import DiskBlobStore
from postroom.flow.storage import blob_gc
from postroom.flow.storage.blob_gc import BlobGcContext
from postroom.model import ProviderName, WorkKind
from postroom.store import work
from postroom.store.work import FinishedWork, WorkRequest
from postroom.wiring.engine import build_engine
from postroom_chaos.launcher import LaunchedProcess, Launcher
from providers.receiver import Receiver
from scenarios.crash_points import Effect
from scenarios.crash_program import REACHED
from scenarios.mirrored_mailbox import Postroom, environment
from scenarios.postroom_process import environment as build_environment
from scenarios.postroom_process import wait_until
from scenarios.worker_pool import PATIENCE, until

PROGRAM = str(Path(__file__).with_name("crash_program.py"))
AT_REST = """
    SELECT NOT EXISTS (
        SELECT FROM work WHERE lease_token IS NOT NULL OR state <> 'parked' AND (
            due_at <= postroom_now() OR last_error IS NOT NULL)
    ) AND NOT EXISTS (SELECT FROM ledger WHERE position IS NULL)
      AND NOT EXISTS (SELECT FROM events WHERE position IS NULL)
"""
STARTED = "worker.started"  # before that, SIGTERM ends a worker as it ends any process
DAY = 86_400


@dataclass
class CrashWorld:
    room: Postroom
    launcher: Launcher
    receiver: Receiver
    database_url: str
    aws: str | None = None  # its endpoint
    settings: dict[str, str] = field(default_factory=dict)  # of its processes, beyond the usual ones

    @property
    def home(self) -> Path:
        return self.room.home

    @property
    def owner(self):
        return self.room.owner

    @property
    def organization(self):
        return self.room.world.organization

    @property
    def database(self):
        return self.room.world.database

    @property
    def sim(self):
        return self.room.world.sim

    @property
    def base(self) -> str:
        """Where providers find us."""
        return self.receiver.url.removesuffix("/push")

    def start(self, *arguments: str, crash: dict | None = None) -> LaunchedProcess:
        given = environment(self.sim, self.database_url, self.home) | {
            "POSTROOM_PUBLIC_URL": self.base,
            "POSTROOM_ORGANIZATION": str(self.organization),
            "POSTROOM_WEBHOOK_NETWORKS": "127.0.0.0/8",
        }
        for name, value in self.room.changed.items():
            given |= {f"POSTROOM_{name.upper()}": "" if value is None else str(value)}
        given = {name: value for name, value in (given | self.settings).items() if value}
        program = [PROGRAM, json.dumps(crash)] if crash else []
        return self.launcher.start(arguments, self.home, build_environment(**given), program)

    async def end(self, process: LaunchedProcess) -> tuple[int, str]:
        """Exit code and output of a process that ends by itself; one that does not is killed."""
        try:
            code = await asyncio.to_thread(process.wait, PATIENCE)
        except TimeoutError:
            process.signal(signal.SIGKILL)
            raise AssertionError("".join(process.read_output())) from None
        finally:
            process.close()
        return code, "".join(process.output)

    async def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        code, output = await self.end(process)
        assert code == 0, output
        return process.output[0]

    async def die(self, *arguments: str, crash: dict) -> None:
        """Run a command until it has killed itself at the crash point."""
        code, output = await self.end(self.start(*arguments, crash=crash))
        assert_killed(code, output, crash)

    async def work(self, condition: str = AT_REST) -> None:
        """A worker that runs until nothing is left to do."""
        process = self.start("work")
        try:
            # Connections prove nothing: the server may still list those of a worker that has ended.
            await asyncio.to_thread(wait_until, lambda: STARTED in "".join(process.read_output()))
            await until(self.owner, condition)
        except TimeoutError:
            left = await self.rows("SELECT kind, state, last_error FROM work")
            raise AssertionError(f"{left}\n{process.read_output()}") from None
        finally:
            process.signal(signal.SIGTERM)
            code, output = await self.end(process)
        assert code == 0, output

    async def perform(self, *kinds: WorkKind, **changed: object) -> None:
        """Run due work of these kinds in this process, to get to where a scenario begins."""
        given = settings(self.sim, self.home, **{"public_url": self.base} | self.room.changed | changed)
        engine = build_engine(given, self.database, self.room.world.engine.client)
        while True:
            async with self.database.engine() as connection:
                claim = await work.claim(connection, list(kinds), batch=1, lease_seconds=300)
            if not claim.leases:
                return
            [lease] = claim.leases
            result = await engine.handlers[lease.kind].step(lease)
            if result is not None:
                async with self.database.engine() as connection:
                    await work.finish(connection, [FinishedWork(lease, result.again_after)])

    async def enqueue(self, kind: WorkKind, *subjects: object) -> None:
        async with self.database.engine() as connection:
            requests = [WorkRequest(self.organization, kind, str(subject)) for subject in subjects]
            await work.enqueue(connection, requests)

    def serve(self, crash: dict | None = None) -> tuple[LaunchedProcess, str]:
        """A web process, and its address."""
        process = self.start("serve", "--port", "0", crash=crash)
        wait_until(lambda: "Postroom: " in process.read_output()[0])
        return process, process.read_output()[0].split("Postroom: ")[1].split()[0]

    async def rows(self, query: str, *parameters: object) -> list[tuple]:
        return await (await self.owner.execute(query.encode(), parameters)).fetchall()

    def list_parameters(self) -> list[str]:
        """The names of this organization's grants in AWS SSM."""
        client = import_module("boto3").client("ssm", endpoint_url=self.aws)
        path = f"/postroom/{self.organization}"
        return [
            each["Name"] for each in client.get_parameters_by_path(Path=path, Recursive=True)["Parameters"]
        ]

    async def count_entries(self) -> dict[str, int]:
        """How often each fact is in the ledger."""
        return dict(await self.rows("SELECT event_type, count(*) FROM ledger GROUP BY 1"))

    async def assert_no_orphans(self) -> None:
        """After a garbage collection, blobs on disk and their rows are the same, and each is in use."""
        store = DiskBlobStore(self.home / "blobs")
        self.age_blobs()
        await self.owner.execute("UPDATE clock_offset SET ahead = ahead + interval '3 days'")
        await self.enqueue(WorkKind.COLLECT_GARBAGE, self.organization)
        async with self.database.engine() as connection:
            claim = await work.claim(connection, [WorkKind.COLLECT_GARBAGE], batch=1, lease_seconds=60)
        [lease] = claim.leases
        await blob_gc.run(BlobGcContext(self.database, store, DAY), lease)
        async with self.database.engine() as connection:
            await work.finish(connection, [FinishedWork(lease)])
        rows = {bytes(digest) for (digest,) in await self.rows("SELECT sha256 FROM blobs")}
        assert {each.sha256 async for each in store.list_all(self.organization)} == rows
        used = await self.rows(
            """
            SELECT sha256 FROM attachments WHERE sha256 IS NOT NULL UNION SELECT sha256 FROM documents
            UNION SELECT unlocked_sha256 FROM documents WHERE unlocked_sha256 IS NOT NULL
            """
        )
        assert rows == {bytes(digest) for (digest,) in used}
        self.assert_no_temporary_files()

    def age_blobs(self) -> None:
        """Let garbage collection spare none for being new: files have the machine's time."""
        for file in self.home.glob("blobs/*/*/*"):
            os.utime(file, (0, 0))

    def assert_no_temporary_files(self) -> None:
        hidden = [path for path in self.home.glob("archive/**/.*") if path.is_file()]
        assert [*self.home.glob("blobs/new/*"), *hidden] == []


def build_crash(effect: Effect, when: str) -> dict:
    return {
        "place": effect.place,
        "when": when,
        "call": effect.call,
        "kind": effect.kind,
        "within": effect.within,
    }


def assert_killed(code: int, output: str, crash: dict) -> None:
    """It ended by its own SIGKILL, at the crash point and nowhere else."""
    assert code == -signal.SIGKILL, output
    assert f"{REACHED} {crash['place']} {crash['when']}" in output


class CrashScenario(ABC):
    """Prepares a world, lets a process die in it, recovers, and checks. Most are about a worker."""

    uses_aws = False
    changed: ClassVar[Mapping[str, Any]] = {}  # settings

    def __init__(self, world: CrashWorld, provider: str) -> None:
        self.world = world
        self.provider = ProviderName(provider)

    async def prepare(self) -> None:  # noqa: B027  # most need nothing more
        """Everything up to the start of the process that dies."""

    async def die(self, crash: dict) -> None:
        await self.world.die("work", crash=crash)

    async def recover(self) -> None:
        await self.world.room.move_clock(60)
        await self.world.work()

    @abstractmethod
    async def check(self) -> None:
        """Compare the result with the truth."""


class CommandScenario(CrashScenario):
    """A command dies; the operator runs it again."""

    arguments: Sequence[str] = ()

    async def die(self, crash: dict) -> None:
        await self.world.die(*self.arguments, crash=crash)

    async def recover(self) -> None:
        await self.world.run(*self.arguments)


class RequestScenario(CrashScenario):
    """A web process dies during a request; the caller sends it again to the next one."""

    @abstractmethod
    async def request(self, url: str) -> None:
        """Send the request during which the process dies."""

    async def die(self, crash: dict) -> None:
        process, url = self.world.serve(crash)
        with pytest.raises(httpx2.TransportError):
            await self.request(url)
        code, output = await self.world.end(process)
        assert_killed(code, output, crash)

    async def recover(self) -> None:
        process, url = self.world.serve()
        await self.request(url)
        process.signal(signal.SIGTERM)
        code, output = await self.world.end(process)
        assert code == 0, output
        await self.world.work()
