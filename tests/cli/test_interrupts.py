"""Ctrl-C ends a command with exit code 130 and without a traceback, whatever the command is doing."""

import signal
import socket
import subprocess
import sys
from textwrap import dedent

import pytest

PASSWORD = "m4rked-pa55word"
HELD = "held"

# Each program runs a command that interrupts itself, or waits for a Ctrl-C, at one named moment.
START = "import signal, sys; sys.argv = ['postroom', 'db', 'status']\n"
RUN = "\nfrom postroom.__main__ import main; main()"

MOMENTS = {
    "in the coroutine, which then fails because of it": """
        from postroom.errors import DatabaseUnavailable
        from postroom.store import schema_migrations

        async def read_status(url):
            signal.raise_signal(signal.SIGINT)
            raise DatabaseUnavailable("The database cannot be reached.")

        schema_migrations.read_status = read_status
        """,
    "in the coroutine, which succeeds all the same": """
        from postroom.store import schema_migrations

        async def read_status(url):
            signal.raise_signal(signal.SIGINT)
            return schema_migrations.SchemaStatus([], [], [], [], None)

        schema_migrations.read_status = read_status
        """,
    "in code that replaces the interrupt by an error of its own": """
        import contextlib
        from postroom.cli import startup
        from postroom.errors import OperatorError

        @contextlib.contextmanager
        def database_urls(settings):
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise OperatorError("The embedded database did not start.") from None
            yield

        startup.database_urls = database_urls
        """,
    "twice: the second time while the command cleans up": """
        from postroom.store import schema_migrations

        async def read_status(url):
            try:
                signal.raise_signal(signal.SIGINT)
                await __import__("asyncio").sleep(60)
            finally:
                signal.raise_signal(signal.SIGINT)

        schema_migrations.read_status = read_status
        """,
    "while the interpreter shuts down": """
        import atexit

        atexit.register(signal.raise_signal, signal.SIGINT)
        sys.argv = ["postroom", "--version"]
        """,
}


def assert_interrupted(process, errors):
    assert process.returncode == 130, errors
    assert errors == ""


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_ends_a_command(environment_of, moment):
    url = "postgresql://u@127.0.0.1:1/x"
    done = subprocess.run(
        [sys.executable, "-c", START + dedent(MOMENTS[moment]) + RUN],
        env=environment_of(POSTROOM_DATABASE_URL=url),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert_interrupted(done, done.stderr)


@pytest.mark.parametrize("module", ["typer", "psycopg"])  # of the command line, and of one command
def test_ctrl_c_during_an_import(environment_of, tmp_path, module):
    tmp_path.joinpath(f"{module}.py").write_text(
        f"print('{HELD}', flush=True)\nimport time\ntime.sleep(60)\n"
    )
    environment = environment_of(POSTROOM_DATABASE_URL="postgresql://u@127.0.0.1:1/x")
    environment["PYTHONPATH"] = f"{tmp_path}:{environment['PYTHONPATH']}"
    process = subprocess.Popen(
        [sys.executable, "-m", "postroom", "db", "status"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == f"{HELD}\n"
    process.send_signal(signal.SIGINT)
    assert_interrupted(process, process.communicate(timeout=60)[1])


def test_ctrl_c_while_connecting(environment_of):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/x"
        process = subprocess.Popen(
            [sys.executable, "-m", "postroom", "db", "status"],
            env=environment_of(POSTROOM_DATABASE_URL=url),
            stderr=subprocess.PIPE,
            text=True,
        )
        client, _ = silent.accept()
        with client:
            client.recv(8)  # it has sent its request, and waits for the answer
            process.send_signal(signal.SIGINT)
            assert_interrupted(process, process.communicate(timeout=60)[1])


def test_ctrl_c_together_with_a_lost_connection(environment_of):
    """Both reach the command at once: it is stopped while they happen."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://u:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/x"
        process = subprocess.Popen(
            [sys.executable, "-m", "postroom", "db", "status"],
            env=environment_of(POSTROOM_DATABASE_URL=url),
            stderr=subprocess.PIPE,
            text=True,
        )
        client, _ = silent.accept()
        with client:
            client.recv(8)
            process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        assert_interrupted(process, process.communicate(timeout=60)[1])
