"""FileSandbox: reads, analyzes, renders and sanitizes untrusted files in child processes with limits.

A crash, a hang or excessive memory use fails that one file with a reason and does not affect the others. It
runs in the process of the caller and never parses a file there; `child_tasks` and `ocr` do, in children.
"""

import asyncio
import copy
import fcntl
import os
import signal
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from postroom.documents.analysis_result import AnalysisTask, DocumentAnalysis, decode_analysis
from postroom.documents.fields.extraction_result import ModelAnswer
from postroom.documents.files.file_reading import (
    FileReading,
    OcrPage,
    PartialReading,
    Rotation,
    Transcript,
    TranscriptPage,
)
from postroom.documents.files.html_sanitizer import MessageHtml, encode_message_html
from postroom.documents.files.unpack import ContainerEntry, SkippedEntry, UnpackedFile, sanitize_name
from postroom.documents.kinds.document_kind import DocumentKind
from postroom.documents.page_ranges import PageRange
from postroom.documents.sandbox import confinement
from postroom.documents.sandbox.confinement import Confinement
from postroom.documents.sandbox.fair_slots import FairSlots, SlotUse
from postroom.documents.sandbox.file_limits import STRIP_RATIO, FileLimits
from postroom.documents.sandbox.helper_process import HelperProcess
from postroom.documents.sandbox.ipc import (
    LOCKED,
    OUT_OF_MEMORY,
    REFUSED,
    SUCCEEDED,
    TaskReport,
    TaskRequest,
    read_all,
    write_all,
)
from postroom.errors import PasswordRequired, TransientError, UnreadableFile
from postroom.model import OrganizationId, Secret

# 205 dpi for A4. OCR was worse with fewer pixels and only slower with more.
_OCR_SIDE_PIXELS: Final = 2400
# A supermarket receipt is a long strip; its width decides whether it is legible.
_OCR_STRIP_PIXELS: Final = (1200, 12_000)
_OCR_SECONDS: Final = 300.0
_MAX_PASSWORD_BYTES: Final = 1000  # PDF uses at most 127
_decode_partial_reading: Final = msgspec.msgpack.Decoder(PartialReading).decode
_decode_entries: Final = msgspec.msgpack.Decoder(list[ContainerEntry]).decode
_decode_files: Final = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_ocr_page: Final = msgspec.msgpack.Decoder(OcrPage).decode


class _ChildKilled(TransientError):
    pass


class FileSandbox:
    """Reads, analyzes and renders files, one per core at a time. `async with` ends its processes.

    An OCR process takes one core and 1 GB of memory; they start with the first scan.
    """

    def __init__(
        self,
        limits: FileLimits | None = None,
        *,
        parallel: int | None = None,
        ocr_processes: int | None = None,
    ) -> None:
        self.limits = limits or FileLimits()
        self.organization: OrganizationId | None = None  # whose files this object reads
        cores = len(os.sched_getaffinity(0))
        self.slots = FairSlots(parallel or cores)
        # Each starts with its first task. The second takes much longer: a person who opens a message must not
        # wait for it, and a process that only shows files never starts it.
        self.zygote = self._create_zygote("postroom.documents.sandbox.child_tasks")
        self.analysis_zygote = self._create_zygote("postroom.documents.sandbox.analysis_tasks")
        self.ocr_slots = FairSlots(ocr_processes or max(cores // 2, 1))
        # The last one starts only when a second organization needs it.
        self.ocr_processes = [
            HelperProcess("postroom.documents.files.ocr") for _ in range(self.ocr_slots.count + 1)
        ]
        self.idle_ocr = list(reversed(self.ocr_processes))

    def _create_zygote(self, tasks: str) -> HelperProcess:
        limits = msgspec.json.encode(self.limits).decode()
        return HelperProcess("postroom.documents.sandbox.zygote", limits, tasks)

    async def __aenter__(self) -> Self:
        confinement.hide_memory()  # of this process, which holds secrets
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes = (self.zygote, self.analysis_zygote, *self.ocr_processes)
        await asyncio.gather(*(process.stop() for process in processes))

    def for_organization(self, organization: OrganizationId) -> Self:
        """The same sandbox, for files of this organization: it shares slots and processes with the others."""
        shared = copy.copy(self)
        shared.organization = organization
        return shared

    def take_cpu_seconds(self) -> Mapping[OrganizationId, float]:
        """The CPU seconds that the children used since the last call, by organization."""
        total: dict[OrganizationId, float] = {}
        for slots in (self.slots, self.ocr_slots):
            for owner, seconds in slots.take_unrecorded().items():
                if owner is not None:
                    total[owner] = total.get(owner, 0.0) + seconds
        return total

    async def read(self, content: bytes | Path) -> FileReading:
        """Read a file. Raises UnreadableFile with the reason where that is not possible."""
        with _open_content(content, self.limits) as source:
            partial = _decode_partial_reading(await self._run_for_result(TaskRequest(0, "read"), source))
            pages = partial.reading.transcript.pages
            found = {
                page: await self._read_by_ocr(source, page, pages[page])
                for page in partial.pages_without_text
            }
        return _merge_ocr(partial.reading, found) if found else partial.reading

    async def analyze(
        self,
        reading: FileReading,
        *kinds: DocumentKind,
        use_exact: bool = True,
        answer: ModelAnswer | None = None,
    ) -> DocumentAnalysis:
        """Find the fields of a document of one of these kinds; `analysis.analyze` explains the arguments.

        Raises UnreadableFile if that takes more than the limits allow, or kills its process.
        """
        task = AnalysisTask(reading, tuple(kind.name for kind in kinds), use_exact, answer)
        with _sealed_file(msgspec.msgpack.encode(task)) as source:
            for _ in range(2):  # it may be killed once because another process left too little memory
                with suppress(_ChildKilled):
                    found = await self._run_for_result(TaskRequest(0, "analyze"), source)
                    return decode_analysis(found, kinds)
        raise UnreadableFile("The analysis process was killed twice, perhaps for lack of memory.")

    async def check_confinement(self) -> Confinement:
        """Run a child and return how it is confined. Raises TransientError if none starts."""
        await self.sanitize_html(MessageHtml("", {}))
        assert self.zygote.confinement
        return self.zygote.confinement

    async def unpack(
        self, content: bytes, name: str, *, containers: int = 1
    ) -> list[UnpackedFile | SkippedEntry]:
        """List the files inside a container. Raises UnreadableFile with the reason where that fails.

        `containers`: how many of the same message share the bytes to which small ones may unpack.
        """
        with _open_content(content, self.limits) as source:
            request = TaskRequest(0, "unpack", name=sanitize_name(name), containers=containers)
            entries = _decode_entries(await self._run_for_result(request, source))
        return [found for entry in entries if (found := entry.unpacked or entry.skipped)]

    async def page_image(
        self, content: bytes | Path, *, page: int, width: int, rotation: Rotation = 0
    ) -> bytes:
        """Render a page as WebP of this width; `rotation` is that of its `TranscriptPage`."""
        with _open_content(content, self.limits) as source:
            request = TaskRequest(0, "image", page=page, fit_within=(width, 4 * width), rotation=rotation)
            return await self._run_for_result(request, source)

    async def decrypt(self, content: bytes, password: Secret) -> bytes:
        """Return a PDF without its encryption. Raises PasswordRequired if the password is wrong."""
        if len(password.reveal().encode()) > _MAX_PASSWORD_BYTES:
            raise PasswordRequired("The password is too long for a PDF.")
        with _open_content(content, self.limits) as source:
            return await self._run_for_result(TaskRequest(0, "decrypt", password=password.reveal()), source)

    async def split(self, content: bytes, ranges: Sequence[PageRange]) -> list[bytes]:
        """Return each range of pages of a PDF as a file of its own."""
        with _open_content(content, self.limits) as source:
            request = TaskRequest(0, "split", ranges=tuple(ranges))
            return _decode_files(await self._run_for_result(request, source))

    async def sanitize_html(self, html: MessageHtml) -> str:
        """Return the HTML of a message without scripts and remote content."""
        with _sealed_file(encode_message_html(html)) as source:
            return (await self._run_for_result(TaskRequest(0, "sanitize_html"), source)).decode()

    async def _run_for_result(self, request: TaskRequest, source: int) -> bytes:
        with _memory_file() as target:
            await self._run(request, (source, target))
            return read_all(target)

    async def _run(self, request: TaskRequest, files: Sequence[int]) -> None:
        """Run the task in a child. Every outcome but a result raises an error."""
        zygote = self.analysis_zygote if request.task == "analyze" else self.zygote
        async with self.slots.take(self.organization) as use:
            try:
                async with asyncio.timeout(self.limits.wall_seconds):
                    report = await zygote.request(request, files)
                use.cpu_seconds = report.cpu_seconds
            except TimeoutError:
                raise UnreadableFile(
                    f"{_name_activity(request)} took more than {self.limits.wall_seconds:g} seconds."
                ) from None
        if report.status != SUCCEEDED:
            activity = _name_activity(request)
            raise _to_error(report, activity, files[1], self.limits.for_task(request.task))

    async def _read_by_ocr(self, source: int, page: int, size: TranscriptPage) -> OcrPage:
        """Render the page in a child and read it by OCR.

        If the OCR process dies, try once more.
        """
        with _memory_file() as bitmap:
            await self._run(
                TaskRequest(0, "bitmap", page=page, fit_within=_ocr_frame(size)), (source, bitmap)
            )
            async with self.ocr_slots.take(self.organization) as use:
                process = self.idle_ocr.pop()
                try:
                    try:
                        return await self._request_ocr(process, bitmap, page, use)
                    except TransientError:
                        return await self._request_ocr(process, bitmap, page, use)
                except TransientError:
                    if not process.is_ready:
                        raise  # not the page's fault
                    raise UnreadableFile(f"OCR crashed twice on page {page + 1}.") from None
                finally:
                    self.idle_ocr.append(process)

    async def _request_ocr(self, process: HelperProcess, bitmap: int, page: int, use: SlotUse) -> OcrPage:
        with _memory_file() as target:
            try:
                async with asyncio.timeout(_OCR_SECONDS):
                    report = await process.request(TaskRequest(0, "ocr", page=page), (bitmap, target))
                use.cpu_seconds = report.cpu_seconds
            except TimeoutError:
                await process.kill()
                raise UnreadableFile(
                    f"OCR of page {page + 1} took more than {_OCR_SECONDS:g} seconds."
                ) from None
            if report.status != SUCCEEDED:
                raise UnreadableFile(read_all(target).decode(errors="replace")[:500])
            return _decode_ocr_page(read_all(target))


def _name_activity(request: TaskRequest) -> str:
    return "Analyzing the document" if request.task == "analyze" else "Reading the file"


def _to_error(
    report: TaskReport, activity: str, target: int, limits: FileLimits
) -> UnreadableFile | TransientError:
    if report.reason:
        return TransientError(f"{activity} failed: {report.reason}.")
    if report.status == REFUSED and (words := read_all(target)):
        return UnreadableFile(words.decode(errors="replace")[:500])
    if report.status == LOCKED:
        return PasswordRequired(read_all(target).decode(errors="replace")[:500])
    if report.status == OUT_OF_MEMORY:
        return UnreadableFile(f"{activity} needs more than {limits.memory_bytes >> 20} MB of memory.")
    if report.status == -signal.SIGKILL:
        return _ChildKilled(f"{activity} failed: its process was killed.")
    if report.status == -signal.SIGXCPU:
        return UnreadableFile(f"{activity} takes more than {limits.cpu_seconds} seconds of CPU time.")
    how = signal.Signals(-report.status).name if report.status < 0 else f"status {report.status}"
    return UnreadableFile(f"{activity} crashed its process, or needs more memory than is allowed ({how}).")


def _merge_ocr(reading: FileReading, found: Mapping[int, OcrPage]) -> FileReading:
    """Replace the words and rotations of these pages by those from OCR."""
    before = reading.transcript
    # Where OCR finds nothing, the little text of the text layer is better than none.
    found = {number: ocr_page for number, ocr_page in found.items() if ocr_page.words}
    pages = tuple(
        _rotate_page(page, found[number].rotation) if number in found else page
        for number, page in enumerate(before.pages)
    )
    words = [word for word in before.words if word.page not in found]
    words += [word for ocr_page in found.values() for word in ocr_page.words]
    words.sort(key=lambda word: (word.page, word.line))  # stable: from left to right within a line
    return replace(reading, transcript=Transcript("ocr", pages, tuple(words)))


def _ocr_frame(size: TranscriptPage) -> tuple[int, int]:
    """Return the size in pixels at which to render a page for OCR."""
    short, long = sorted((size.width, size.height))
    if long <= STRIP_RATIO * short:
        return _OCR_SIDE_PIXELS, _OCR_SIDE_PIXELS
    return _OCR_STRIP_PIXELS if size.height > size.width else (_OCR_STRIP_PIXELS[1], _OCR_STRIP_PIXELS[0])


def _rotate_page(page: TranscriptPage, rotation: Rotation) -> TranscriptPage:
    sideways = rotation in {90, 270}
    return TranscriptPage(*((page.height, page.width) if sideways else (page.width, page.height)), rotation)


@contextmanager
def _open_content(content: bytes | Path, limits: FileLimits) -> Generator[int]:
    """Open the content as a file; reject it if it is too large."""
    if isinstance(content, bytes):
        _check_size(len(content), limits)
        with _sealed_file(content) as file:
            yield file
        return
    file = os.open(content, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("This is not a regular file.")
        _check_size(status.st_size, limits)
        yield file
    finally:
        os.close(file)


def _check_size(size: int, limits: FileLimits) -> None:
    if size == 0:
        raise UnreadableFile("The file is empty.")
    if size > limits.file_bytes:
        raise UnreadableFile(f"The file has {size:,} bytes; the limit is {limits.file_bytes:,}.")


@contextmanager
def _sealed_file(content: bytes) -> Generator[int]:
    """A memory file that no process can change from now on."""
    with _memory_file() as file:
        write_all(file, content)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
        yield file


@contextmanager
def _memory_file() -> Generator[int]:
    file = os.memfd_create("document", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        yield file
    finally:
        os.close(file)
