"""Start or join the embedded server, and hold it: a shared lock in the home while a process uses it.

A supervisor process owns the server. It is launched here, and again if it is killed while a process still has
a handle. The database is created here on a new server.
"""

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from postroom.errors import DatabaseUnavailable, PostroomError
from postroom.store.embedded import database_home as homes
from postroom.store.embedded import socket_link
from postroom.store.embedded.binaries import MAJOR
from postroom.store.embedded.database_home import OWN_SERVER, PORT, DatabaseHome
from postroom.store.embedded.server import SUPERUSER
from postroom.store.embedded.stale_processes import find_server_processes

_DATABASE = "postroom"
_OWNER = "postroom"
_GUARD_SECONDS = 1
_SILENT_SECONDS = 2
_ROLES = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'postroom') THEN
        CREATE ROLE postroom_application NOLOGIN;
        CREATE ROLE postroom_engine NOLOGIN;
        CREATE ROLE postroom LOGIN CREATEDB IN ROLE postroom_application, postroom_engine;
    END IF;
END $$
"""
# The login of the pools. It inherits no rights and can only assume the two group roles. The owner is a member
# so that it can end these connections.
_SERVICE = "postroom_service"
_SERVICE_ROLE = """
DO $$ BEGIN
    CREATE ROLE postroom_service LOGIN NOINHERIT IN ROLE postroom_application, postroom_engine;
    GRANT postroom_service TO postroom;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$
"""
ReportProgress = Callable[[str], None]


def start_or_join(
    home: Path, *, say: ReportProgress = lambda _: None, wait_seconds: float = 60, major: int = MAJOR
) -> "ServerHandle":
    """Start the server of this home or join the running one. `say` reports slow steps."""
    if sys.platform != "linux":
        raise DatabaseUnavailable(
            f"The embedded database runs on Linux only. Run Postroom on Linux, {OWN_SERVER}."
        )
    database_home = homes.prepare_home(home)
    deadline = time.monotonic() + wait_seconds
    with homes.explain_disk_errors(f"Cannot use {database_home.root}"):
        lock = _wait_for_stop(database_home, say, deadline)
    if lock is None:
        raise DatabaseUnavailable(
            f"The database server in {database_home.root} is stuck while stopping. "
            f"Kill its supervisor, process {database_home.supervisor_lock.read_text('ascii')}."
        )
    try:
        _ensure_running(database_home, major, say, deadline)
        owner, service = (_build_url(database_home, role, _DATABASE) for role in (_OWNER, _SERVICE))
        return ServerHandle(owner, service, database_home, major, lock)
    except BaseException:
        os.close(lock)
        raise


def _wait_for_stop(home: DatabaseHome, say: ReportProgress, deadline: float) -> int | None:
    """Take the lock of a user of the server. While the server stops, its supervisor holds it exclusively."""
    soon = min(deadline, time.monotonic() + _SILENT_SECONDS)
    lock = homes.take_lock(home.attached_lock, homes.SHARED, soon)
    if lock is None and soon < deadline:
        say(f"waiting until the database in {home.root} has stopped, to start it again")
        lock = homes.take_lock(home.attached_lock, homes.SHARED, deadline)
    return lock


@dataclass(frozen=True)
class ServerHandle:
    """The right to use the server of a home, until `release` or the end of the process."""

    url: str  # of the owner
    service_url: str  # of the pools
    _home: DatabaseHome
    _major: int
    _lock: int
    _released: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        threading.Thread(target=self._guard, name="postroom-database-guard", daemon=True).start()

    def release(self) -> None:
        """Release the server, which stops when no process uses it. Safe to call twice."""
        if not self._released.is_set():
            self._released.set()
            os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _guard(self) -> None:
        """Restart the server if its supervisor was killed while this process still needs it."""
        while not self._released.wait(_GUARD_SECONDS):
            with contextlib.suppress(PostroomError, OSError):
                if homes.is_lock_free(self._home.supervisor_lock):
                    _ensure_running(self._home, self._major, lambda _: None, time.monotonic() + 60)


def _ensure_running(home: DatabaseHome, major: int, say: ReportProgress, deadline: float) -> None:
    """Start the server if it does not run, and wait until it answers."""
    if not homes.is_lock_free(home.supervisor_lock) and _find_fault(home, deadline, create=False) is None:
        return
    with homes.explain_disk_errors(f"Cannot use {home.root}"):
        starting = homes.take_lock(home.starting_lock, homes.EXCLUSIVE, deadline)
    if starting is None:
        raise DatabaseUnavailable(
            f"Another process is stuck starting the database in {home.root}. Kill it and start again."
        )
    try:
        _start_server(home, major, say, deadline)
    finally:
        os.close(starting)


def _start_server(home: DatabaseHome, major: int, say: ReportProgress, deadline: float) -> None:
    while True:
        if homes.is_lock_free(home.supervisor_lock):
            _launch_supervisor(home, major, say, deadline)
        fault = _find_fault(home, deadline, create=True)
        if fault is None:
            return
        if time.monotonic() > deadline:
            raise DatabaseUnavailable(
                f"The database server in {home.root} does not respond ({fault}). See {home.log}; "
                f"if it hangs, kill its processes {find_server_processes(home.data)} and start again."
            )
        time.sleep(0.02)


def _launch_supervisor(home: DatabaseHome, major: int, say: ReportProgress, deadline: float) -> None:
    """Start a supervisor and read its reports until its server is ready."""
    reader, writer = os.pipe()
    try:
        _spawn_supervisor(home, major, writer)
        for line in _read_lines(reader, deadline):
            word, _, rest = line.partition(" ")
            if word == "say":
                say(rest)
            elif word == "error":
                raise DatabaseUnavailable(rest)
            else:
                return
    finally:
        os.close(reader)


def _spawn_supervisor(home: DatabaseHome, major: int, writer: int) -> None:
    arguments = [str(home.root), str(major), str(writer)]
    with homes.explain_disk_errors(f"Cannot start the supervisor of the database in {home.root}"):
        try:
            with open(homes.open_log(home), "ab") as log:  # noqa: PTH123 - a descriptor, not a path
                started = subprocess.run(  # noqa: S603 - our own module; it detaches and returns at once
                    [sys.executable, "-P", "-m", "postroom.store.embedded.supervisor", *arguments],
                    cwd="/",
                    env=_supervisor_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(writer,),
                    start_new_session=True,
                    check=False,
                )
        finally:
            os.close(writer)
    if started.returncode != 0:
        raise DatabaseUnavailable(f"The supervisor of the database could not be started. See {home.log}.")


def _supervisor_environment() -> dict[str, str]:
    """The variables that a long-lived process needs. Settings and their secrets are left out."""
    prefixes = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH", "PYTHON", "COVERAGE")
    environment = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    paths = [str(Path(__file__).parents[3]), *filter(None, [environment.get("PYTHONPATH")])]
    return environment | {"PYTHONPATH": os.pathsep.join(paths)}


def _read_lines(descriptor: int, deadline: float) -> Iterator[str]:
    """Yield whole lines until the writer closes or the deadline passes."""
    rest = b""
    poll = select.poll()  # select.select supports no descriptor above 1023
    poll.register(descriptor, select.POLLIN)
    while poll.poll(max(0, deadline - time.monotonic()) * 1000):
        chunk = os.read(descriptor, 4096)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)


def _find_fault(home: DatabaseHome, deadline: float, *, create: bool) -> str | None:
    """Why the database cannot be used yet, or None. With `create`, creates it on a new server."""
    import psycopg  # imported here because the supervisor imports this package and must stay small

    if socket_link.find_socket_directory(home) is None:
        return "it has no socket yet"
    timeout_seconds = max(2, min(10, int(deadline - time.monotonic())))
    try:
        with psycopg.connect(
            _build_url(home, SUPERUSER, "postgres"), autocommit=True, connect_timeout=timeout_seconds
        ) as connection:
            row = connection.execute(
                "SELECT to_regrole('postroom_service') FROM pg_database WHERE datname = 'postroom'"
            ).fetchone()
            if row is not None:
                if row[0] is None:  # an earlier version created the database
                    connection.execute(_SERVICE_ROLE)
                return None
            if not create:
                return "it is being created"
            connection.execute(_ROLES)
            connection.execute(_SERVICE_ROLE)
            connection.execute(
                "CREATE DATABASE postroom OWNER postroom"
            )  # last, so that its existence means that everything exists
            return None
    except psycopg.errors.DiskFull as error:
        full = f"The disk that holds {home.root} is full. Free some space and start again."
        raise DatabaseUnavailable(full) from error
    except psycopg.Error as error:
        return str(error).strip().partition("\n")[0]


def _build_url(home: DatabaseHome, role: str, database: str) -> str:
    host = quote(os.fsencode(socket_link.find_socket_directory(home) or home.data), safe="")
    return f"postgresql://{role}@/{database}?host={host}&port={PORT}"
