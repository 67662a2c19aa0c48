"""Run a worker inside a command, for the one kind of work that the command waits for."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from postroom.engine import Engine
    from postroom.model import WorkKind


@asynccontextmanager
async def run_worker(engine: "Engine", kind: "WorkKind") -> AsyncGenerator[None]:
    """Run a worker for work of this kind only, during the block.

    Leases keep it apart from other workers.
    """
    from postroom import worker

    stop = asyncio.Event()
    limits = worker.worker_limits(engine.settings)
    running = asyncio.create_task(worker.run(engine.database, {kind: engine.handlers[kind]}, limits, stop))
    try:
        yield
    finally:
        stop.set()
        await running
