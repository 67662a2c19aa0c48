"""A worker for tests to kill: it reads and analyzes slow files and a scan, and prints process ids."""

import asyncio
import sys
from pathlib import Path

from postroom.documents.kinds.invoice import INVOICE
from postroom.documents.sandbox.file_sandbox import FileSandbox


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


async def with_child(helper):
    """The process ids of a zygote, and of a child of it."""
    while not (helper.process and children(helper.process.pid)):  # noqa: ASYNC110  # there are no events
        await asyncio.sleep(0.01)
    return helper.process.pid, *children(helper.process.pid)


async def main(slow, scan):
    async with FileSandbox(parallel=3, ocr_processes=1) as readers:
        readers.analysis_zygote.module = "hostile_analysis"
        await readers.read(scan)
        stalling = await readers.read(b"stall")
        readings = [
            asyncio.create_task(readers.page_image(slow, page=0, width=900)),
            asyncio.create_task(readers.analyze(stalling, INVOICE)),
        ]
        zygotes = [await with_child(helper) for helper in (readers.analysis_zygote, readers.zygote)]
        readings.append(asyncio.create_task(readers.read(scan)))
        print(readers.ocr_processes[0].process.pid, *(pid for pids in zygotes for pid in pids), flush=True)
        await asyncio.gather(*readings)


asyncio.run(main(*(Path(name).read_bytes() for name in sys.argv[1:3])))
