"""The supervisor of `postroom up` and `postroom demo`, which restarts child processes that exit.

A child that exits because the schema does not match this version is not restarted: all the others would exit
for the same reason, so the supervisor stops too.

A child's standard input is a pipe whose other end only the supervisor holds. However the supervisor ends,
`kill -9` included, the pipe closes and the child exits, so no orphan is left.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.errors import SchemaError
from postroom.logs import Log

FIRST_RESTART_SECONDS: Final = 0.2
LAST_RESTART_SECONDS: Final = 15.0
# A child that ran this long was healthy: after its next crash the restart delay starts over.
HEALTHY_SECONDS: Final = 30.0

log = Log()


@dataclass(frozen=True)
class ChildProcess:
    """One `postroom` process to keep running."""

    kind: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    files: Sequence[int] = ()


def _print_stopping(children: Sequence[ChildProcess], stop_seconds: float) -> None:
    """Acknowledge Ctrl-C, and say what is being waited for."""
    kinds = Counter(child.kind for child in children)
    names = " and ".join(
        f"{count} {kind} process{'es' if count > 1 else ''}" for kind, count in kinds.items()
    )
    typer.echo(
        f"Stopping {names}; running work has up to {stop_seconds:.0f} seconds to finish."
        " Press Ctrl-C again to exit at once.",
        err=True,
    )


async def supervise(children: Sequence[ChildProcess], stop: asyncio.Event, *, stop_seconds: float) -> None:
    """Keep all children running until `stop` is set; then stop or kill them."""
    async with asyncio.TaskGroup() as group:
        for child in children:
            group.create_task(_supervise_child(child, stop, stop_seconds))
        await stop.wait()
        _print_stopping(children, stop_seconds)


def exit_with_parent(*, grace_seconds: float) -> None:
    """Called by a child: exit when the supervisor is gone."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), 1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace_seconds)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


async def _supervise_child(child: ChildProcess, stop: asyncio.Event, stop_seconds: float) -> None:
    delay = FIRST_RESTART_SECONDS
    while not stop.is_set():
        started = time.monotonic()
        process = await _start_child(child)
        log.debug("child.started", kind=child.kind, pid=process.pid)
        try:
            await _wait_for_first(process.wait(), stop.wait())
        finally:
            if process.returncode is None:
                await _stop_child(process, stop_seconds)
        if stop.is_set():
            return
        if process.returncode == ExitCode.SCHEMA:
            stop.set()
            raise SchemaError(
                "The schema does not match this version of Postroom; all processes were stopped."
                " Start the version that migrated the database."
            )
        if time.monotonic() - started >= HEALTHY_SECONDS:
            delay = FIRST_RESTART_SECONDS
        log.warning(
            "child.exited", kind=child.kind, pid=process.pid, exit_code=process.returncode, seconds=delay
        )
        await _wait_for_first(asyncio.sleep(delay), stop.wait())
        delay = min(delay * 2, LAST_RESTART_SECONDS)


async def _start_child(child: ChildProcess) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "postroom",
        *child.arguments,
        stdin=asyncio.subprocess.PIPE,
        env=dict(child.environment),
        pass_fds=child.files,
        start_new_session=True,  # Ctrl-C reaches the supervisor only, which stops its children
    )


async def _stop_child(process: asyncio.subprocess.Process, stop_seconds: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), stop_seconds)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _wait_for_first(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them is done, and cancel the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
