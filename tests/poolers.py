"""Runs PgBouncer in transaction mode in front of a test server. Without it, its tests are skipped."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

# The account may not enter the directories above the server's own, so it starts there.
_CONFIGURATION = """
[databases]
* = host=/proc/self/cwd port=5432
[pgbouncer]
pool_mode = transaction
unix_socket_dir = {directory}
listen_port = 6432
auth_type = trust
auth_file = {directory}/users
max_client_conn = 1000
default_pool_size = {sessions}
logfile = {directory}/log
"""


def find_pgbouncer() -> str:
    """The program's path. Skips the test where the package is not installed."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if not found:
        pytest.skip("PgBouncer is missing: install the package pgbouncer.")
    return found


@contextmanager
def run_pgbouncer(server_url: str, *, sessions: int) -> Generator[Path]:
    """Run it in front of an embedded server; yields the directory of its socket.

    With few sessions at the server, transactions of all clients share them.
    """
    program, server = find_pgbouncer(), Path(parse_qs(urlsplit(server_url).query)["host"][0])
    account = pwd.getpwuid(server.stat().st_uid)  # the server trusts it, and PgBouncer refuses to run as root
    directory = Path(tempfile.mkdtemp(prefix="pgb-"))
    try:
        (directory / "users").write_text('"postroom_service" ""\n')
        (directory / "settings").write_text(_CONFIGURATION.format(directory=directory, sessions=sessions))
        shutil.chown(directory, account.pw_uid)
        command = [program, "-q", str(directory / "settings")]
        login = {"user": account.pw_uid, "group": account.pw_gid} if os.geteuid() == 0 else {}
        with subprocess.Popen(command, cwd=server, **login) as process:
            try:
                _wait_until_ready(directory, process)
                yield directory
            finally:
                process.terminate()
    finally:
        shutil.rmtree(directory)


def through(pooler: Path, url: str) -> str:
    """The URL of a database of the server, through the pooler."""
    return urlsplit(url)._replace(query=urlencode({"host": str(pooler), "port": 6432})).geturl()


def _wait_until_ready(directory: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not (directory / ".s.PGSQL.6432").exists():
        assert process.poll() is None, (directory / "log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
