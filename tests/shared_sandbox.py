"""SharedSandbox: a FileSandbox for tests that do not test its processes.

Their start takes a second of CPU time, so the tests of a process share them.
"""

import asyncio
import atexit
import logging
import sys
from collections.abc import Sequence
from typing import Any

from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.documents.sandbox.helper_process import HelperProcess
from postroom.documents.sandbox.ipc import TaskReport, TaskRequest

_zygotes: dict[tuple[str, ...], "_SharedZygote"] = {}


class SharedSandbox(FileSandbox):
    """Its zygotes serve every test of this process; its slots and its OCR processes are its own."""

    def _create_zygote(self, tasks: str) -> HelperProcess:
        zygote = super()._create_zygote(tasks)
        key = (*zygote.arguments, *sys.path)
        if key not in _zygotes:
            _zygotes[key] = _SharedZygote(zygote.module, *zygote.arguments)
        return _zygotes[key]


class _SharedZygote(HelperProcess):
    """Outlives the event loops of tests: a loop reads from it only while a request is pending."""

    loop: asyncio.AbstractEventLoop | None = None

    async def request(self, request: TaskRequest, files: Sequence[int]) -> TaskReport:
        loop = asyncio.get_running_loop()
        if self.loop is not loop:
            self.loop, self.start_lock = loop, asyncio.Lock()
        try:
            return await super().request(request, files)
        finally:
            if self.control is not None and not self.pending:
                loop.remove_reader(self.control)

    async def _ensure_started(self) -> Any:
        control = await super()._ensure_started()
        asyncio.get_running_loop().add_reader(control, self._receive_report, control)
        return control

    async def stop(self) -> None:
        """The next test uses it, too."""

    def end(self) -> None:
        if self.control is not None:
            self.control.close()
        if self.process is not None:  # started by a loop that is closed
            transport = self.process._transport
            transport.close()
            transport.get_extra_info("subprocess").wait()


@atexit.register
def _end_zygotes() -> None:
    logging.getLogger("asyncio").disabled = True  # Python 3.11 warns that their loop is closed
    while _zygotes:
        _zygotes.popitem()[1].end()
