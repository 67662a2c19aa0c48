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
from postroom_chaos.launcher import LaunchedProcess
from scenarios.postroom_process import environment, server_launcher

PROGRAM = Path(__file__).with_name("worker_process.py")
PATIENCE = 300  # seconds until a scenario is given up; nothing is asserted about how long it took


@dataclass
class WorkerProcess:
    process: LaunchedProcess
    output: asyncio.StreamReader
    errors: asyncio.StreamReader
    began: list[tuple[str, UUID]] = field(default_factory=list)
    tries: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    began_one: asyncio.Event = field(default_factory=asyncio.Event)
    logged: list[dict[str, Any]] = field(default_factory=list)

    async def read(self) -> None:
        async for line in self.output:
            match line.split():
                case [b"began", subject, token]:
                    self.began.append((subject.decode(), UUID(token.decode())))
                    self.began_one.set()
                case [b"tried", kind]:
                    self.tries.put_nowait(kind.decode())
                case _:
                    pass

    async def read_log(self) -> None:
        async for line in self.errors:
            try:
                self.logged.append(json.loads(line))
            except ValueError:
                sys.stderr.write(line.decode())

    async def tried(self, times: int) -> None:
        for _ in range(times):
            await asyncio.wait_for(self.tries.get(), PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        self.process.signal(number)

    async def end(self) -> int:
        """Its exit code, once it has ended."""
        return await asyncio.to_thread(self.process.wait, PATIENCE)

    def is_frozen(self) -> bool:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def start_worker(options: dict[str, object]) -> WorkerProcess:
    (output, out), (errors, err) = await open_pipe(), await open_pipe()
    process = server_launcher().start(
        [json.dumps(options)], Path.cwd(), environment(), [str(PROGRAM)], output=(out, err)
    )
    os.close(out)
    os.close(err)
    return WorkerProcess(process, output, errors)


async def open_pipe() -> tuple[asyncio.StreamReader, int]:
    """A reader, and the file descriptor to write to."""
    reading, writing = os.pipe()
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb"))
    return reader, writing


@asynccontextmanager
async def workers(count: int, url: str, **options: object) -> AsyncGenerator[list[WorkerProcess]]:
    """So many worker processes, ready; ended when the block ends, however they are then."""
    options["url"] = databases.to_service(url)
    options["mac_key"] = databases.ENTRY_MACS.load_current().hex()
    started = [await start_worker(options) for _ in range(count)]
    readers: list[asyncio.Task[None]] = []
    try:
        for each in started:
            assert await each.output.readline() == b"ready\n"
            readers += [asyncio.create_task(each.read()), asyncio.create_task(each.read_log())]
        yield started
    finally:
        for each in started:
            each.signal(signal.SIGKILL)
            await each.end()
            each.process.close()
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
