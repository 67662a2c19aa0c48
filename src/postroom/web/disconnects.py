"""Stop work for a client that has disconnected. The server does not do this by itself."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")
_CANCEL_AGAIN_SECONDS: Final = 0.5


async def run_while_connected(request: Request, coroutine: Coroutine[None, None, T]) -> T:
    """Run a coroutine, and cancel it when the client disconnects; then raise ClientDisconnect.

    The body of the request must have been read.
    """
    running = asyncio.create_task(coroutine)
    watching = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise ClientDisconnect
        return running.result()
    finally:
        await _cancel(running)
        await _cancel(watching)


async def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancel a task until it has ended.

    Once is not enough: Python 3.11's `wait_for`, which the database driver uses, loses a cancellation that
    arrives together with its result.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_AGAIN_SECONDS)
    if not task.cancelled():
        task.exception()  # or asyncio logs that it was never retrieved


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
