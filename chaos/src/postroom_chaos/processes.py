"""Programs that a run starts: one log file each, kill, freeze, restart; none survives the run."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from postroom_chaos.launcher import LaunchedProcess, Launcher
from postroom_chaos.oracle.evidence import MemorySample, ObservedProcess

RESTART_SECONDS: Final = 0.5
KILL_SECONDS: Final = 60.0


def python_program(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


@dataclass(frozen=True)
class ProgramVersion:
    """What programs are started with: the imported modules, and the environment of their processes."""

    launcher: Launcher
    environment: Mapping[str, str]


@dataclass
class Program:
    """One program of the system under test, restarted like a service whenever it ends and is wanted.

    It is `postroom ARGUMENTS`, or `script` with these arguments.
    """

    name: str
    version: ProgramVersion
    arguments: Sequence[str]
    log: Path
    script: Path | None = None
    process: LaunchedProcess | None = None
    wanted: bool = False
    frozen: bool = False
    unexpected_exits: list[int] = field(default_factory=list[int])
    history: list[ObservedProcess] = field(default_factory=list[ObservedProcess])

    def start(self) -> None:
        """Start it, unless another action has done so."""
        self.wanted = True
        if self.is_running:
            return
        self.frozen = False
        if self.process is not None:
            self.process.close()
        with self.log.open("ab") as log:
            self.process = self.version.launcher.start(
                self.arguments,
                self.log.parent,
                dict(self.version.environment),
                [str(self.script)] if self.script else [],
                output=(log.fileno(), log.fileno()),
            )
        self.history.append(ObservedProcess(self.process.pid, self.name, read_start_ticks(self.process.pid)))

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> bool:
        """Send a signal, if the program runs."""
        if self.process is None or self.process.poll() is not None:
            return False
        self.process.signal(number)
        return True

    def kill(self) -> bool:
        """Kill only this process, as the kernel would. What it had started must notice by itself."""
        self.wanted = False
        killed = self.send(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(KILL_SECONDS)
        return killed

    async def stop(self, seconds: float = 15) -> None:
        """Ask it to stop; kill it after a while."""
        self.wanted = False
        self.unfreeze()
        if self.process is None:
            return
        self.send(signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.05)
        self.end()

    def end(self) -> None:
        """Kill the program and everything that belongs to its session."""
        self.wanted = False
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.send(signal.SIGKILL)  # it may not have a session of its own yet
            self.process.wait(KILL_SECONDS)

    def freeze(self) -> bool:
        self.frozen = self.send(signal.SIGSTOP)
        return self.frozen

    def unfreeze(self) -> None:
        if self.frozen:
            self.send(signal.SIGCONT)
        self.frozen = False

    def observed(self) -> list[ObservedProcess]:
        """Every process that this program ever was; only the last one may still run."""
        last = self.history[-1].pid if self.history and self.is_running else None
        return [
            ObservedProcess(each.pid, each.name, each.started_ticks, running=each.pid == last)
            for each in self.history
        ]

    def measure(self, started: float) -> MemorySample | None:
        if not self.is_running or self.process is None:
            return None
        with suppress(OSError, StopIteration, ValueError):
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii", errors="replace")
            line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
            resident = int(line.split()[1]) * 1024
            return MemorySample(self.name, self.process.pid, time.monotonic() - started, resident)
        return None


async def keep_running(programs: Sequence[Program]) -> None:
    """Restart wanted programs that ended, forever, as a service manager does."""
    while True:
        for program in programs:
            if program.wanted and not program.is_running:
                program.unexpected_exits.append(program.process.poll() or 0 if program.process else 0)
                program.start()
        await asyncio.sleep(RESTART_SECONDS)


def read_start_ticks(pid: int) -> int:
    """Field 22 of /proc/PID/stat, which with the pid identifies a process."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[19])
    return 0


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without settings of this machine's own Postroom, database clients or measurements."""
    left_out = ("POSTROOM_", "PG", "COVERAGE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return kept | more
