"""BackgroundTasks: asyncio tasks that outlive a request, such as pushes, retries, delayed effects.

It runs and awaits any coroutine and knows none of them. A task is either working or sleeping on the
simulator's clock. A task that waits for anything else without a limit (a queue, an event) must wait through
`wait_idle`; otherwise `settle` waits for it until its time limit.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from mailsim.clock import Clock

Result = TypeVar("Result")
SETTLE_SECONDS = 30.0
_log = logging.getLogger("mailsim")


class BackgroundTasks:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[Any]] = set()
        self._idle: set[asyncio.Task[Any]] = set()
        clock.settle = self.settle

    def start(self, work: Coroutine[Any, Any, object], name: str = "background") -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    async def wait_idle(self, waiting: Awaitable[Result]) -> Result:
        """Wait for something that may never happen, without blocking a move of the clock."""
        task = asyncio.current_task()
        assert task is not None
        self._idle.add(task)
        try:
            return await waiting
        finally:
            self._idle.discard(task)

    async def settle(self, limit: float = SETTLE_SECONDS) -> None:
        """Wait until every task sleeps on the clock or has ended, for at most `limit` real seconds."""
        for _ in range(3):
            await asyncio.sleep(0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while self._has_working_task():  # noqa: ASYNC110 - a task that starts to sleep on the clock sets no event
                    await asyncio.sleep(0.001)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _has_working_task(self) -> bool:
        return any(task not in self._clock.sleeping and task not in self._idle for task in self._tasks)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s failed in the background", task.get_name(), exc_info=error)
