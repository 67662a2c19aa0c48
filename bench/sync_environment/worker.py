"""The worker of `postroom work` without document work. Reads its settings from the environment."""

import asyncio
import signal

import uvloop

from postroom import logs, worker
from postroom.config import load
from postroom.flow.storage import blob_location
from postroom.store.database import open_database
from postroom.wiring import secrets
from postroom.wiring.engine import open_engine


async def main() -> None:
    settings = load()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    assert settings.database_url
    url, size = settings.database_url.reveal(), settings.database_pool_size
    async with (
        open_database(
            url,
            pool_size=size,
            name="bench worker",
            listeners=2,
            entry_macs=secrets.build_entry_macs(settings),
        ) as database,
        open_engine(settings, database) as engine,
    ):
        await blob_location.require_same_location(database, engine.blobs)
        print("ready", flush=True)
        await worker.run(database, engine.handlers, worker.worker_limits(settings), stop)


if __name__ == "__main__":
    logs.configure("worker", level="error", style="json")
    uvloop.run(main())
