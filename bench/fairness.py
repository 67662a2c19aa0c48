"""How long a quiet organization's documents take beside a flood of another: a ratio, side by side.

A worker runs real steps that read and analyze real files in the sandbox. The flood is 100,000 due rows of
documents that are honest, or slow on purpose. The quiet organization's documents arrive one by one.
"""

import asyncio
import io
import statistics
import sys
import time
from uuid import UUID, uuid4

import psycopg
from reportlab.pdfgen import canvas

from claims import limits, private_server
from ledger_key import ENTRY_MACS
from postroom import worker
from postroom.documents.kinds import kind_registry
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.engine import WorkHandler
from postroom.errors import UnreadableFile
from postroom.model import OrganizationId, StepResult
from postroom.store import roles, schema_migrations, work
from postroom.store.database import Database, open_database
from postroom.store.resource_uses import ResourceMeter
from postroom.store.work import Lease, WorkRequest

DOCUMENTS, FLOOD = 305, 100_000  # fewer documents have no p99: it would be extrapolated from the slowest two
WANTED = 2.0


def write_pdf(lines: int, columns: int) -> bytes:
    written = io.BytesIO()
    page = canvas.Canvas(written)
    for line in range(lines):
        page.drawString(30, 800 - line * 750 / lines, "  ".join(f"{line * 7 + n},99" for n in range(columns)))
    page.save()
    return written.getvalue()


HONEST, SLOW = write_pdf(20, 2), write_pdf(150, 40)


async def run_documents(
    database: Database, owner: psycopg.AsyncConnection, flood: bytes | None
) -> list[float]:
    """The seconds from due to done of the quiet organization's documents."""
    quiet, flooding = OrganizationId(uuid4()), OrganizationId(uuid4())
    for id_ in (quiet, flooding):
        await owner.execute("INSERT INTO organizations (id, name) VALUES (%s, %s)", [id_, str(id_)])
    await owner.execute("TRUNCATE work")
    if flood is not None:
        await add_flood(owner, flooding)
    kind = kind_registry.list_installed()["invoice"]
    done: dict[str, asyncio.Future[None]] = {}
    started = asyncio.Event()
    async with FileSandbox(ocr_processes=1) as sandbox:

        async def step(lease: Lease) -> StepResult:
            own = sandbox.for_organization(lease.organization)
            try:
                reading = await own.read(HONEST if lease.organization == quiet else flood or HONEST)
                await own.analyze(reading, kind)
            except UnreadableFile:
                pass
            if lease.subject in done:
                done[lease.subject].set_result(None)
            else:
                started.set()
            return StepResult()

        stop, handlers = asyncio.Event(), {"bench": WorkHandler(step, max_attempts=None)}
        meter = ResourceMeter(sandbox.take_cpu_seconds)
        running = asyncio.create_task(
            worker.run(database, handlers, limits(poll_seconds=5, concurrency=8), stop, meter=meter)
        )
        if flood is not None:
            await started.wait()
        seconds = [await process_one(database, quiet, done, f"quiet {n}") for n in range(DOCUMENTS)]
        stop.set()
        await running
    return seconds[5:]  # the first ones start processes


async def process_one(
    database: Database, quiet: OrganizationId, done: dict[str, asyncio.Future[None]], subject: str
) -> float:
    done[subject] = asyncio.get_running_loop().create_future()
    begun = time.perf_counter()
    async with database.engine() as connection:
        await work.enqueue(connection, [WorkRequest(quiet, "bench", subject)])
    await done[subject]
    return time.perf_counter() - begun


async def add_flood(owner: psycopg.AsyncConnection, organization: UUID) -> None:
    await owner.execute(
        """
        INSERT INTO work (organization_id, kind, subject, due_at)
        SELECT %s, 'bench', number::text, postroom_now() FROM generate_series(1, %s) AS number
        """,
        [organization, FLOOD],
    )
    await owner.execute("ANALYZE work")


async def main() -> int:
    with private_server() as server:
        await schema_migrations.migrate(server.url)
        async with (
            await psycopg.AsyncConnection.connect(server.url, autocommit=True) as owner,
            open_database(server.url, pool_size=8, name="bench", entry_macs=ENTRY_MACS) as database,
        ):
            await roles.assume(owner)
            found = {
                name: await run_documents(database, owner, flood)
                for name, flood in {"idle": None, "honest flood": HONEST, "slow flood": SLOW}.items()
            }
    p99 = {
        name: statistics.quantiles(seconds, n=100, method="inclusive")[98] for name, seconds in found.items()
    }
    for name, seconds in found.items():
        median, ratio = statistics.median(seconds), p99[name] / p99["idle"]
        print(f"{name:13} median {median:6.3f} s  p99 {p99[name]:6.3f} s  ratio {ratio:4.2f}")
    print(f"(wanted: a ratio of p99 of {WANTED} or less)")
    return 0 if max(p99.values()) <= WANTED * p99["idle"] else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
