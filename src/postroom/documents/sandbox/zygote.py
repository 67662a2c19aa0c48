"""The zygote: a process that has loaded every library and forks one child with limits for each file.

It holds no secrets: it starts with an empty environment, receives open files from the worker and never looks
into them itself. It is confined before it receives the first; its children are confined further. It ends when
the worker ends, and its children end with it.
"""

import contextlib
import gc
import importlib
import os
import resource
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Never

import msgspec

from postroom.documents.sandbox import confinement, system_calls
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.ipc import (
    LOCKED,
    MAX_MESSAGE_BYTES,
    MAX_RESULT_BYTES,
    OUT_OF_MEMORY,
    REFUSED,
    SUCCEEDED,
    ChildTask,
    TaskReport,
    TaskRequest,
    decode_request,
    encode,
    read_all,
    write_all,
)
from postroom.errors import PasswordRequired, UnreadableFile


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    confinement.exit_with_parent(int(sys.argv[2]))
    limits = msgspec.json.decode(sys.argv[3], type=FileLimits)
    module = importlib.import_module(sys.argv[4])  # `child_tasks` or `analysis_tasks`
    module.warm_up(limits)
    gc.freeze()  # otherwise children would copy memory pages only to update reference counts
    gc.disable()
    zygote = _Zygote(control, limits, module.TASKS)
    zygote.prepare()
    confined = confinement.confine_process(int(sys.argv[2]), system_calls.build_zygote_filter())
    control.send(encode(TaskReport(0, SUCCEEDED, confinement=confined)))
    zygote.serve()


class _Zygote:
    def __init__(self, control: socket.socket, limits: FileLimits, tasks: Mapping[str, ChildTask]) -> None:
        self.control = control
        self.limits = limits
        self.tasks = tasks
        self.task_numbers: dict[int, int] = {}  # by process id of the child
        self.dev_null = os.open(os.devnull, os.O_RDWR)
        exit_reader, exit_writer = socket.socketpair()
        exit_reader.setblocking(False)
        exit_writer.setblocking(False)
        self.exit_reader, self.exit_writer = exit_reader, exit_writer
        self.selector = selectors.DefaultSelector()
        self.child_filter = system_calls.build_child_filter()

    def prepare(self) -> None:
        """Set up what a confined process cannot."""
        signal.signal(signal.SIGCHLD, _wake)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the worker, which ends this process
        signal.set_wakeup_fd(self.exit_writer.fileno(), warn_on_full_buffer=False)
        self.selector.register(self.control, selectors.EVENT_READ)
        self.selector.register(self.exit_reader, selectors.EVENT_READ)

    def serve(self) -> None:
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.control:
                    if not self.receive_request():
                        return
                else:
                    self.reap_children()

    def receive_request(self) -> bool:
        message, files, _, _ = socket.recv_fds(self.control, MAX_MESSAGE_BYTES, 2)
        if not message:
            return False
        request = decode_request(message)
        if request.task == "cancel":
            for pid in [pid for pid, number in self.task_numbers.items() if number == request.number]:
                os.kill(pid, signal.SIGKILL)  # not reaped yet, so the process id is still this child's
            return True
        self.start_child(request, files[0], files[1])
        for file in files:
            os.close(file)
        return True

    def start_child(self, request: TaskRequest, source: int, target: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self.control.send(encode(TaskReport(request.number, -1, f"cannot start a process: {error}")))
            return
        if pid:
            self.task_numbers[pid] = request.number
        else:
            self.run_child(parent, request, source, target)

    def reap_children(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.exit_reader.recv(4096)
        while self.task_numbers:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            cpu_seconds = used.ru_utime + used.ru_stime
            report = TaskReport(
                self.task_numbers.pop(pid), os.waitstatus_to_exitcode(status), cpu_seconds=cpu_seconds
            )
            self.control.send(encode(report))

    def run_child(self, parent: int, request: TaskRequest, source: int, target: int) -> Never:
        status = REFUSED
        try:
            confinement.exit_with_parent(parent)
            self.close_inherited()
            apply_limits(self.limits.for_task(request.task))
            confinement.restrict_system_calls(self.child_filter)
            status = run_task(self.tasks[request.task], request, (source, target), self.limits)
        finally:
            os._exit(status)

    def close_inherited(self) -> None:
        """Close everything of the zygote's through which a child could communicate."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.selector.close()
        self.control.close()
        self.exit_reader.close()
        self.exit_writer.close()
        for standard in (0, 1, 2):
            os.dup2(self.dev_null, standard)
        os.close(self.dev_null)


def _wake(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: Python writes to the wake-up socket only for signals that have a handler."""


def apply_limits(limits: FileLimits) -> None:
    """Limit this process: from here on it can open no file or socket and start no process."""
    # The soft CPU limit sends its own signal, which distinguishes it from any other death.
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 1))
    for what, most in {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: MAX_RESULT_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 0,
        resource.RLIMIT_NPROC: 0,
    }.items():
        resource.setrlimit(what, (most, most))


def run_task(run: ChildTask, request: TaskRequest, files: tuple[int, int], limits: FileLimits) -> int:
    """Write the task's result, or the reason why there is none; return the exit status."""
    source, target = files
    try:
        result = run(read_all(source), request, limits)
        write_all(target, result)
    except UnreadableFile as refusal:
        write_all(target, str(refusal).encode())
        return LOCKED if isinstance(refusal, PasswordRequired) else REFUSED
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:  # noqa: BLE001  # a parser may raise anything on a broken file
        write_all(target, _describe_error(request.task, error).encode())
        return REFUSED
    return SUCCEEDED


def _describe_error(task: str, error: Exception) -> str:
    """Call the file damaged, unless it was analyzed: then its text was read before."""
    if task != "analyze":
        return f"The file is damaged ({type(error).__name__})."
    last = traceback.extract_tb(error.__traceback__)[-1]
    module = Path(last.filename).stem.replace("_", " ")
    return f"Analyzing the document failed ({type(error).__name__} in {module}, line {last.lineno})."


if __name__ == "__main__":
    with contextlib.suppress(ConnectionError):  # the worker was killed meanwhile: its socket is broken
        main()
