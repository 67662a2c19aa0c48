"""A PostgreSQL primary and its streaming standby, to fail over from one to the other."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from postroom.store.embedded.binaries import ensure_executable_by, find_binaries
from postroom.store.embedded.database_home import DatabaseHome
from postroom.store.embedded.server_account import choose_account

OWNER, STANDBY = "postroom", "standby"
_OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",  # the machine does not lose power here
    "max_connections": "60",
    "shared_buffers": "32MB",
    "max_parallel_workers": "0",
    "wal_keep_size": "512MB",
    "hot_standby": "on",
    "max_standby_streaming_delay": "-1",  # on a busy machine a short query of the standby may take long
    "io_method": "sync",
}


@dataclass
class Replica:
    """One server. Its socket is in its own folder."""

    folder: Path
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, user: str = OWNER, database: str = "postroom") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"


@dataclass
class ReplicatedServer:
    root: Path
    primary: Replica
    standby: Replica

    def __post_init__(self) -> None:
        self._account = choose_account(DatabaseHome(self.root / "none"))
        self._binaries = ensure_executable_by(self._account, find_binaries())

    def url(self, user: str = OWNER) -> str:
        """Both servers in one URL. Which is the primary is for the client to find out."""
        return f"postgresql://{user}@/postroom?host={self.primary.folder},{self.standby.folder}"

    def start(self, *, synchronous: bool) -> None:
        self._run(
            "initdb",
            f"--pgdata={self.primary.data}",
            f"--username={OWNER}_admin",
            "--auth=trust",
            "--encoding=UTF8",
        )
        self._start(self.primary)
        with psycopg.connect(self.primary.url(f"{OWNER}_admin", "postgres"), autocommit=True) as admin:
            admin.execute(f"CREATE ROLE {OWNER} LOGIN CREATEDB CREATEROLE")
            admin.execute(f"CREATE ROLE {STANDBY} LOGIN REPLICATION")
            admin.execute(f"CREATE DATABASE postroom OWNER {OWNER}")
        source = self.primary.url(STANDBY)
        self._run(
            "pg_basebackup", f"--pgdata={self.standby.data}", f"--dbname={source}", "-R", "--checkpoint=fast"
        )
        conninfo = f"host={self.primary.folder} user={STANDBY} application_name={STANDBY}"
        with (self.standby.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{conninfo}'\n")
        self._start(self.standby)
        if synchronous:
            self._alter(self.primary, "synchronous_standby_names", STANDBY)

    def cut_off(self) -> None:
        """End the replication: what the primary commits from now on never reaches the standby."""
        self._alter(self.standby, "primary_conninfo", "")
        with psycopg.connect(self.primary.url(f"{OWNER}_admin"), autocommit=True) as admin:
            _wait(lambda: not admin.execute("SELECT FROM pg_stat_replication").fetchone(), "the cut")

    def kill_primary(self) -> None:
        self._kill(self.primary)

    def promote(self) -> None:
        with psycopg.connect(self.standby.url(f"{OWNER}_admin"), autocommit=True) as admin:
            admin.execute("SELECT pg_promote()")

    def stop(self) -> None:
        for replica in (self.standby, self.primary):
            self._kill(replica)

    def _alter(self, replica: Replica, name: str, value: str) -> None:
        with psycopg.connect(replica.url(f"{OWNER}_admin"), autocommit=True) as admin:
            admin.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            admin.execute("SELECT pg_reload_conf()")
            _wait(
                lambda: admin.execute("SELECT current_setting(%s)", [name]).fetchone() == (value,),
                f"{name} to take effect",
            )

    def _run(self, program: str, *arguments: str) -> None:
        assert self._spawn(program, *arguments).wait(120) == 0, (self.root / "log").read_text()

    def _start(self, replica: Replica) -> None:
        options = {**_OPTIONS, "unix_socket_directories": str(replica.folder)}
        settings = [f"--{name}={value}" for name, value in options.items()]
        replica.processes.append(self._spawn("postgres", "-D", str(replica.data), *settings))

        def is_up() -> bool:
            with suppress(psycopg.OperationalError):
                psycopg.connect(replica.url(f"{OWNER}_admin", "postgres")).close()
                return True
            return False

        _wait(is_up, f"the server in {replica.folder}")

    def _spawn(self, program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        other = self._account.is_other
        with (self.root / "log").open("ab") as log:
            return subprocess.Popen(
                [self._binaries.program(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.root,
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                user=self._account.uid if other else None,
                group=self._account.gid if other else None,
                extra_groups=[] if other else None,
                umask=0o077,
                start_new_session=True,
            )

    def _kill(self, replica: Replica) -> None:
        """Kill the server and its children at once, as a lost machine would."""
        while replica.processes:
            process = replica.processes.pop()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)


@contextmanager
def replicated_server(*, synchronous: bool) -> Generator[ReplicatedServer]:
    """A primary with an empty database, owned by a role that is no superuser, and its standby."""
    root = Path(tempfile.mkdtemp(prefix="replicas-"))
    server = ReplicatedServer(root, Replica(root / "a"), Replica(root / "b"))
    try:
        for folder in (root, server.primary.folder, server.standby.folder):
            folder.mkdir(exist_ok=True)
            shutil.chown(folder, server._account.uid, server._account.gid)
        server.start(synchronous=synchronous)
        yield server
    finally:
        server.stop()
        shutil.rmtree(root, ignore_errors=True)


def _wait(condition, what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.05)
