"""The worker of `postroom work`, without the reading of documents. Its settings come from the environment."""

import asyncio
import signal

import uvloop

from postroom import logs, wiring, worker
from postroom.config import load
from postroom.store.database import open_database


async def main() -> None:
    settings = load()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    assert settings.database_url
    url, size = settings.database_url.reveal(), settings.database_pool_size
    async with (
        open_database(url, pool_size=size, name="bench worker", listeners=2) as database,
        wiring.client(settings) as client,
    ):
        await wiring.require_blobs_here(settings, database)
        print("ready", flush=True)
        await worker.run(database, wiring.kinds(settings, database, client), worker.limits(settings), stop)


if __name__ == "__main__":
    logs.setup("worker", level="error", style="json")
    uvloop.run(main())
