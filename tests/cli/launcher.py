"""Start Postroom's commands as forks of one process that has already imported their modules.

Each command is a process with its own arguments, environment and working directory, as a user starts it.
Only the imports, which take most of a short command's time, happen once. Tests of servers run
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
from importlib import import_module
from pathlib import Path
from select import select

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


class Launcher:
    """The client of the launcher process, used by tests."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._address = str(Path(self._folder.name, "socket"))
        command = [sys.executable, __file__, self._address]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def run(
        self, arguments: tuple[str, ...], folder: Path, environment: dict[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        with (
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
            socket.socket(socket.AF_UNIX) as launch,
        ):
            launch.connect(self._address)
            order = json.dumps({"arguments": arguments, "folder": str(folder), "environment": environment})
            socket.send_fds(launch, [f"{len(order):9}".encode()], [out.fileno(), err.fileno()])
            launch.sendall(order.encode())
            launch.settimeout(seconds)
            code = int(launch.makefile().read() or -signal.SIGKILL)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), err.read())

    def end(self) -> None:
        self._process.communicate()
        self._folder.cleanup()


def main(address: str) -> None:
    for module in IMPORTED:
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
    """Run the command in a process of its own, and send its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    length, files, _, _ = socket.recv_fds(launch, 9, 2)
    order = json.loads(launch.makefile().read(int(length)))
    command = os.fork()
    if command == 0:
        launch.close()
        _become(order, *files)
        return
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
    sys.argv = ["postroom", *order["arguments"]]
    runpy.run_module("postroom", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
