"""One PostgreSQL server on one data directory: make it, start it, stop it, clear away what a crash left.

Every program runs inside the data directory and calls it `/proc/self/cwd`, so the account of the server needs
no right to any directory above, and none is changed for it. Only the supervisor calls this, under its lock.
"""

import contextlib
import ctypes
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from postroom.errors import DatabaseUnavailable
from postroom.store.embedded import home as homes
from postroom.store.embedded.binaries import Binaries
from postroom.store.embedded.home import OWN_SERVER, Home

HERE = "/proc/self/cwd"
SUPERUSER = "postroom_superuser"
PORT = 5432

# Written into postgresql.conf once; the operator may tune them there.
_TUNABLE = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    # Small machines, and containers whose /dev/shm has 64 MB, are better off without parallel queries.
    "max_parallel_workers": "0",
    "max_logical_replication_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# Given at every start, so that no file can change them.
_FIXED = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_directories": ".",
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
    # Statements and the details of errors hold personal data; the client gets them, the log must not.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_checkpoints": "off",
    "cluster_name": "postroom",
}
_LOCALE = {
    16: ["--locale-provider=libc", "--locale=C.UTF-8"],
    18: ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"],
}
_prctl: Callable[..., int] = ctypes.CDLL(None, use_errno=True).prctl
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Account:
    """Who runs the server. PostgreSQL refuses root, so for root it is somebody else."""

    uid: int
    gid: int


def account_for(home: Home) -> Account:
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    with contextlib.suppress(FileNotFoundError):
        owner = home.data.stat()
        if owner.st_uid != 0:
            return Account(owner.st_uid, owner.st_gid)
    for name in ("postroom", "postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid)
    raise DatabaseUnavailable(
        "PostgreSQL does not run as root, and none of the users postroom, postgres and nobody exists: "
        f"add one (useradd --system postroom), run Postroom as an ordinary user, {OWN_SERVER}"
    )


@dataclass(frozen=True)
class Server:
    home: Home
    binaries: Binaries
    account: Account

    def create(self) -> None:
        """Make the data directory beside its place and rename it there: it exists whole or not at all."""
        for rest in self.home.root.glob("new-*"):
            shutil.rmtree(rest, ignore_errors=True)
        new = self.home.root / f"new-{secrets.token_hex(4)}"
        new.mkdir(mode=0o700)
        os.chown(new, self.account.uid, self.account.gid)
        done = self._spawn(
            ["initdb", f"--pgdata={HERE}", f"--username={SUPERUSER}", "--encoding=UTF8"]
            + ["--auth-local=trust", "--auth-host=reject", "--no-instructions", *_LOCALE[self.binaries.major]]
            + [f"--set={name}={value}" for name, value in _TUNABLE.items()],
            new,
            stop=signal.SIGKILL,
        )
        if done.wait() != 0:
            raise DatabaseUnavailable(self.complaint("the database could not be created"))
        new.rename(self.home.data)
        _sync(self.home.root)

    def check_version(self) -> None:
        try:
            found = (self.home.data / "PG_VERSION").read_text("ascii").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            found = "unknown"
        if found != str(self.binaries.major):
            raise DatabaseUnavailable(
                f"{self.home.data} holds a database of PostgreSQL {found}, and this Postroom brings "
                f"{self.binaries.major}: nothing was changed; write a backup with the Postroom that made it, "
                f"restore it into a new home, {OWN_SERVER}"
            )

    def start(self) -> "subprocess.Popen[bytes]":
        _clear_leftovers(self.home)
        settings = [f"--{name}={value}" for name, value in _FIXED.items()]
        return self._spawn(["postgres", "-D", HERE, *settings], self.home.data, stop=signal.SIGINT)

    def _spawn(self, command: list[str], folder: Path, *, stop: signal.Signals) -> "subprocess.Popen[bytes]":
        """Start a program that holds the server lock, and gets the signal `stop` if the supervisor dies."""
        lock = _lock_server(self.home)
        parent = os.getpid()

        def die_with_supervisor() -> None:
            _prctl(_PR_SET_PDEATHSIG, int(stop))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            if os.getppid() != parent:
                os._exit(1)

        other = self.account.uid != os.geteuid()
        log = os.open(self.home.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            return subprocess.Popen(  # noqa: S603 - the wheel's program, arguments of ours
                [self.binaries.program(command[0]), *command[1:]],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                user=self.account.uid if other else None,
                group=self.account.gid if other else None,
                extra_groups=[] if other else None,
                umask=0o077,
                pass_fds=(lock,),
                preexec_fn=die_with_supervisor,  # noqa: PLW1509 - the supervisor has one thread
            )
        finally:
            os.close(log)
            os.close(lock)

    def is_ready(self, process: "subprocess.Popen[bytes]") -> bool:
        """The server writes its state into the last line of its pid file, behind its own pid."""
        try:
            lines = (self.home.data / "postmaster.pid").read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return False
        return len(lines) >= 8 and lines[0] == str(process.pid) and lines[7].strip() == "ready"

    def stop(self, process: "subprocess.Popen[bytes]") -> None:
        """Fast shutdown; if it is not obeyed, immediate; then by force. Committed data is safe each time."""
        for order, patience_seconds in ((signal.SIGINT, 20), (signal.SIGQUIT, 7), (signal.SIGKILL, 5)):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(order)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_seconds)
                break
        os.close(_lock_server(self.home))

    def complaint(self, what: str) -> str:
        lines = _last_lines(self.home.log)
        if any("No space left on device" in line for line in lines):
            return f"{what}: the disk that holds {self.home.root} is full; free some space and start again"
        telling = [line for line in lines if re.search(r"FATAL|PANIC|error|could not|denied", line)]
        told = " / ".join((telling or lines)[-2:]) or "nothing"
        return f"{what}; the end of {self.home.log} says: {told}"


def processes_of(data: Path) -> list[int]:
    """Every live PostgreSQL process that works in this data directory, whoever started it."""
    try:
        place = data.stat()
    except OSError:
        return []
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            there = (entry / "cwd").stat()
            same = (there.st_dev, there.st_ino) == (place.st_dev, place.st_ino)
            if same and Path((entry / "exe").readlink()).name.startswith("postgres"):
                found.append(int(entry.name))
    return found


def _lock_server(home: Home) -> int:
    """Wait until no process of an earlier server lives: the lock is theirs, and cannot lie as a pid file can.

    Their supervisor is gone, so they have been told to stop; those that hang are killed.
    """
    for patience_seconds, order in ((30, signal.SIGQUIT), (7, signal.SIGKILL), (5, None)):
        lock = homes.take(home.server, homes.EXCLUSIVE, time.monotonic() + patience_seconds)
        if lock is not None:
            return lock
        for pid in processes_of(home.data) if order else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, order or 0)
    raise DatabaseUnavailable(
        f"an earlier database server still holds {home.server} and does not end "
        f"(processes {processes_of(home.data)}): end it, or restart the machine"
    )


def _clear_leftovers(home: Home) -> None:
    """Remove a dead server's lock files. PostgreSQL would believe their pid if any process had it now."""
    strangers = processes_of(home.data)
    if strangers:
        raise DatabaseUnavailable(
            f"a PostgreSQL server that Postroom did not start uses {home.data} "
            f"(process {min(strangers)}): stop it first"
        )
    for name in ("postmaster.pid", f".s.PGSQL.{PORT}.lock", f".s.PGSQL.{PORT}"):
        (home.data / name).unlink(missing_ok=True)


def _last_lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4000))
            return file.read().decode(errors="replace").splitlines()[-12:]
    except OSError:
        return []


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
