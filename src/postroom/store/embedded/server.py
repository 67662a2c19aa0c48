"""One PostgreSQL server on one data directory: create, check, start and stop it.

Every program runs inside the data directory and calls it `/proc/self/cwd`, so the server's account needs no
rights on the directories above it. Only the supervisor calls this, under its lock; restarts are its decision.
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
from dataclasses import dataclass
from pathlib import Path

from postroom.errors import DatabaseUnavailable
from postroom.store.embedded import database_home as homes
from postroom.store.embedded import stale_processes
from postroom.store.embedded.binaries import Binaries
from postroom.store.embedded.database_home import OWN_SERVER, PORT, DatabaseHome
from postroom.store.embedded.server_account import ServerAccount

HERE = "/proc/self/cwd"
SUPERUSER = "postroom_superuser"

# Written to postgresql.conf at creation; operators may change them there.
_TUNABLE = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    # Parallel queries do not fit small machines or containers with a /dev/shm of 64 MB.
    "max_parallel_workers": "0",
    "max_logical_replication_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# Passed at every start, so that no file can change them.
_FIXED = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_directories": ".",
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
    # Statements and error details contain personal data: they go to the client, never to the log.
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
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class EmbeddedServer:
    home: DatabaseHome
    binaries: Binaries
    account: ServerAccount

    def create(self) -> None:
        """Create the data directory under a temporary name, then rename it: it is complete or missing."""
        self._require_name()
        lock = stale_processes.wait_for_exit(self.home)
        for leftover in self.home.root.glob("new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        new = self.home.root / f"new-{secrets.token_hex(4)}"
        new.mkdir(mode=0o700)
        self._give_to_account(new)
        since = self.log_size()
        process = self._spawn(
            ["initdb", f"--pgdata={HERE}", f"--username={SUPERUSER}", "--encoding=UTF8"]
            + ["--auth-local=trust", "--auth-host=reject", "--no-instructions", *_LOCALE[self.binaries.major]]
            + [f"--set={name}={value}" for name, value in _TUNABLE.items()],
            new,
            lock,
            stop=signal.SIGKILL,
        )
        if process.wait() != 0:
            shutil.rmtree(new, ignore_errors=True)
            raise DatabaseUnavailable(self.complaint("The database could not be created", since))
        new.rename(self.home.data)
        _sync_directory(self.home.root)

    def _require_name(self) -> None:
        try:
            pwd.getpwuid(self.account.uid)
        except KeyError as error:
            raise DatabaseUnavailable(
                f"User id {self.account.uid} has no name on this machine, which PostgreSQL requires. "
                f"Run Postroom as a user that is listed in /etc/passwd, {OWN_SERVER}."
            ) from error

    def _give_to_account(self, folder: Path) -> None:
        try:
            os.chown(folder, self.account.uid, self.account.gid)
        except PermissionError as error:
            raise DatabaseUnavailable(
                f"Root cannot change the owner of {folder} here, and PostgreSQL does not run as root. "
                f"Run Postroom as an ordinary user, {OWN_SERVER}."
            ) from error

    def check(self) -> None:
        """Refuse a data directory of another owner or another PostgreSQL version."""
        owner = self.home.data.stat().st_uid
        if owner != self.account.uid:
            wanted = homes.account_name(self.account.uid)
            raise DatabaseUnavailable(
                f"{self.home.data} belongs to {homes.account_name(owner)}, and its server runs as {wanted}. "
                f"Run: chown -R {wanted} {self.home.data}"
            )
        try:
            version = (self.home.data / "PG_VERSION").read_text("ascii").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            version = "unknown"
        if version != str(self.binaries.major):
            raise DatabaseUnavailable(
                f"{self.home.data} holds a database of PostgreSQL {version}, but this version of Postroom "
                f"has {self.binaries.major}. Nothing was changed. Back it up with the version that created "
                f"it and restore it into a new home, {OWN_SERVER}."
            )

    def start(self) -> "subprocess.Popen[bytes]":
        lock = stale_processes.wait_for_exit(self.home)
        stale_processes.remove_stale_files(self.home)
        settings = [f"--{name}={value}" for name, value in _FIXED.items()]
        return self._spawn(["postgres", "-D", HERE, *settings], self.home.data, lock, stop=signal.SIGINT)

    def _spawn(
        self, command: list[str], folder: Path, lock: int, *, stop: signal.Signals
    ) -> "subprocess.Popen[bytes]":
        """Start a program that inherits the lock and gets the signal `stop` if the supervisor dies."""
        parent = os.getpid()
        prctl = ctypes.CDLL(None).prctl

        def die_with_supervisor() -> None:
            prctl(_PR_SET_PDEATHSIG, int(stop))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            if os.getppid() != parent:
                os._exit(1)

        other = self.account.is_other
        log = homes.open_log(self.home)
        try:
            return subprocess.Popen(  # noqa: S603 - the wheel's program with our arguments
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
        """Whether the server is ready. It writes its pid and state into its pid file."""
        try:
            lines = (self.home.data / "postmaster.pid").read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return False
        return len(lines) >= 8 and lines[0] == str(process.pid) and lines[7].strip() == "ready"

    def stop(self, process: "subprocess.Popen[bytes]") -> None:
        """Stop the server: fast, then immediately, then by force. Committed data is safe in each case."""
        for stop_signal, timeout_seconds in ((signal.SIGINT, 20), (signal.SIGQUIT, 7), (signal.SIGKILL, 5)):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout_seconds)
                break
        os.close(stale_processes.wait_for_exit(self.home))

    def log_size(self) -> int:
        try:
            return self.home.log.stat().st_size
        except FileNotFoundError:
            return 0

    def complaint(self, what: str, since: int) -> str:
        """An error message with the log's last relevant lines since an offset."""
        lines = _read_log_lines(self.home.log, since)
        if any("No space left on device" in line for line in lines):
            return f"{what}: the disk that holds {self.home.root} is full. Free some space and start again."
        relevant = [line for line in lines if re.search(r"(LOG|FATAL|PANIC|error|hint): ", line)]
        reason = " / ".join(relevant[-2:]) or "no reason given"
        return f"{what}: {reason.replace(HERE, str(self.home.data))} (see {self.home.log})."


def _read_log_lines(log: Path, since: int) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(since)
            text = file.read(100_000).decode(errors="replace")
            return [re.sub(r"^\S+ \S+ UTC \[\d+\] ", "", line) for line in text.splitlines()]
    except OSError:
        return []


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
