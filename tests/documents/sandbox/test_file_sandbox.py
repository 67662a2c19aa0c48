"""Children, zygote and worker may die in any way without harming other files."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from documents.files import hostile_files, sample_files
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.errors import TransientError, UnreadableFile

GOOD = hostile_files.page(hostile_files.WORDS)
SLOW = hostile_files.operators()["tiles finer than dust"]  # to draw it takes until the limit
ROOT = Path(__file__).parents[3]


def children(pid):
    with suppress(FileNotFoundError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def environment(pid):
    return Path(f"/proc/{pid}/environ").read_bytes()


def lives(pid):
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def until(condition):
    while not condition():  # noqa: ASYNC110  # of other processes there are no events
        await asyncio.sleep(0.01)


async def slow_reading(readers):
    """A file being read, and the child that reads it."""
    await readers.read(GOOD)
    zygote = readers.zygote.process.pid
    task = asyncio.create_task(readers.page_image(SLOW, page=0, width=900))
    await until(lambda: children(zygote))
    [child] = children(zygote)
    return task, child


async def test_concurrent_files_use_at_most_the_allowed_processes():
    async with FileSandbox(parallel=2) as readers:
        readings = [asyncio.create_task(readers.read(GOOD)) for _ in range(40)]
        most = 0
        while not all(reading.done() for reading in readings):
            if readers.zygote.process:
                most = max(most, len(children(readers.zygote.process.pid)))
            await asyncio.sleep(0.001)
    assert {reading.result().transcript.text for reading in readings} == {"Invoice"}
    assert most <= 2


async def test_files_on_disk_and_bytes_are_read_alike(tmp_path):
    (tmp_path / "a.pdf").write_bytes(sample_files.with_files(GOOD, a_xml=b"<a/>"))
    async with FileSandbox() as readers:
        by_path = await readers.read(tmp_path / "a.pdf")
        assert by_path == await readers.read((tmp_path / "a.pdf").read_bytes())
        assert by_path.embedded[0].content == b"<a/>"


async def test_text_files_and_e_invoices_are_read():
    ubl = b'<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"/>'
    async with FileSandbox() as readers:
        text = await readers.read("Kauf 10 Stück\nKurs 12,50".encode())
        assert (text.transcript.method, text.transcript.text) == ("plain", "Kauf 10 Stück\nKurs 12,50")
        invoice = await readers.read(ubl)
        assert [each.content for each in invoice.embedded] == [ubl]
        with pytest.raises(UnreadableFile, match="is a container"):
            await readers.read(hostile_files.archive({"a.pdf": GOOD}))


async def test_a_form_is_read_in_a_child():
    async with FileSandbox() as readers:
        reading = await readers.read(sample_files.form("Number", "4711"))
    assert reading.transcript.text == "Number 4711"


async def test_a_page_image_is_webp_of_the_requested_width():
    async with FileSandbox() as readers:
        image = await readers.page_image(sample_files.pdf([(50, 700, "Rechnung")]), page=0, width=500)
    assert image[:4] == b"RIFF"
    assert image[8:12] == b"WEBP"


async def test_a_killed_child_fails_only_its_own_file():
    async with FileSandbox(parallel=2) as readers:
        task, child = await slow_reading(readers)
        os.kill(child, signal.SIGKILL)
        with pytest.raises(TransientError, match="was killed"):
            await task
        assert (await readers.read(GOOD)).transcript.text == "Invoice"


async def test_cancelling_a_read_kills_its_child():
    async with FileSandbox(parallel=2) as readers:
        task, child = await slow_reading(readers)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not lives(child))
        assert (await readers.read(GOOD)).transcript.text == "Invoice"


async def test_a_read_that_takes_too_long_is_killed():
    async with FileSandbox(FileLimits(wall_seconds=1)) as readers:
        with pytest.raises(UnreadableFile, match="more than 1 seconds"):
            await readers.page_image(SLOW, page=0, width=900)
        await until(lambda: not children(readers.zygote.process.pid))


async def test_a_dead_zygote_fails_pending_reads_and_is_restarted():
    async with FileSandbox(parallel=2) as readers:
        task, child = await slow_reading(readers)
        before = readers.zygote.process.pid
        os.kill(before, signal.SIGKILL)
        with pytest.raises(TransientError, match="is restarted"):
            await task
        await until(lambda: not lives(child))
        assert (await readers.read(GOOD)).transcript.text == "Invoice"
        assert readers.zygote.process.pid != before


async def test_closing_the_sandbox_ends_its_processes():
    async with FileSandbox() as readers:
        await readers.read(GOOD)
        zygote = readers.zygote.process.pid
    assert not lives(zygote)


async def test_closing_while_a_file_is_read_ends_its_child():
    async with FileSandbox() as readers:
        task, child = await slow_reading(readers)
    await until(lambda: not lives(child))
    with pytest.raises(TransientError):
        await task


async def test_no_process_survives_a_killed_parent(tmp_path):
    (tmp_path / "slow").write_bytes(SLOW)
    (tmp_path / "scan").write_bytes(
        sample_files.encoded(sample_files.picture(sample_files.page_pdf()), "PNG")
    )
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        Path(__file__).with_name("parent_process.py"),
        tmp_path / "slow",
        tmp_path / "scan",
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"},
    )
    pids = [int(pid) for pid in (await program.stdout.readline()).split()]
    assert len(set(pids)) == 5  # OCR, two zygotes, and a child of each
    assert all(map(lives, pids))
    program.kill()
    await program.wait()
    await until(lambda: not any(map(lives, pids)))


@pytest.mark.parametrize(
    "module, options",
    [
        ("postroom.documents.sandbox.zygote", ["{}", "postroom.documents.sandbox.child_tasks"]),
        ("postroom.documents.sandbox.zygote", ["{}", "postroom.documents.sandbox.analysis_tasks"]),
        ("postroom.documents.files.ocr", []),
    ],
    ids=["files", "analysis", "OCR"],
)
def test_a_process_whose_worker_was_killed_exits_without_a_word(module, options):
    """A worker that is killed leaves a report unread, which breaks the socket of its process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno()), str(os.getpid()), *options],
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"},
        )
        theirs.close()
        ready, _, _ = select.select([ours], [], [], 60)
        assert ready, "it reports that it has started"
    assert process.communicate(timeout=60)[1] == b""


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/hostname')",
        "open('escaped', 'w')",
        "import socket; socket.socket()",
        "os.pipe()",
        "bytearray(400_000_000)",
    ],
)
def test_a_child_cannot_open_files_or_exceed_its_memory(attempt, tmp_path):
    program = (
        "import os, socket\n"
        "from postroom.documents.sandbox import zygote\n"
        "from postroom.documents.sandbox.file_limits import FileLimits\n"
        "zygote.apply_limits(FileLimits(memory_bytes=300_000_000))\n"
        f"try:\n    {attempt}\nexcept (OSError, MemoryError):\n    os._exit(7)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    assert ended.returncode == 7
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root may read the environment of a confined process")
async def test_the_processes_do_not_inherit_the_environment(monkeypatch):
    monkeypatch.setenv("POSTROOM_SECRET_FOR_TEST", "s3cret")
    async with FileSandbox() as readers:
        await readers.read(GOOD)
        known = environment(readers.zygote.process.pid)
    assert b"s3cret" not in known
    names = {part.partition(b"=")[0] for part in known.split(b"\0") if part}
    assert names <= {b"PYTHONPATH", b"LC_CTYPE", b"ORT_DISABLE_TELEMETRY", b"OPENBLAS_NUM_THREADS"}
