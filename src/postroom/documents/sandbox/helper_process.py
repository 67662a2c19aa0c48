"""A process of ours beside the worker that takes orders: started when first needed, and anew when it died.

An order is one message on a socket, with open files; its report comes back with the same number.
"""

import asyncio
import contextlib
import itertools
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace

from postroom.documents.sandbox.ipc import MAX_MESSAGE_BYTES, TaskReport, TaskRequest, decode_report, encode
from postroom.errors import TransientError

_STOP_SECONDS = 5.0
ENDED = "A process that reads documents ended; it is started again."
NOT_STARTED = "A process that reads documents does not start; what it wrote to the standard error says why."


class HelperProcess:
    def __init__(self, module: str, *arguments: str) -> None:
        self.module = module
        self.arguments = arguments
        self.process: asyncio.subprocess.Process | None = None
        self.control: socket.socket | None = None
        self.is_ready = False
        self.waiting: dict[int, asyncio.Future[TaskReport]] = {}
        self.numbers = itertools.count(1)
        self.starting = asyncio.Lock()

    async def ask(self, order: TaskRequest, files: Sequence[int]) -> TaskReport:
        """Have the order carried out; cancelled, it is ended there too. Its death is transient."""
        control = await self._started()
        order = replace(order, number=next(self.numbers))
        report = asyncio.get_running_loop().create_future()
        self.waiting[order.number] = report
        try:
            self._send(control, order, files)
            return await report
        except asyncio.CancelledError:
            if self.control is control:
                self._send(control, replace(order, task="end"), ())
            raise
        finally:
            del self.waiting[order.number]

    async def stop(self) -> None:
        """End the process, by force when it does not end by itself."""
        process = self.process
        self._forget()
        self.process = None
        if process is None:
            return
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            await self._kill(process)

    async def kill(self) -> None:
        """End the process now; whatever it was doing fails."""
        process = self.process
        self._forget()
        if process is not None:
            await self._kill(process)

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def _started(self) -> socket.socket:
        async with self.starting:
            if self.control is None:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                ours.setblocking(False)
                try:
                    with theirs:
                        self.process = await self._start(theirs.fileno())
                except BaseException:
                    ours.close()  # a process that did start hears that, and ends
                    raise
                self.control, self.is_ready = ours, False
                asyncio.get_running_loop().add_reader(ours, self._hear, ours)
            return self.control

    async def _start(self, theirs: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self.module,
            str(theirs),
            str(os.getpid()),
            *self.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            pass_fds=[theirs],
            # Nothing of ours: the environment holds secrets.
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )

    def _send(self, control: socket.socket, order: TaskRequest, files: Sequence[int]) -> None:
        try:
            socket.send_fds(control, [encode(order)], files)
        except OSError:  # it died a moment ago; whoever waits is told by `_hear`
            self._forget()

    def _hear(self, control: socket.socket) -> None:
        try:
            message = control.recv(MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._forget()
            return
        report = decode_report(message)
        self.is_ready = True
        waiting = self.waiting.get(report.number)
        if waiting and not waiting.done():
            waiting.set_result(report)

    def _forget(self) -> None:
        """Hang up on a process that is gone or is to go, and fail what it was doing."""
        if self.control is not None:
            asyncio.get_running_loop().remove_reader(self.control)
            self.control.close()
            self.control = None
        for waiting in self.waiting.values():
            if not waiting.done():
                waiting.set_exception(TransientError(ENDED if self.is_ready else NOT_STARTED))
