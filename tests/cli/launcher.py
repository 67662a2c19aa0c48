"""Start Postroom's commands as forks of one process that has already imported their modules.

Each command is a process with its own arguments, environment and working directory, as a user starts it.
Only the imports, which take most of a short command's time, happen once. Most tests of servers run
`python -m postroom`.
"""

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
from typing import IO

# Modules that commands import. None of them starts a thread, which would not survive a fork.
IMPORTED = (
    "postroom.cli.startup",
    "postroom.cli.output",
    "postroom.cli.progress",
    "postroom.wiring.engine",
    "postroom.worker",
    "postroom.store.embedded",
    "postroom.providers.gmail.adapter",
    "postroom.providers.graph.adapter",
)


class LaunchedProcess:
    """A process that the launcher started. Its output goes to files, which do not keep it waiting."""

    def __init__(self, connection: socket.socket, out: IO[str], err: IO[str]) -> None:
        self._connection, self._out, self._err = connection, out, err
        self._answers = connection.makefile()
        self.pid = int(self._answers.readline())

    def wait(self, seconds: float) -> int:
        """The exit code, once it has ended."""
        self._connection.settimeout(seconds)
        return int(self._answers.readline() or -signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def read_output(self) -> tuple[str, str]:
        """What it has written to stdout and stderr so far. It writes on at the end of the files."""
        return tuple(
            os.pread(fd, os.fstat(fd).st_size, 0).decode() for fd in (self._out.fileno(), self._err.fileno())
        )

    def close(self) -> None:
        """Close its files; `output` is what it had written until then."""
        self.output = self.read_output()
        self._answers.close()
        self._connection.close()
        self._out.close()
        self._err.close()


class Launcher:
    """The client of the launcher process, used by tests. `imported`: more modules to import once."""

    def __init__(self, environment: dict[str, str], imported: Sequence[str] = ()) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._address = str(Path(self._folder.name, "socket"))
        command = [sys.executable, __file__, self._address, *imported]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: dict[str, str],
        program: Sequence[str] = (),
    ) -> LaunchedProcess:
        """Start one command: `postroom ARGUMENTS`, or another program with these arguments after its own."""
        out, err = (tempfile.TemporaryFile("w+") for _ in range(2))  # noqa: SIM115  # closed by the caller
        launch = socket.socket(socket.AF_UNIX)
        launch.connect(self._address)
        order = json.dumps(
            {
                "arguments": arguments,
                "folder": str(folder),
                "environment": environment,
                "program": program,
            }
        )
        socket.send_fds(launch, [f"{len(order):9}".encode()], [out.fileno(), err.fileno()])
        launch.sendall(order.encode())
        return LaunchedProcess(launch, out, err)

    def run(
        self, arguments: tuple[str, ...], folder: Path, environment: dict[str, str], seconds: float
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
    for module in (*IMPORTED, *imported):
        import_module(module)
    assert threading.active_count() == 1, "a fork has one thread only"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # answering processes are not waited for
    listening = socket.create_server(address, family=socket.AF_UNIX)
    print("ready", flush=True)
    while listening in select([listening, sys.stdin], [], [])[0]:  # else the tests have ended
        launch, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _answer(launch)
            return
        launch.close()


def _answer(launch: socket.socket) -> None:
    """Run the command in a process of its own, and send its process id and its exit code."""
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


def _become(order: dict, out: int, err: int) -> None:
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
        sys.argv = ["postroom", *order["arguments"]]
        runpy.run_module("postroom", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
