"""What native code in a sandboxed process could do: from inside the real child, by raw system call."""

import asyncio
import errno
import os
import pwd
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from documents.files import hostile_files
from documents.sandbox import old_kernel
from postroom.documents.kinds.invoice import INVOICE
from postroom.documents.sandbox import confinement, file_sandbox, system_calls
from postroom.documents.sandbox.confinement import Measure
from postroom.documents.sandbox.file_sandbox import FileSandbox

GOOD = hostile_files.page(hostile_files.WORDS)
SLOW = hostile_files.operators()["tiles finer than dust"]
AT_FDCWD = 2**64 - 100
# By their numbers on x86_64, with arguments that the kernel accepts or refuses with another error. `path` is
# "/tmp", `buffer` is writable memory, and the process is the sandbox's worker.
WORKER = os.getpid()
FORBIDDEN = {
    "open": (2, "path", 0),
    "openat": (257, AT_FDCWD, "path", 0),
    "openat2": (437, AT_FDCWD, "path", "buffer", 24),
    "creat": (85, "path", 0o600),
    "truncate": (76, "path", 0),
    "ftruncate": (77, 1, 0),
    "unlink": (87, "path"),
    "unlinkat": (263, AT_FDCWD, "path", 0),
    "rename": (82, "path", "path"),
    "mkdir": (83, "path", 0o700),
    "chmod": (90, "path", 0o700),
    "stat": (4, "path", "buffer"),
    "readlink": (89, "path", "buffer", 100),
    "getdents64": (217, 0, "buffer", 100),
    "socket": (41, 1, 1, 0),
    "socketpair": (53, 1, 1, 0, "buffer"),
    "connect": (42, 0, "buffer", 16),
    "sendmsg": (46, 0, "buffer", 0),
    "recvmsg": (47, 0, "buffer", 0),
    "pipe2": (293, "buffer", 0),
    "fork": (57,),
    "vfork": (58,),
    "clone": (56, signal.SIGCHLD, 0, 0, 0, 0),
    "clone3": (435, "buffer", 64),
    "execve": (59, "path", 0, 0),
    "execveat": (322, AT_FDCWD, "path", 0, 0, 0),
    "ptrace": (101, 16, WORKER, 0, 0),
    "process_vm_readv": (310, WORKER, "buffer", 1, "buffer", 1, 0),
    "process_vm_writev": (311, WORKER, "buffer", 1, "buffer", 1, 0),
    "kill": (62, WORKER, 0),
    "tgkill": (234, WORKER, WORKER, 0),
    "pidfd_open": (434, WORKER, 0),
    "mount": (165, "path", "path", "path", 0, 0),
    "unshare": (272, 0x10000000),
    "bpf": (321, 0, "buffer", 64),
    "io_uring_setup": (425, 4, "buffer"),
    "memfd_create": (319, "path", 0),
    "userfaultfd": (323, 0),
    "perf_event_open": (298, "buffer", 0, 0xFFFFFFFF, 0xFFFFFFFF, 0),
    "keyctl": (250, 0, 0),
    "prctl": (157, 3, 0, 0, 0, 0),
    "prlimit64": (302, WORKER, 7, 0, "buffer"),
    "setuid": (105, 0),
    "ioctl": (16, 0, 0x5401, "buffer"),
    "shmget": (29, 0, 4096, 0o1600),
    "mmap of executable memory": (9, 0, 4096, 7, 0x22, 2**64 - 1, 0),
    "a call of the 32-bit ABI for 64 bits": (0x40000000 + 39,),
    "a call of a future kernel": (1023,),
}
ALLOWED = {"getpid": (39,), "brk": (12, 0), "mmap of memory": (9, 0, 4096, 3, 0x22, 2**64 - 1, 0)}


def read_status(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def find_children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def owner_of_environment(pid):
    return Path(f"/proc/{pid}/environ").stat().st_uid


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # of other processes there are no events
            await asyncio.sleep(0.01)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="system calls have other numbers here")
async def test_the_child_is_refused_every_system_call_that_it_does_not_need():
    calls = FORBIDDEN | ALLOWED
    async with FileSandbox() as sandbox:
        sandbox.zygote.module = "documents.sandbox.hostile_zygote"
        answer = await sandbox.page_image(msgspec.json.encode(list(calls.values())), page=0, width=1)
    results = dict(zip(calls, msgspec.json.decode(answer), strict=True))
    assert len(FORBIDDEN) >= 30
    assert {name for name in FORBIDDEN if results[name] != errno.EPERM} == set()
    assert {name for name in ALLOWED if results[name] != 0} == set()


async def test_zygotes_and_children_are_confined():
    async with FileSandbox(parallel=2) as sandbox:
        sandbox.analysis_zygote.module = "documents.sandbox.hostile_analysis"
        stalling = await sandbox.read(b"stall")
        tasks = {
            asyncio.create_task(sandbox.page_image(SLOW, page=0, width=900)): sandbox.zygote,
            asyncio.create_task(sandbox.analyze(stalling, INVOICE)): sandbox.analysis_zygote,
        }
        for task, process in tasks.items():
            await until(lambda process=process: process.process and find_children(process.process.pid))
            zygote = process.process.pid
            [child] = find_children(zygote)
            await until(lambda child=child: read_status(child)["Seccomp_filters"] == "2")
            for pid in (zygote, child):
                assert_confined(pid)
            task.cancel()


def assert_confined(pid):
    status = read_status(pid)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Threads"] == "1"  # one that a library started before would not be confined
    assert int(status["CapEff"], 16) == 0
    own_user = confinement.UNPRIVILEGED_ID if os.getuid() == 0 else os.getuid()
    assert set(status["Uid"].split()) == {str(own_user)}
    # The kernel gives the files of a process whose memory is hidden to root.
    assert owner_of_environment(pid) == 0


def test_no_account_has_the_user_of_document_processes():
    """The embedded database may run as the usual user without rights, 65534."""
    assert confinement.UNPRIVILEGED_ID not in {account.pw_uid for account in pwd.getpwall()}


def test_no_process_can_change_the_bytes_of_a_file_that_is_read():
    with file_sandbox._sealed_file(b"content") as file:
        assert fails(os.pwrite, file, b"C", 0)
        assert fails(os.ftruncate, file, 0)


async def test_the_reported_measures_are_those_of_the_kernel():
    async with FileSandbox() as sandbox:
        reported = await sandbox.check_confinement()
        status = read_status(sandbox.zygote.process.pid)
    assert (Measure.SECCOMP in reported.measures) == (status["Seccomp"] == "2")
    assert (Measure.NO_NEW_PRIVILEGES in reported.measures) == (status["NoNewPrivs"] == "1")
    assert (Measure.OWN_USER in reported.measures) == (os.getuid() == 0)
    assert (Measure.LANDLOCK in reported.measures) == (reported.landlock_version > 0)
    assert set(status["Uid"].split()) == {str(reported.uid)}


READ_A_FILE = """
import asyncio, sys
from postroom.documents.sandbox.file_sandbox import FileSandbox

async def main():
    async with FileSandbox(parallel=1) as sandbox:
        reading = await sandbox.read(sys.stdin.buffer.read())
        print(reading.transcript.text)
        print(", ".join((await sandbox.check_confinement()).measures))

asyncio.run(main())
"""


def test_files_are_read_on_a_kernel_without_seccomp_and_landlock():
    program = [sys.executable, old_kernel.__file__, "-c", READ_A_FILE]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(program, input=GOOD, env=environment, capture_output=True, check=True)
    *words, measures = done.stdout.decode().splitlines()
    assert words
    assert measures == ", ".join(
        ["no new privileges", "hidden memory", *(["own user"] if os.getuid() == 0 else [])]
    )


async def test_the_worker_hides_its_memory():
    async with FileSandbox():
        assert confinement._system.prctl(3, 0, 0, 0, 0) == 0  # PR_GET_DUMPABLE


def run_confined(program):
    """The exit status of a child of this process that is confined without a list of system calls."""
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            os._exit(program(confinement.confine_process(parent, None)))
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fails(call, *arguments):
    try:
        call(*arguments)
    except PermissionError:
        return True
    return False


@pytest.mark.skipif(
    confinement._system.syscall(444, None, 0, 1) < 6, reason="the kernel has no Landlock, or an old one"
)
def test_without_seccomp_landlock_still_forbids_files_tcp_and_signals():
    worker = os.getpid()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def attack(confined):
            assert Measure.LANDLOCK in confined.measures
            assert Measure.SECCOMP not in confined.measures
            client = socket.socket()
            assert fails(Path("/etc/hostname").read_bytes)
            assert fails(client.connect, server.getsockname())
            assert fails(os.kill, worker, 0)
            return 7

        assert run_confined(attack) == 7


def test_a_filter_for_another_architecture_kills_the_process():
    """A 32-bit entry point has other numbers for the same calls."""
    program = system_calls.build_child_filter()
    wrong = struct.pack("<I", 0x40000003)
    foreign = program[:12] + wrong + program[16:]

    def run(_confined):
        confinement.restrict_system_calls(foreign)
        os.getppid()
        return 7

    assert run_confined(run) == -signal.SIGSYS


def test_a_worker_loads_no_decoder():
    program = (
        "import sys\n"
        "import postroom.cli.work, postroom.wiring.documents, postroom.web.server\n"
        "from postroom.documents.sandbox import file_sandbox\n"
        "from postroom.flow.documents import extraction, process, unpack\n"
        "decoders = {'lxml', 'PIL', 'pypdfium2', 'numpy', 'postroom.documents.analysis'}\n"
        "print(sorted(decoders & set(sys.modules)))"
    )
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
