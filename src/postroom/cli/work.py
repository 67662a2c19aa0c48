"""`postroom work`: run the worker process.

The worker itself is in `worker`, its steps in `flow`.
"""

import asyncio
import faulthandler
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.model import WorkKind

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from postroom.config import Settings
    from postroom.engine import Engine
    from postroom.store.database import Database

EXAMPLES = """\b
Examples:
  postroom work
  postroom work --concurrency 32"""


def work(
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            metavar="COUNT",
            help="Number of work items to run at a time [default: POSTROOM_CONCURRENCY]",
            show_default=False,
        ),
    ] = None,
    *,
    supervised: Annotated[bool, typer.Option(hidden=True, help="Exit with the parent process.")] = False,
) -> None:
    """Run a worker process.

    Run any number of workers, on any number of machines.
    """
    import uvloop

    from postroom.cli import startup, supervisor

    settings = startup.load_process_settings("worker", concurrency=concurrency)
    startup.start_tracing(settings, "worker")
    if supervised:
        supervisor.exit_with_parent(grace_seconds=settings.stop_seconds + 2)
    with startup.database_url(settings) as url:
        uvloop.run(_work(settings, url))


async def _work(settings: "Settings", url: str) -> None:
    from postroom.cli import startup
    from postroom.flow.storage import blob_location
    from postroom.store import work
    from postroom.wiring.engine import open_engine

    size, limits = settings.database_pool_size, work.transaction_limits(settings.lease_seconds)
    async with (
        startup.open_when_ready(
            settings, url, "worker", pool_size=size, listeners=2, limits=limits
        ) as opened,
        open_engine(settings, opened) as engine,
    ):
        await startup.retry_while_unreachable(
            settings, url, lambda: blob_location.require_same_location(opened, engine.blobs)
        )
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):  # until here, a signal ends the wait
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await _work_until(stop, engine, url)


async def _work_until(stop: asyncio.Event, engine: "Engine", url: str) -> None:
    from postroom import worker
    from postroom.documents.sandbox.file_sandbox import FileSandbox
    from postroom.flow.documents import watch
    from postroom.flow.ledger import seal
    from postroom.flow.mail import audit, pull
    from postroom.flow.mailboxes import directories, subscribe
    from postroom.flow.storage import blob_gc
    from postroom.store.resource_uses import ResourceMeter
    from postroom.wiring import documents, storage

    settings, opened = engine.settings, engine.database
    async with documents.open_language_model(settings) as model, FileSandbox() as sandbox:
        folders = storage.build_watched_folders(settings, engine.pipelines)
        handlers = {**engine.handlers, **documents.build_handlers(engine, sandbox, folders, model)}
        kinds = [WorkKind.COLLECT_GARBAGE, WorkKind.APPLY_RETENTION, WorkKind.REMOVE_ORPHANS]
        daily = blob_gc.keep_scheduled(opened, kinds)
        audits = audit.keep_scheduled(opened, settings.audit_days * 86400)
        watched = watch.keep_scheduled(opened, engine.organization, list(folders))
        always = [audits, seal.keep_scheduled(opened), subscribe.keep_scheduled(opened), daily, watched]
        always += [directories.keep_scheduled(opened)]
        always += [pull.keep_pulling(engine.pull)] if engine.pull else []
        stalls = _exit_when_stalled(settings.stall_seconds)
        queue = documents.build_queue(settings)
        if queue is not None:
            await queue.check()
        meter = ResourceMeter(sandbox.take_cpu_seconds)
        working = worker.run(opened, handlers, worker.worker_limits(settings), stop, queue, meter)
        await _run_until_stopped(url, opened, stop, [working, stalls, *always])


async def _run_until_stopped(
    url: str, database: "Database", stop: asyncio.Event, loops: "list[Coroutine[None, None, None]]"
) -> None:
    """Run the loops until the first of them ends. A newer schema stops the worker like a signal does."""
    from postroom import worker
    from postroom.cli import startup
    from postroom.errors import SchemaError
    from postroom.store import schema_migrations

    tasks = [asyncio.create_task(loop) for loop in loops]
    outdated = asyncio.create_task(schema_migrations.raise_when_newer(database))
    outdated.add_done_callback(lambda _: stop.set())
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in [outdated, *done] if outdated.done() else done:
            task.result()
    except SchemaError:
        await startup.require_ready_database(url)  # raises an error that says whether the schema is newer
        raise
    finally:
        await worker.cancel_all([*tasks, outdated])


async def _exit_when_stalled(seconds: float) -> None:
    """Exit with a traceback on standard error if the event loop is stuck for this long.

    A stalled worker extends no lease. The timer is a thread of `faulthandler` that needs no GIL, so it also
    ends a process that is stuck in C code.
    """
    try:
        while True:
            faulthandler.dump_traceback_later(seconds, exit=True)
            await asyncio.sleep(seconds / 10)
    finally:
        faulthandler.cancel_dump_traceback_later()
