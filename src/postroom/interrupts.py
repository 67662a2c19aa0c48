"""Ctrl-C on the command line: the SIGINT handler, its record, and `run_async` for commands.

The first Ctrl-C cancels the running coroutine, or raises KeyboardInterrupt where there is none. The command
does not always end with that exception: a library may replace it with its own, and cutting off a
connection raises a database error. So the handler also records the interrupt, and `postroom.cli` reports the
interrupt instead of any error that follows it.

Commands that run until Ctrl-C (`up`, `serve`, `work`, `demo`) replace this handler on their event loop.
Nothing heavy is imported here: this module is loaded first, so that Ctrl-C ends the imports quietly too.
"""

import os
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import asyncio

Result = TypeVar("Result")

EXIT_CODE: Final = 130

_received = False
_task: "asyncio.Task[Any] | None" = None


def install() -> None:
    """Handle SIGINT from now on."""
    signal.signal(signal.SIGINT, _interrupt)


def was_received() -> bool:
    """Whether this process got a Ctrl-C that it must end for."""
    return _received


def exit_on_interrupt() -> None:
    """Exit at once on Ctrl-C while the interpreter shuts down."""
    signal.signal(signal.SIGINT, _exit_at_once)


def run_async(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine as `asyncio.run` does.

    After Ctrl-C, raise KeyboardInterrupt whatever it raised.
    """
    import asyncio

    runner = asyncio.Runner()
    cancellable = _run_as_task(main)
    try:
        with runner:
            return runner.run(cancellable)
    except BaseException:
        if _received:
            raise KeyboardInterrupt from None
        raise
    finally:
        # An interrupt may come before the first step; Python warns of coroutines that were never awaited.
        cancellable.close()
        main.close()


async def _run_as_task(main: Coroutine[Any, Any, Result]) -> Result:
    import asyncio

    global _task  # noqa: PLW0603  a signal handler has no other way to find it
    _task = asyncio.current_task()
    try:
        return await main
    finally:
        _task = None


def _exit_at_once(_number: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_CODE)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    global _received
    is_first, _received = not _received, True
    if is_first and _task is not None and not _task.done():
        _task.cancel()
        # The loop may be waiting in select: an empty call wakes it.
        _task.get_loop().call_soon_threadsafe(lambda: None)
        return
    raise KeyboardInterrupt
