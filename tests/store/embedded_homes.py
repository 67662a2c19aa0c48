"""Homes under test, the processes that use their server, and helpers to inspect and kill them."""

import contextlib
import functools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from postroom.store import embedded
from postroom.store.embedded import database_home as homes
from postroom.store.embedded.database_home import DatabaseHome
from postroom.store.embedded.stale_processes import find_server_processes

SOURCES = Path(__file__).parents[2] / "src"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def until(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting for: {what}"
        time.sleep(0.02)


@functools.cache
def as_user(uid=NOBODY):
    """How root becomes an ordinary user here, who may need the right to read root's own interpreter."""
    plain = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    reading = [*plain, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    for prefix in (plain, reading):
        with contextlib.suppress(OSError):
            # It must find itself again, too.
            itself = (
                "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import psycopg'], check=True)"
            )
            command = [*prefix, sys.executable, "-c", itself]
            if subprocess.run(command, env=environment(), capture_output=True, check=False).returncode == 0:
                return prefix
    pytest.skip("no ordinary user can run this interpreter")


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(SOURCES), **more}


class ServerUser:
    """A process that attaches to a home. Killed when its time is over, as everything here."""

    def __init__(self, home, *, prefix=(), wait_seconds=60.0, more=None):
        self.process = subprocess.Popen(
            [
                *prefix,
                sys.executable,
                Path(__file__).with_name("server_handle_program.py"),
                home,
                str(wait_seconds),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(**(more or {})),
            text=True,
            cwd="/",
            process_group=0,
        )

    @functools.cached_property
    def answer(self):
        return json.loads(self.process.stdout.readline())

    @property
    def url(self):
        assert "url" in self.answer, self.answer
        return self.answer["url"]

    def kill(self):
        self.process.kill()
        self.close()

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@dataclass
class WatchedHome:
    """A home, the processes that use its server, and its state as seen from outside."""

    path: Path
    users: list[ServerUser] = field(default_factory=list)

    @property
    def inside(self):
        return DatabaseHome(Path(os.path.realpath(self.path)) / "postgres")

    def attach(self, **options):
        one = ServerUser(self.path, **options)
        self.users.append(one)
        return one

    def supervisor(self):
        return int(self.inside.supervisor_lock.read_text())

    def postmaster(self):
        return int((self.inside.data / "postmaster.pid").read_text().splitlines()[0])

    def runs(self):
        return bool(find_server_processes(self.inside.data))

    def has_stopped(self):
        """Neither supervisor nor any process of the server is left."""
        if not self.inside.root.exists():
            return True
        return (
            homes.is_lock_free(self.inside.supervisor_lock)
            and homes.is_lock_free(self.inside.server_lock)
            and not self.runs()
        )

    def end(self):
        for each in self.users:
            if each.process.poll() is None:
                each.process.kill()
            with contextlib.suppress(BrokenPipeError):
                each.close()
        until(self.has_stopped, "the server stops when the last process has ended")


def kill(pid):
    with contextlib.suppress(ProcessLookupError):  # ended by itself meanwhile
        os.kill(pid, signal.SIGKILL)


def ask(url, statement="SELECT 1"):
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchone() if cursor.description else None


def answers(url):
    try:
        return ask(url) == (1,)
    except psycopg.OperationalError:
        return False


@functools.cache
def _created_home():
    """A home with a database in it, made once for this run: copying one is quicker than making one."""
    path = _quick_path()
    with watched_home(path), embedded.start_or_join(path):
        pass
    return path


def _quick_path():
    """Where the run keeps its servers: in memory, if there is enough. Removed with them."""
    return Path(os.environ["TEST_SERVERS"]) / f"home-{secrets.token_hex(4)}"


@contextlib.contextmanager
def quick_home():
    path = _quick_path()
    with watched_home(path, made=True) as home:
        yield home
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def watched_home(path, *, made=False):
    home = WatchedHome(path)
    if made:
        subprocess.run(["cp", "-a", _created_home(), path], check=True)
        home.inside.log.unlink()
    try:
        yield home
    finally:
        home.end()


@contextlib.contextmanager
def public_directory():
    """A directory that every user can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="postroom-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)
