"""Files of strangers are read here, each in a child of its own with limits: the worker only waits.

A crash, a hang or hunger for memory fails that one file with a reason and costs the others nothing.
"""

import asyncio
import os
import signal
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from postroom.documents.files.html_sanitizer import MessageHtml, encode_message_html
from postroom.documents.files.transcript import (
    FileReading,
    OcrPage,
    PartialReading,
    Rotation,
    Transcript,
    TranscriptPage,
)
from postroom.documents.sandbox.file_limits import STRIP_RATIO, FileLimits
from postroom.documents.sandbox.helper_process import HelperProcess
from postroom.documents.sandbox.ipc import (
    OUT_OF_MEMORY,
    REFUSED,
    SUCCEEDED,
    TaskReport,
    TaskRequest,
    read_all,
    write_all,
)
from postroom.errors import TransientError, UnreadableFile

# 205 dots to the inch for A4. With fewer, recognition was worse; with more, only slower.
_SIDE: Final = 2400
# The receipt of a supermarket is a strip; its width decides whether it can be read.
_STRIP: Final = (1200, 12_000)
_ENGINE_SECONDS: Final = 300.0
_draft_of: Final = msgspec.msgpack.Decoder(PartialReading).decode
_recognised_of: Final = msgspec.msgpack.Decoder(OcrPage).decode


class FileSandbox:
    """Reads files, as many at once as there are cores. `async with` ends its processes.

    An engine for recognition takes a core and 1 GB; they start when the first scan comes.
    """

    def __init__(
        self, limits: FileLimits | None = None, *, parallel: int | None = None, engines: int | None = None
    ) -> None:
        self.limits = limits or FileLimits()
        cores = len(os.sched_getaffinity(0))
        self.turn = asyncio.Semaphore(parallel or cores)
        self.zygote = HelperProcess(
            "postroom.documents.sandbox.zygote", msgspec.json.encode(self.limits).decode()
        )
        self.engines = [
            HelperProcess("postroom.documents.files.ocr") for _ in range(engines or max(cores // 2, 1))
        ]
        self.idle = asyncio.LifoQueue[HelperProcess]()
        for engine in reversed(self.engines):
            self.idle.put_nowait(engine)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(self.zygote.stop(), *(engine.stop() for engine in self.engines))

    async def read(self, content: bytes | Path) -> FileReading:
        """All that stands in a file; `Unreadable` says in words why not."""
        with _opened(content, self.limits) as source:
            draft = _draft_of(await self._perform(TaskRequest(0, "read"), source))
            pages = draft.reading.transcript.pages
            found = {page: await self._recognise(source, page, pages[page]) for page in draft.blind}
        return _with(draft.reading, found) if found else draft.reading

    async def page_image(
        self, content: bytes | Path, *, page: int, width: int, turned: Rotation = 0
    ) -> bytes:
        """A page as WebP of that width, turned as `Page.turned` of its reading says."""
        with _opened(content, self.limits) as source:
            order = TaskRequest(0, "image", page=page, within=(width, 4 * width), turned=turned)
            return await self._perform(order, source)

    async def cleaned(self, letter: MessageHtml) -> str:
        """The HTML of a message as it may be shown."""
        with _memory_file() as source:
            write_all(source, encode_message_html(letter))
            return (await self._perform(TaskRequest(0, "letter"), source)).decode()

    async def _perform(self, order: TaskRequest, source: int) -> bytes:
        with _memory_file() as target:
            await self._run(order, (source, target))
            return read_all(target)

    async def _run(self, order: TaskRequest, files: Sequence[int]) -> None:
        """Have a child carry out the order. Whatever became of it but a result is an error."""
        async with self.turn:
            try:
                async with asyncio.timeout(self.limits.wall_seconds):
                    report = await self.zygote.ask(order, files)
            except TimeoutError:
                raise UnreadableFile(
                    f"Reading the file took more than {self.limits.wall_seconds:g} seconds."
                ) from None
        if report.status != SUCCEEDED:
            raise _failure(report, files[1], self.limits.of(order.task))

    async def _recognise(self, source: int, page: int, sheet: TranscriptPage) -> OcrPage:
        """Have a child draw the page and an engine look at it; one that dies over it gets one successor."""
        with _memory_file() as bitmap:
            await self._run(TaskRequest(0, "bitmap", page=page, within=_frame(sheet)), (source, bitmap))
            engine = await self.idle.get()
            try:
                try:
                    return await self._look(engine, bitmap, page)
                except TransientError:
                    return await self._look(engine, bitmap, page)
            except TransientError:
                if not engine.is_ready:
                    raise  # not the page's fault
                raise UnreadableFile(f"Recognition broke down twice over page {page + 1}.") from None
            finally:
                self.idle.put_nowait(engine)

    async def _look(self, engine: HelperProcess, bitmap: int, page: int) -> OcrPage:
        with _memory_file() as target:
            try:
                async with asyncio.timeout(_ENGINE_SECONDS):
                    report = await engine.ask(TaskRequest(0, "recognise", page=page), (bitmap, target))
            except TimeoutError:
                await engine.kill()
                raise UnreadableFile(
                    f"Recognition of page {page + 1} took more than {_ENGINE_SECONDS:g} seconds."
                ) from None
            if report.status != SUCCEEDED:
                raise UnreadableFile(read_all(target).decode(errors="replace")[:500])
            return _recognised_of(read_all(target))


def _failure(report: TaskReport, target: int, limits: FileLimits) -> UnreadableFile | TransientError:
    if report.reason:
        return TransientError(f"The file was not read: {report.reason}.")
    if report.status == REFUSED and (words := read_all(target)):
        return UnreadableFile(words.decode(errors="replace")[:500])
    if report.status == OUT_OF_MEMORY:
        return UnreadableFile(f"Reading the file needs more than {limits.memory_bytes >> 20} MB of memory.")
    if report.status == -signal.SIGKILL:
        return TransientError("The reader of the file was killed from outside.")
    if report.status == -signal.SIGXCPU:
        return UnreadableFile(f"Reading the file takes more than {limits.cpu_seconds} seconds of CPU time.")
    how = signal.Signals(-report.status).name if report.status < 0 else f"status {report.status}"
    return UnreadableFile(f"The file broke its reader, or needs more memory than is allowed ({how}).")


def _with(reading: FileReading, found: Mapping[int, OcrPage]) -> FileReading:
    """The reading with these pages as recognition saw them, turned as they had to be."""
    before = reading.transcript
    # Where nothing was recognised, the little that the text layer says is better than nothing.
    found = {number: recognised for number, recognised in found.items() if recognised.words}
    pages = tuple(
        _turned(page, found[number].turned) if number in found else page
        for number, page in enumerate(before.pages)
    )
    words = [word for word in before.words if word.page not in found]
    words += [word for recognised in found.values() for word in recognised.words]
    words.sort(key=lambda word: (word.page, word.line))  # stable: from left to right within a line
    return replace(reading, transcript=Transcript("ocr", pages, tuple(words)))


def _frame(sheet: TranscriptPage) -> tuple[int, int]:
    """How large to draw a page for recognition."""
    short, long = sorted((sheet.width, sheet.height))
    if long <= STRIP_RATIO * short:
        return _SIDE, _SIDE
    return _STRIP if sheet.height > sheet.width else (_STRIP[1], _STRIP[0])


def _turned(page: TranscriptPage, turned: Rotation) -> TranscriptPage:
    sideways = turned in {90, 270}
    return TranscriptPage(*((page.height, page.width) if sideways else (page.width, page.height)), turned)


@contextmanager
def _opened(content: bytes | Path, limits: FileLimits) -> Generator[int]:
    """An open file with the content, not larger than allowed."""
    if isinstance(content, bytes):
        with _memory_file() as file:
            _check_size(len(content), limits)
            write_all(file, content)
            yield file
        return
    file = os.open(content, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("This is no file.")
        _check_size(status.st_size, limits)
        yield file
    finally:
        os.close(file)


def _check_size(size: int, limits: FileLimits) -> None:
    if size == 0:
        raise UnreadableFile("The file is empty.")
    if size > limits.file_bytes:
        raise UnreadableFile(f"The file has {size:,} bytes; {limits.file_bytes:,} are read at most.")


@contextmanager
def _memory_file() -> Generator[int]:
    file = os.memfd_create("document", os.MFD_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)
