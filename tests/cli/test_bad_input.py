"""Each foreseeable fault is one line with cause and remedy, exits with a code, and damages nothing."""

import socket
import struct
import threading
import time
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from postroom.errors import SettingsError
from postroom.store.connection import connect

MARK = "m4rked-pa55word"
DATABASE_COMMANDS = [
    ("db", "migrate"),
    ("db", "status"),
    ("serve", "--port", "0"),
    ("work",),
    ("up", "--port", "0"),
]
each_command = pytest.mark.parametrize("command", DATABASE_COMMANDS, ids=" ".join)


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


def greeting(version):
    """What a PostgreSQL server of this version says to a client that it lets in."""
    parameters = {"server_version": version, "client_encoding": "UTF8", "server_encoding": "UTF8"}
    status = b"".join(
        message(b"S", name.encode() + b"\0" + value.encode() + b"\0") for name, value in parameters.items()
    )
    return message(b"R", struct.pack("!I", 0)) + status + message(b"K", bytes(8)) + message(b"Z", b"I")


REFUSAL = message(b"E", b'SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user "u"\0\0')


@contextmanager
def pretended_server(answer):
    """A server that sends this to every client, and nothing else."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            while True:
                length, code = struct.unpack("!II", client.recv(8, socket.MSG_WAITALL))
                client.recv(length - 8, socket.MSG_WAITALL)
                if code == 196608:
                    break
                client.sendall(b"N")  # no TLS, no GSSAPI
            client.sendall(answer)
            open_clients.append(client)

    open_clients = []
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"postgresql://u:{MARK}@127.0.0.1:{listening.getsockname()[1]}/x"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        for client in open_clients:
            client.close()


@pytest.fixture
def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@each_command
def test_unreachable_database_is_one_clear_error(complaint, command, closed_port):
    url = f"postgresql://u:{MARK}@127.0.0.1:{closed_port}/x"
    line = complaint(3, *command, POSTROOM_DATABASE_URL=url, POSTROOM_DATABASE_WAIT_SECONDS="0")
    assert "cannot be reached" in line
    assert "correct POSTROOM_DATABASE_URL" in line
    assert MARK not in line


@pytest.mark.parametrize("password", [f"p@{MARK}/w0rd", f"p@{MARK}", f"5/{MARK}"])
def test_password_that_is_not_percent_encoded_is_rejected(complaint, password):
    line = complaint(2, "db", "status", POSTROOM_DATABASE_URL=f"postgresql://u:{password}@127.0.0.1:1/x")
    assert "%40" in line
    assert MARK not in line


@pytest.mark.parametrize("password", [f"p@{MARK}/w0rd", f"p@{MARK}", f"5/{MARK}"])
async def test_unencoded_password_is_sent_to_no_server(password):
    with pytest.raises(SettingsError, match="%40") as refused:
        await connect(f"postgresql://u:{password}@127.0.0.1:1/x")
    assert MARK not in str(refused.value)


def test_database_that_is_too_old_is_rejected(complaint):
    with pretended_server(greeting("14.9")) as url:
        line = complaint(3, "db", "migrate", POSTROOM_DATABASE_URL=url)
    assert "PostgreSQL 14" in line
    assert "15 or newer" in line


def test_rejected_database_password_is_one_clear_error(complaint):
    with pretended_server(REFUSAL) as url:
        line = complaint(3, "db", "status", POSTROOM_DATABASE_URL=url)
    assert "password" in line
    assert MARK not in line


@pytest.mark.parametrize("command", [("work",), ("up", "--port", "0")], ids=" ".join)
def test_read_only_database_is_rejected(complaint, command, database_url):
    joined = "&" if "?" in database_url else "?"
    line = complaint(
        3,
        *command,
        POSTROOM_DATABASE_URL=f"{database_url}{joined}options={quote('-c default_transaction_read_only=on')}",
    )
    assert "read-only" in line
    assert "primary" in line


@pytest.mark.parametrize("command", [("db", "migrate"), ("work",)], ids=" ".join)
async def test_database_of_a_newer_postroom_is_rejected(complaint, command, database_url, owner):
    await owner.execute("INSERT INTO schema_migrations (version, name, sha256) VALUES (9999, 'x', 'y')")
    assert "The database is newer" in complaint(4, *command, POSTROOM_DATABASE_URL=database_url)


@pytest.mark.parametrize("command", [("serve", "--port", "0")], ids=" ".join)
async def test_outdated_schema_is_rejected(complaint, command, database_url, owner):
    await owner.execute(
        "DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)"
    )
    assert "Run `postroom db migrate`" in complaint(4, *command, POSTROOM_DATABASE_URL=database_url)


async def test_worker_reports_a_schema_that_breaks_while_it_runs(postroom, database_url, owner):
    await owner.execute("ALTER TABLE mailboxes RENAME TO elsewhere")
    done = postroom("work", POSTROOM_DATABASE_URL=database_url)
    assert done.returncode == 4, done.stderr
    assert "Run `postroom db migrate`" in done.stderr.splitlines()[-1]


async def test_full_database_disk_is_one_clear_error(postroom, database_url, owner):
    # A database without our schema, whose server says what a server says when its disk is full.
    for statement in (
        "DROP SCHEMA postroom CASCADE",
        "CREATE SCHEMA postroom",
        """
        CREATE TABLE schema_migrations (
            version integer PRIMARY KEY, name text, sha256 text, applied_at timestamptz DEFAULT now())
        """,
        """
        CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$
        """,
        "CREATE TRIGGER full_disk BEFORE INSERT ON schema_migrations EXECUTE FUNCTION fail()",
    ):
        await owner.execute(statement)
    done = postroom("db", "migrate", POSTROOM_DATABASE_URL=database_url)
    assert done.returncode == 3
    assert "disk is full" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    await owner.execute("DROP TRIGGER full_disk ON schema_migrations")
    assert postroom("db", "migrate", POSTROOM_DATABASE_URL=database_url).returncode == 0


def wait_until(condition):
    while not condition():
        time.sleep(0.02)


def test_home_with_another_postgresql_version_is_rejected(postroom, complaint, tmp_path):
    assert postroom("db", "migrate").returncode == 0
    wait_until(lambda: not (tmp_path / "home/postgres/data/postmaster.pid").exists())
    version = tmp_path / "home/postgres/data/PG_VERSION"
    ours = version.read_text()
    version.write_text("13\n")
    line = complaint(3, "db", "status")
    assert "PostgreSQL 13" in line
    assert version.read_text() == "13\n"
    version.write_text(ours)
    assert postroom("db", "status").returncode == 0


def test_home_that_is_a_file_is_rejected(complaint, tmp_path):
    (tmp_path / "home").write_text("")
    assert "Set POSTROOM_HOME to a directory" in complaint(3, "db", "status")


@pytest.mark.parametrize("command", ["serve", "up"])
def test_port_in_use_is_one_clear_error(complaint, command, database_url):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = complaint(1, command, "--port", str(port), POSTROOM_DATABASE_URL=database_url)
    assert f"port {port}" in line
    assert "--port" in line


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "not a host"])
def test_host_of_another_machine_is_rejected(complaint, host):
    line = complaint(1, "serve", "--host", host, "--port", "0")
    assert host in line
    assert "POSTROOM_HOST" in line


def test_two_homes_run_side_by_side(postroom, tmp_path):
    for name in ("one", "two"):
        assert postroom("db", "migrate", POSTROOM_HOME=str(tmp_path / name)).returncode == 0
    for name in ("one", "two"):
        assert postroom("db", "status", POSTROOM_HOME=str(tmp_path / name)).returncode == 0


def test_demo_in_an_unusable_directory_is_one_clear_error(complaint, tmp_path):
    (tmp_path / ".demo").write_text("in the way")
    assert f"cannot write to {tmp_path}/.demo" in complaint(1, "demo")
