"""A worker for tests to kill: it reads a slow file and a scan, and prints its process ids."""

import asyncio
import sys
from pathlib import Path

from postroom.documents.sandbox.file_sandbox import FileSandbox


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


async def main(slow, scan):
    async with FileSandbox(ocr_processes=1) as readers:
        await readers.read(scan)
        readings = [asyncio.create_task(readers.page_image(slow, page=0, width=900))]
        zygote, engine = readers.zygote.process.pid, readers.ocr_processes[0].process.pid
        for _ in range(1000):
            if found := children(zygote):
                break
            await asyncio.sleep(0.01)
        readings.append(asyncio.create_task(readers.read(scan)))
        print(zygote, engine, *found, flush=True)
        await asyncio.gather(*readings)


asyncio.run(main(*(Path(name).read_bytes() for name in sys.argv[1:3])))
