"""Start real worker processes and look at what they left in the database."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

import databases
from postroom.model import OrganizationId
from postroom.store import work
from postroom.store.connection import Connection

PROGRAM = Path(__file__).with_name("worker_process.py")
PATIENCE = 300  # seconds until a scenario is given up; nothing is asserted about how long it took


@dataclass
class WorkerProcess:
    process: asyncio.subprocess.Process
    began: list[tuple[str, UUID]] = field(default_factory=list)
    tries: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    began_one: asyncio.Event = field(default_factory=asyncio.Event)
    logged: list[dict[str, Any]] = field(default_factory=list)

    async def read(self) -> None:
        assert self.process.stdout
        async for line in self.process.stdout:
            match line.split():
                case [b"began", subject, token]:
                    self.began.append((subject.decode(), UUID(token.decode())))
                    self.began_one.set()
                case [b"tried", kind]:
                    self.tries.put_nowait(kind.decode())
                case _:
                    pass

    async def read_log(self) -> None:
        assert self.process.stderr
        async for line in self.process.stderr:
            try:
                self.logged.append(json.loads(line))
            except ValueError:
                sys.stderr.write(line.decode())

    async def tried(self, times: int) -> None:
        for _ in range(times):
            await asyncio.wait_for(self.tries.get(), PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


@asynccontextmanager
async def workers(count: int, url: str, **options: object) -> AsyncGenerator[list[WorkerProcess]]:
    """So many worker processes, ready; ended when the block ends, however they are then."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    started = [
        WorkerProcess(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-W",
                "error",
                str(PROGRAM),
                json.dumps({"url": databases.to_service(url), **options}),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
            )
        )
        for _ in range(count)
    ]
    readers: list[asyncio.Task[None]] = []
    try:
        for each in started:
            assert each.process.stdout
            assert await each.process.stdout.readline() == b"ready\n"
            readers += [asyncio.create_task(each.read()), asyncio.create_task(each.read_log())]
        yield started
    finally:
        for each in started:
            if each.process.returncode is None:
                each.process.kill()
            await each.process.wait()
        await asyncio.gather(*readers)


async def until(owner: psycopg.AsyncConnection, condition: str, *parameters: object) -> None:
    """Wait until a SELECT of one boolean says true."""
    async with asyncio.timeout(PATIENCE):
        while True:
            row = await (await owner.execute(condition.encode(), parameters)).fetchone()
            if row and row[0]:
                return
            await asyncio.sleep(0.02)


async def make_effects(owner: psycopg.AsyncConnection) -> None:
    await owner.execute("CREATE TABLE effects (subject text NOT NULL, token uuid NOT NULL)")
    await owner.execute("GRANT INSERT ON effects TO postroom_application")


async def add_work(
    owner: Connection, organization: OrganizationId, kind: str, count: int, *, prefix: str = ""
) -> None:
    await work.enqueue(
        owner, [work.WorkRequest(organization, kind, f"{prefix}{number:06d}") for number in range(count)]
    )
