"""Start commands as forks of one process that has already imported their modules.

Each command is a process with its own arguments, environment and working directory, as a user starts it.
Only the imports, which take most of a short command's time, happen once. Postroom's own supervisors start
their children as `python -m postroom`. A command ends with the launcher, however that ends.

This module is also the launcher's program, so it imports nothing but the standard library.
"""

import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from select import select
from typing import IO, Any, Final

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)
# Modules that Postroom's commands import. None of them starts a thread, which would not survive a fork.
IMPORTED: Final = (
    "postroom.cli.startup",
    "postroom.cli.output",
    "postroom.cli.progress",
    "postroom.wiring.engine",
    "postroom.worker",
    "postroom.store.embedded",
    "postroom.providers.gmail.adapter",
    "postroom.providers.graph.adapter",
)
IMPORTED_BY_SERVERS: Final = (
    "uvloop",
    "postroom.documents.sandbox.file_sandbox",
    "postroom.web.server",
    "postroom.wiring.documents",
)


def die_with_parent() -> None:
    """Called in a new process: the kernel kills it when its parent ends, however that ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


class LaunchedProcess:
    """A process that the launcher started. `files` are those of its stdout and stderr, to read from."""

    def __init__(self, connection: socket.socket, files: Sequence[IO[str]]) -> None:
        self._connection, self._files = connection, files
        self._reports = connection.makefile()
        self._code: int | None = None
        self.output: tuple[str, ...] = ()
        self.pid = int(self._reports.readline())

    def wait(self, seconds: float) -> int:
        """The exit code, once it has ended."""
        if self._code is None:
            self._connection.settimeout(seconds)
            self._code = int(self._reports.readline() or -signal.SIGKILL)
        return self._code

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        if self._code is None and select([self._connection], [], [], 0)[0]:
            self.wait(1)
        return self._code

    def signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def read_output(self) -> tuple[str, ...]:
        """What it has written to stdout and stderr so far. It writes on at the end of the files."""
        return tuple(
            os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in self._files
        )

    def close(self) -> None:
        """Close its files; `output` is what it had written until then."""
        self.output = self.read_output()
        self._reports.close()
        self._connection.close()
        for file in self._files:
            file.close()


class Launcher:
    """The client of the launcher process. `imported`: the modules to import once."""

    def __init__(
        self, environment: dict[str, str], imported: Sequence[str] = IMPORTED, package: str = "postroom"
    ) -> None:
        self._package = package
        self._folder = tempfile.TemporaryDirectory()
        self._address = str(Path(self._folder.name, "socket"))
        # -P: the modules beside this one have names of their own package only.
        command = [sys.executable, "-P", __file__, self._address, *imported]
        self._process = subprocess.Popen(  # noqa: S603  # this module
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._is_ready = False

    def wait_until_ready(self) -> None:
        """Wait until everything is imported. `start` does it, too."""
        if not self._is_ready:
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == b"ready\n"
            self._is_ready = True

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: dict[str, str],
        program: Sequence[str] = (),
        *,
        output: tuple[int, int] | None = None,
    ) -> LaunchedProcess:
        """Start one command: `postroom ARGUMENTS`, or another program with these arguments after its own.

        Its output goes to files, which do not keep it waiting, or to `output`, for stdout and stderr.
        """
        self.wait_until_ready()
        files = [tempfile.TemporaryFile("w+") for _ in range(0 if output else 2)]  # noqa: SIM115  # the caller's
        launch = socket.socket(socket.AF_UNIX)
        launch.connect(self._address)
        order = json.dumps(
            {
                "package": self._package,
                "arguments": arguments,
                "folder": str(folder),
                "environment": environment,
                "program": program,
            }
        )
        descriptors = output or [file.fileno() for file in files]
        socket.send_fds(launch, [f"{len(order):9}".encode()], [*descriptors])
        launch.sendall(order.encode())
        return LaunchedProcess(launch, files)

    def run(
        self, arguments: Sequence[str], folder: Path, environment: dict[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        started = self.start(arguments, folder, environment)
        try:
            code = started.wait(seconds)
        finally:
            started.close()
        return subprocess.CompletedProcess(arguments, code, *started.output)

    def end(self) -> None:
        self._process.communicate()
        self._folder.cleanup()


def main(address: str, *imported: str) -> None:
    for module in imported:
        import_module(module)
    assert threading.active_count() == 1, "a fork has one thread only"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # answering processes are not waited for
    gc.freeze()  # the forks share these objects; without this, each would walk through them when it ends
    with socket.create_server(address, family=socket.AF_UNIX) as listening:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while listening in select([listening, sys.stdin], [], [])[0]:  # else the client has ended
            launch, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _serve_launch(launch)
                return
            launch.close()


def _serve_launch(launch: socket.socket) -> None:
    """Run the command in a process of its own, and send its process id and its exit code."""
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, files, _, _ = socket.recv_fds(launch, 9, 2)
    order = json.loads(launch.makefile().read(int(length)))
    command = os.fork()
    if command == 0:
        launch.close()
        _become(order, *files)
        return
    for file in files:
        os.close(file)
    launch.sendall(f"{command}\n".encode())
    _, status = os.waitpid(command, 0)
    launch.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(order: dict[str, Any], out: int, err: int) -> None:
    die_with_parent()
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for given, number in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(given, number)
        os.close(given)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    if order["program"]:
        sys.argv = [*order["program"], *order["arguments"]]
        runpy.run_path(order["program"][0], run_name="__main__")
    else:
        sys.argv = [order["package"], *order["arguments"]]
        runpy.run_module(order["package"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
