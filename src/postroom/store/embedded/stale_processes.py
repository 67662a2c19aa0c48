"""What an earlier server may have left: processes that still end, and files that name a process long gone.

The lock `server` is held by the server's own processes, so it cannot lie as a pid file can.
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
    """Every live PostgreSQL process that works in this data directory, whoever started it."""
    try:
        place = data.stat()
    except OSError:
        return []
    found: list[int] = []
    with _filesystem_identity(place.st_uid, place.st_gid):
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                there = (entry / "cwd").stat()
                same = (there.st_dev, there.st_ino) == (place.st_dev, place.st_ino)
                if same and (entry / "exe").readlink().name.startswith("postgres"):
                    found.append(int(entry.name))
    return found


@contextlib.contextmanager
def _filesystem_identity(uid: int, gid: int) -> Generator[None]:
    """In a container, root may not look into other users' processes, but it may look with their eyes.

    These two calls are about files alone, and about this thread alone.
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
    """Wait until no process of an earlier server lives, and hold the lock that says so.

    Their supervisor is gone or has told them to stop. A server gets the time to do so; those that hang, and
    those whose server is dead, are ended: a busy connection would not notice for hours.
    """
    patience_seconds = 1 if _is_server_dead(home) else 15
    for wait_seconds, then in ((patience_seconds, signal.SIGQUIT), (7, signal.SIGKILL), (5, None)):
        lock = homes.take_lock(home.server_lock, homes.EXCLUSIVE, time.monotonic() + wait_seconds)
        if lock is not None:
            return lock
        for pid in find_server_processes(home.data) if then else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, then or 0)
    raise DatabaseUnavailable(
        f"An earlier database server still holds {home.server_lock} and does not end. "
        f"End its processes {find_server_processes(home.data)}, or restart the machine."
    )


def _is_server_dead(home: DatabaseHome) -> bool:
    """Its pid file is left, but none of the processes that work in this directory is the one it names."""
    try:
        pid = int((home.data / "postmaster.pid").read_text().partition("\n")[0])
    except (OSError, ValueError):
        return False
    return pid not in find_server_processes(home.data)


def remove_stale_files(home: DatabaseHome) -> None:
    """Remove a dead server's lock files. PostgreSQL would believe their pid if any process had it now."""
    strangers = find_server_processes(home.data)
    if strangers:
        raise DatabaseUnavailable(
            f"A PostgreSQL server that Postroom did not start uses {home.data}. "
            f"Stop it first: process {min(strangers)}."
        )
    for name in ("postmaster.pid", f".s.PGSQL.{PORT}.lock", f".s.PGSQL.{PORT}"):
        (home.data / name).unlink(missing_ok=True)
