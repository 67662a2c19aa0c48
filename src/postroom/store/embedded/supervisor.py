"""The process that owns a home's server: starts it, restarts it after a crash, stops it when unused.

`start_or_join` starts it, detached from every terminal. Users of the server hold a lock, so a killed process
no longer counts. It reports to its starter in lines: `say …`, `ready`, `error …`.
"""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from postroom.errors import DatabaseUnavailable, PostroomError
from postroom.store.embedded import binaries as programs
from postroom.store.embedded import database_home as homes
from postroom.store.embedded import socket_link
from postroom.store.embedded.database_home import DatabaseHome
from postroom.store.embedded.server import EmbeddedServer
from postroom.store.embedded.server_account import choose_account

_IDLE_SECONDS = 0.5
_STARTING_SECONDS = 0.02
_RESTART_SECONDS = 0.2
_LOG_LIMIT = 5_000_000


def main() -> None:
    home, major, starter = DatabaseHome(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    if os.fork():
        os._exit(0)  # the starter must not have a child that it never reaps
    os.umask(0o077)
    # It ends with the last user of the database. Ctrl-C and a service's stop are for those users.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    lock = homes.take_lock(home.supervisor_lock, homes.EXCLUSIVE, time.monotonic() + 5)
    if lock is None:
        return  # another supervisor is running
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    try:
        _supervise(home, major, starter)
    except PostroomError as error:
        _log(str(error))
        _report(starter, f"error {error}")
    except Exception as error:
        _report(starter, f"error The supervisor of the database server failed, see {home.log}: {error!r}")
        raise


def _supervise(home: DatabaseHome, major: int, starter: int) -> None:
    with homes.explain_disk_errors(f"Cannot start the database in {home.root}"):
        account = choose_account(home)
        installed = programs.find_binaries(major)
        server = EmbeddedServer(home, programs.ensure_executable_by(account, installed), account)
        _rotate_log(home.log)
        if not home.data.exists():
            _report(starter, f"say creating the database in {home.root}")
            server.create()
        server.check()
        socket_link.ensure_link(home)
        try:
            while not _run_server(home, server, starter):
                _log("the server exited unexpectedly and is being restarted")
                time.sleep(_RESTART_SECONDS)
        finally:
            socket_link.remove_link(home)


def _run_server(home: DatabaseHome, server: EmbeddedServer, starter: int) -> bool:
    """Run the server until no process uses it (true) or it exits by itself (false)."""
    since = server.log_size()
    process = server.start()
    ready = False
    try:
        while process.poll() is None:
            if not ready and server.is_ready(process):
                ready = True
                _report(starter, "ready")
            # The lock is held to the end: a new process waits until the server has stopped, then starts it.
            if homes.take_lock(home.attached_lock, homes.EXCLUSIVE, deadline=0) is not None:
                return True
            socket_link.ensure_link(home)
            signal.sigtimedwait({signal.SIGCHLD}, _IDLE_SECONDS if ready else _STARTING_SECONDS)
    finally:
        server.stop(process)
    if not ready:
        raise DatabaseUnavailable(server.complaint("The database server did not start", since))
    return False


def _report(starter: int, line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(starter, (" ".join(line.split()) + "\n").encode(errors="replace"))


def _log(line: str) -> None:
    sys.stderr.write(f"postroom: {line}\n")
    sys.stderr.flush()


def _rotate_log(log: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > _LOG_LIMIT:
            log.replace(log.with_suffix(".log.1"))


if __name__ == "__main__":
    main()
