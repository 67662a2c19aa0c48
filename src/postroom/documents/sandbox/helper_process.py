"""HelperProcess: a long-running child process, started on first use and restarted after it died.

A request is one message on a socket, with open files. The report on it carries the number of the request. The
child is `zygote` or `files.ocr`.
"""

import asyncio
import contextlib
import itertools
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from postroom.documents.sandbox.confinement import Confinement
from postroom.documents.sandbox.ipc import MAX_MESSAGE_BYTES, TaskReport, TaskRequest, decode_report, encode
from postroom.errors import TransientError

_STOP_SECONDS = 5.0
_ENVIRONMENT: Final = {
    # Else onnxruntime keeps a database of events for its vendor in the home directory.
    "ORT_DISABLE_TELEMETRY": "1",
    # NumPy would start threads, which a forked child does not have.
    "OPENBLAS_NUM_THREADS": "1",
}
ENDED = "A process that reads documents ended unexpectedly. It is restarted."
NOT_STARTED = "A process that reads documents does not start. Its standard error output says why."


class HelperProcess:
    """Runs a Python module as a child process and sends it requests."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.module = module
        self.arguments = arguments
        self.process: asyncio.subprocess.Process | None = None
        self.control: socket.socket | None = None
        self.is_ready = False
        self.confinement: Confinement | None = None  # as the process reported when it was ready
        self.pending: dict[int, asyncio.Future[TaskReport]] = {}
        self.numbers = itertools.count(1)
        self.start_lock = asyncio.Lock()

    async def request(self, request: TaskRequest, files: Sequence[int]) -> TaskReport:
        """Run a task and wait for its report. Cancelling this call cancels the task in the process too.

        Raises TransientError when the process dies.
        """
        control = await self._ensure_started()
        request = replace(request, number=next(self.numbers))
        report = asyncio.get_running_loop().create_future()
        self.pending[request.number] = report
        try:
            self._send(control, request, files)
            return await report
        except asyncio.CancelledError:
            if self.control is control:
                self._send(control, replace(request, task="cancel"), ())
            raise
        finally:
            del self.pending[request.number]

    async def stop(self) -> None:
        """End the process, by force if it does not end in time."""
        process = self.process
        self._disconnect()
        self.process = None
        if process is None:
            return
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            await self._kill(process)

    async def kill(self) -> None:
        """Kill the process now. Its pending tasks fail."""
        process = self.process
        self._disconnect()
        if process is not None:
            await self._kill(process)

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def _ensure_started(self) -> socket.socket:
        async with self.start_lock:
            if self.control is None:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                ours.setblocking(False)
                try:
                    with theirs:
                        self.process = await self._start(theirs.fileno())
                except BaseException:
                    ours.close()  # if the process did start, this makes it end
                    raise
                self.control, self.is_ready = ours, False
                asyncio.get_running_loop().add_reader(ours, self._receive_report, ours)
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
            # Not the worker's environment, which holds secrets.
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **_ENVIRONMENT},
            start_new_session=True,
        )

    def _send(self, control: socket.socket, request: TaskRequest, files: Sequence[int]) -> None:
        try:
            socket.send_fds(control, [encode(request)], files)
        except OSError:  # the process just died
            self._disconnect()

    def _receive_report(self, control: socket.socket) -> None:
        try:
            message = control.recv(MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._disconnect()
            return
        report = decode_report(message)
        self.is_ready = True
        self.confinement = report.confinement or self.confinement
        pending = self.pending.get(report.number)
        if pending and not pending.done():
            pending.set_result(report)

    def _disconnect(self) -> None:
        """Close the connection to a process that ended or should end, and fail its pending tasks."""
        if self.control is not None:
            asyncio.get_running_loop().remove_reader(self.control)
            self.control.close()
            self.control = None
        for pending in self.pending.values():
            if not pending.done():
                pending.set_exception(TransientError(ENDED if self.is_ready else NOT_STARTED))
