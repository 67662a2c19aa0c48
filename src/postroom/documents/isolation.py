"""Files of strangers are read here, each in a child of its own with limits: the worker only waits.

A crash, a hang or hunger for memory fails that one file with a reason and costs the others nothing.
"""

import asyncio
import os
import signal
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from postroom.documents.companion import Companion
from postroom.documents.limits import Limits
from postroom.documents.orders import OUT_OF_MEMORY, REFUSED, RESULT, Order, Report, content_of, write_all
from postroom.documents.transcript import Draft, Reading, Turn
from postroom.errors import TransientError, Unreadable

_draft_of: Final = msgspec.msgpack.Decoder(Draft).decode


class Readers:
    """Reads files, as many at once as there are cores. `async with` ends its processes."""

    def __init__(self, limits: Limits | None = None, *, parallel: int | None = None) -> None:
        self.limits = limits or Limits()
        self.turn = asyncio.Semaphore(parallel or len(os.sched_getaffinity(0)))
        self.zygote = Companion("postroom.documents.zygote", msgspec.json.encode(self.limits).decode())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.zygote.stop()

    async def read(self, content: bytes | Path) -> Reading:
        """All that stands in a file; `Unreadable` says in words why not."""
        with _opened(content, self.limits) as source:
            draft = _draft_of(await self._perform(Order(0, "read"), source))
            return draft.reading

    async def page_image(self, content: bytes | Path, *, page: int, width: int, turned: Turn = 0) -> bytes:
        """A page as WebP of that width, turned as `Page.turned` of its reading says."""
        with _opened(content, self.limits) as source:
            order = Order(0, "image", page=page, width=width, turned=turned)
            return await self._perform(order, source)

    async def _perform(self, order: Order, source: int) -> bytes:
        with _result_file() as target:
            await self._run(order, (source, target))
            return content_of(target)

    async def _run(self, order: Order, files: Sequence[int]) -> None:
        """Have a child carry out the order. Whatever became of it but a result is an error."""
        async with self.turn:
            try:
                async with asyncio.timeout(self.limits.wall_seconds):
                    report = await self.zygote.ask(order, files)
            except TimeoutError:
                raise Unreadable(
                    f"Reading the file took more than {self.limits.wall_seconds:g} seconds."
                ) from None
        if report.status != RESULT:
            raise self._failure(report, files[1])

    def _failure(self, report: Report, target: int) -> Unreadable | TransientError:
        match report.status:
            case s if report.reason:
                return TransientError(f"The file was not read: {report.reason}.")
            case s if s == REFUSED and (words := content_of(target)):
                return Unreadable(words.decode(errors="replace")[:500])
            case s if s == OUT_OF_MEMORY:
                return Unreadable(
                    f"Reading the file needs more than {self.limits.memory_bytes >> 20} MB of memory."
                )
            case s if s in {-signal.SIGXCPU, -signal.SIGKILL}:
                return Unreadable(
                    f"Reading the file takes more than {self.limits.cpu_seconds} seconds of CPU time."
                )
            case s:
                how = signal.Signals(-s).name if s < 0 else f"status {s}"
                return Unreadable(f"The file broke its reader, or needs more memory than is allowed ({how}).")


@contextmanager
def _opened(content: bytes | Path, limits: Limits) -> Generator[int]:
    """An open file with the content, not larger than allowed."""
    if isinstance(content, bytes):
        file = os.memfd_create("document", os.MFD_CLOEXEC)
    else:
        file = os.open(content, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(file)
        size = len(content) if isinstance(content, bytes) else status.st_size
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("This is no file.")
        if size == 0:
            raise Unreadable("The file is empty.")
        if size > limits.file_bytes:
            raise Unreadable(f"The file has {size:,} bytes; {limits.file_bytes:,} are read at most.")
        if isinstance(content, bytes):
            write_all(file, content)
        yield file
    finally:
        os.close(file)


@contextmanager
def _result_file() -> Generator[int]:
    file = os.memfd_create("result", os.MFD_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)
