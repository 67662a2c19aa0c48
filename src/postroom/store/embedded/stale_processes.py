"""Processes and lock files that an earlier server left behind: wait for them, kill them, remove them.

The lock `server` is held by the server's own processes, so unlike a pid file it is always right.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path

from postroom.errors import DatabaseUnavailable
from postroom.store.embedded import database_home as homes
from postroom.store.embedded.database_home import PORT, DatabaseHome


def find_server_processes(data: Path) -> list[int]:
    """All running PostgreSQL processes in this data directory, whatever started them."""
    try:
        target = data.stat()
    except OSError:
        return []
    pids: list[int] = []
    with _filesystem_identity(target.st_uid, target.st_gid):
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                cwd = (entry / "cwd").stat()
                same = (cwd.st_dev, cwd.st_ino) == (target.st_dev, target.st_ino)
                if same and (entry / "exe").readlink().name.startswith("postgres"):
                    pids.append(int(entry.name))
    return pids


@contextlib.contextmanager
def _filesystem_identity(uid: int, gid: int) -> Generator[None]:
    """Access files as this user. In a container, root may not inspect other users' processes otherwise.

    The two calls affect file access of this thread only.
    """
    if os.geteuid() != 0:
        yield
        return
    system = ctypes.CDLL(None)
    system.setfsgid(gid)
    system.setfsuid(uid)
    try:
        yield
    finally:
        system.setfsuid(0)
        system.setfsgid(os.getegid())


def wait_for_exit(home: DatabaseHome) -> int:
    """Wait until no process of an earlier server runs, and return the lock that proves it.

    Their supervisor is gone or has stopped them. A server gets time to shut down. Processes that hang or
    whose server is dead are killed: a busy connection would not notice for hours.
    """
    grace_seconds = 1 if _is_server_dead(home) else 15
    for wait_seconds, next_signal in ((grace_seconds, signal.SIGQUIT), (7, signal.SIGKILL), (5, None)):
        lock = homes.take_lock(home.server_lock, homes.EXCLUSIVE, time.monotonic() + wait_seconds)
        if lock is not None:
            return lock
        for pid in find_server_processes(home.data) if next_signal else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, next_signal or 0)
    raise DatabaseUnavailable(
        f"An earlier database server still holds {home.server_lock} and does not stop. "
        f"Kill its processes {find_server_processes(home.data)}, or restart the machine."
    )


def _is_server_dead(home: DatabaseHome) -> bool:
    """Whether a pid file exists, but the process it names does not run in this directory."""
    try:
        pid = int((home.data / "postmaster.pid").read_text().partition("\n")[0])
    except (OSError, ValueError):
        return False
    return pid not in find_server_processes(home.data)


def remove_stale_files(home: DatabaseHome) -> None:
    """Remove a dead server's lock files. PostgreSQL would trust their pid if another process now has it."""
    strangers = find_server_processes(home.data)
    if strangers:
        raise DatabaseUnavailable(
            f"A PostgreSQL server that Postroom did not start uses {home.data}. "
            f"Stop it first: process {min(strangers)}."
        )
    for name in ("postmaster.pid", f".s.PGSQL.{PORT}.lock", f".s.PGSQL.{PORT}"):
        (home.data / name).unlink(missing_ok=True)
