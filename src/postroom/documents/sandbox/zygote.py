"""The process from which children for hostile files are forked: one child a file, with limits.

It has loaded what they need and holds no secret: it starts with an empty environment, gets open files from
the worker and never looks into them itself. It ends when the worker does, and its children end with it.
"""

import contextlib
import gc
import os
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Final, Never

import msgspec

from postroom.documents.files import html_sanitizer
from postroom.documents.sandbox import child_tasks
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.documents.sandbox.ipc import (
    MAX_MESSAGE_BYTES,
    MAX_RESULT_BYTES,
    OUT_OF_MEMORY,
    REFUSED,
    SUCCEEDED,
    TaskReport,
    TaskRequest,
    decode_request,
    encode,
    exit_with_parent,
    read_all,
    write_all,
)
from postroom.errors import UnreadableFile

_TASKS: Final[Mapping[str, Callable[[bytes, TaskRequest, FileLimits], bytes | memoryview]]] = {
    "read": child_tasks.read_file,
    "bitmap": child_tasks.render_bitmap,
    "image": child_tasks.render_webp,
    "letter": html_sanitizer.sanitize,
}


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    exit_with_parent(int(sys.argv[2]))
    limits = msgspec.json.decode(sys.argv[3], type=FileLimits)
    child_tasks.warm_up(limits)
    gc.freeze()  # so that children do not copy pages only to count references
    gc.disable()
    control.send(encode(TaskReport(0, SUCCEEDED)))
    _Zygote(control, limits).serve()


class _Zygote:
    def __init__(self, control: socket.socket, limits: FileLimits) -> None:
        self.control = control
        self.limits = limits
        self.numbers: dict[int, int] = {}
        self.nothing = os.open(os.devnull, os.O_RDWR)
        ended, wakes = socket.socketpair()
        ended.setblocking(False)
        wakes.setblocking(False)
        self.ended, self.wakes = ended, wakes
        self.selector = selectors.DefaultSelector()

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, _wake)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the worker, which ends this process
        signal.set_wakeup_fd(self.wakes.fileno(), warn_on_full_buffer=False)
        self.selector.register(self.control, selectors.EVENT_READ)
        self.selector.register(self.ended, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.control:
                    if not self.take_order():
                        return
                else:
                    self.reap()

    def take_order(self) -> bool:
        message, files, _, _ = socket.recv_fds(self.control, MAX_MESSAGE_BYTES, 2)
        if not message:
            return False
        order = decode_request(message)
        if order.task == "end":
            for pid in [pid for pid, number in self.numbers.items() if number == order.number]:
                os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number is still this child's
            return True
        self.start(order, files[0], files[1])
        for file in files:
            os.close(file)
        return True

    def start(self, order: TaskRequest, source: int, target: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self.control.send(encode(TaskReport(order.number, -1, f"no process could be started: {error}")))
            return
        if pid:
            self.numbers[pid] = order.number
        else:
            self.become_child(parent, order, source, target)

    def reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.ended.recv(4096)
        while self.numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self.control.send(encode(TaskReport(self.numbers.pop(pid), os.waitstatus_to_exitcode(status))))

    def become_child(self, parent: int, order: TaskRequest, source: int, target: int) -> Never:
        status = REFUSED
        try:
            exit_with_parent(parent)
            self.let_go()
            apply_limits(self.limits.of(order.task))
            status = run_task(order, source, target, self.limits)
        finally:
            os._exit(status)

    def let_go(self) -> None:
        """Keep nothing of the zygote's through which a child could speak or listen."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.selector.close()
        self.control.close()
        self.ended.close()
        self.wakes.close()
        for standard in (0, 1, 2):
            os.dup2(self.nothing, standard)
        os.close(self.nothing)


def _wake(_number: int, _frame: FrameType | None) -> None:
    """That there is a handler makes Python write to the wake-up socket."""


def apply_limits(limits: FileLimits) -> None:
    """From here on this process opens nothing, not even a socket, starts nothing."""
    # The first limit sends a signal of its own, so that it can be told from any other death.
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 1))
    for what, most in {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: MAX_RESULT_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 0,
        resource.RLIMIT_NPROC: 0,
    }.items():
        resource.setrlimit(what, (most, most))


def run_task(order: TaskRequest, source: int, target: int, limits: FileLimits) -> int:
    try:
        result = _TASKS[order.task](read_all(source), order, limits)
        write_all(target, result)
    except UnreadableFile as refusal:
        write_all(target, str(refusal).encode())
        return REFUSED
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:  # noqa: BLE001  # a parser may raise anything over a broken file
        write_all(target, f"The file is damaged ({type(error).__name__}).".encode())
        return REFUSED
    return SUCCEEDED


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # whoever asked was killed meanwhile, and reads no report
        main()
