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

from postroom.documents import html_sanitizer, tasks
from postroom.documents.ipc import (
    LONGEST_MESSAGE,
    OUT_OF_MEMORY,
    REFUSED,
    RESULT,
    RESULT_BYTES,
    Order,
    Report,
    content_of,
    encode,
    end_with,
    order_of,
    write_all,
)
from postroom.documents.limits import Limits
from postroom.errors import Unreadable

_TASKS: Final[Mapping[str, Callable[[bytes, Order, Limits], bytes | memoryview]]] = {
    "read": tasks.read,
    "bitmap": tasks.bitmap,
    "image": tasks.image,
    "letter": html_sanitizer.cleaned,
}


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    end_with(int(sys.argv[2]))
    limits = msgspec.json.decode(sys.argv[3], type=Limits)
    tasks.warm_up(limits)
    gc.freeze()  # so that children do not copy pages only to count references
    gc.disable()
    control.send(encode(Report(0, RESULT)))
    _Zygote(control, limits).serve()


class _Zygote:
    def __init__(self, control: socket.socket, limits: Limits) -> None:
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
        message, files, _, _ = socket.recv_fds(self.control, LONGEST_MESSAGE, 2)
        if not message:
            return False
        order = order_of(message)
        if order.task == "end":
            for pid in [pid for pid, number in self.numbers.items() if number == order.number]:
                os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number is still this child's
            return True
        self.start(order, files[0], files[1])
        for file in files:
            os.close(file)
        return True

    def start(self, order: Order, source: int, target: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self.control.send(encode(Report(order.number, -1, f"no process could be started: {error}")))
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
            self.control.send(encode(Report(self.numbers.pop(pid), os.waitstatus_to_exitcode(status))))

    def become_child(self, parent: int, order: Order, source: int, target: int) -> Never:
        status = REFUSED
        try:
            end_with(parent)
            self.let_go()
            confine(self.limits.of(order.task))
            status = perform(order, source, target, self.limits)
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


def confine(limits: Limits) -> None:
    """From here on this process opens nothing, not even a socket, starts nothing."""
    # The first limit sends a signal of its own, so that it can be told from any other death.
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 1))
    for what, most in {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: RESULT_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 0,
        resource.RLIMIT_NPROC: 0,
    }.items():
        resource.setrlimit(what, (most, most))


def perform(order: Order, source: int, target: int, limits: Limits) -> int:
    try:
        result = _TASKS[order.task](content_of(source), order, limits)
        write_all(target, result)
    except Unreadable as refusal:
        write_all(target, str(refusal).encode())
        return REFUSED
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:  # noqa: BLE001  # a parser may raise anything over a broken file
        write_all(target, f"The file is damaged ({type(error).__name__}).".encode())
        return REFUSED
    return RESULT


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # whoever asked was killed meanwhile, and reads no report
        main()
