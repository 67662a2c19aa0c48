"""Long-running Postroom processes for tests: start, wait for their line, find what they started, end them."""

import atexit
import json
import os
import queue
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

from postroom_chaos.launcher import IMPORTED, IMPORTED_BY_SERVERS, Launcher

PATIENCE = 180  # seconds until a test is given up; nothing is asserted about how long it took
SOURCES = Path(__file__).parents[2] / "src"
PAUSED_PROGRAM = Path(__file__).with_name("paused_program.py")


def environment(**settings: str) -> dict[str, str]:
    """The environment with only these settings. Python warnings are errors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTROOM_")}
    return kept | {"PYTHONPATH": str(SOURCES), "PYTHONWARNINGS": "error"} | settings


@cache
def server_launcher() -> Launcher:
    """Starts servers as forks of one process for all tests."""
    launcher = Launcher(environment(), (*IMPORTED, *IMPORTED_BY_SERVERS))
    atexit.register(launcher.end)
    return launcher


class PostroomProcess:
    """One `postroom …` that runs until it is stopped. Its output is kept.

    `held`: where it stays paused, see `paused_program.py`.
    """

    def __init__(self, folder: Path, *arguments: str, held: Any = None, **settings: str) -> None:
        program = [str(PAUSED_PROGRAM), json.dumps(held)] if held else []
        home = {"POSTROOM_HOME": str(Path(folder) / "home")}  # not that of the person who runs the tests
        reading, writing = os.pipe()
        self.process = server_launcher().start(
            arguments, folder, environment(**home | settings), program, output=(writing, writing)
        )
        os.close(writing)
        self._output = os.fdopen(reading)
        self.said: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self._output:
            self.said.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def line(self, beginning: str) -> str:
        """The next line that begins so, without that."""
        while True:
            line = self._lines.get(timeout=PATIENCE)
            assert line is not None, "".join(self.said)
            if line.startswith(beginning):
                return line.removeprefix(beginning).strip()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code. Returns when everything that could still write to its output has ended too."""
        self.process.signal(number)
        return self.wait()

    def wait(self) -> int:
        """Its exit code, when it has ended by itself."""
        self._reader.join(PATIENCE)
        assert not self._reader.is_alive(), "something that it started still runs"
        self._output.close()
        code = self.process.wait(PATIENCE)
        self.process.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._output.closed:
            self.end(signal.SIGKILL)


def children(pid: int) -> dict[str, list[int]]:
    """The processes that this one started, by what they run: {"serve": [pid], "work": [pid, pid]}."""
    found: dict[str, list[int]] = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):
            command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if b"postroom" in command:
                found.setdefault(command[command.index(b"postroom") + 1].decode(), []).append(int(child))
    return found


def running_in(folder: Path) -> list[int]:
    """Every live process whose command line, working directory or open files belong to this folder."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                str(folder) in str((entry / "cwd").readlink())
                or str(folder).encode() in (entry / "cmdline").read_bytes()
            ):
                found.append(int(entry.name))
    return found


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting for {condition}"
        time.sleep(0.05)
