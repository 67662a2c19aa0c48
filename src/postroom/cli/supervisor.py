"""Child processes under one foreground supervisor: started again when they die, ended when it ends.

A child's standard input is a pipe whose other end only the supervisor holds. However the supervisor ends,
`kill -9` included, the pipe closes, and the child ends itself: there are no orphans.
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

from postroom.logs import Log

FIRST_RESTART_SECONDS: Final = 0.2
LAST_RESTART_SECONDS: Final = 15.0
# A child that lived this long was healthy; its next death starts a new count.
HEALTHY_SECONDS: Final = 30.0

log = Log()


@dataclass(frozen=True)
class ChildProcess:
    """One process to keep alive: `postroom` with these arguments, and these open files passed on."""

    kind: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    files: Sequence[int] = ()


def _print_stopping(children: Sequence[ChildProcess], stop_seconds: float) -> None:
    """People who pressed Ctrl-C see that it was heard, and what is waited for."""
    kinds = Counter(each.kind for each in children)
    named = " and ".join(
        f"{count} {kind} process{'es' if count > 1 else ''}" for kind, count in kinds.items()
    )
    typer.echo(
        f"Ending {named}; what is under way has up to {stop_seconds:.0f} seconds. Ctrl-C again ends at once.",
        err=True,
    )


async def supervise(children: Sequence[ChildProcess], stop: asyncio.Event, *, stop_seconds: float) -> None:
    """Keep every child alive until `stop` is set; then end them, by force those that do not end in time."""
    async with asyncio.TaskGroup() as group:
        for child in children:
            group.create_task(_supervise_child(child, stop, stop_seconds))
        await stop.wait()
        _print_stopping(children, stop_seconds)


def exit_with_parent(*, grace_seconds: float) -> None:
    """For the child: get SIGTERM when the supervisor is gone, and end by force if that is not enough."""

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
        born = time.monotonic()
        process = await _start_child(child)
        log.debug("child.started", kind=child.kind, pid=process.pid)
        try:
            await _wait_for_first(process.wait(), stop.wait())
        finally:
            if process.returncode is None:
                await _stop_child(process, stop_seconds)
        if stop.is_set():
            return
        if time.monotonic() - born >= HEALTHY_SECONDS:
            delay = FIRST_RESTART_SECONDS
        log.warning(
            "child.died", kind=child.kind, pid=process.pid, exit_code=process.returncode, seconds=delay
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
        start_new_session=True,  # Ctrl-C reaches the supervisor alone, which ends its children in order
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
    """Wait until one of them is done, and give up the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
