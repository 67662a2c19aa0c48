"""The mailsim command: ready line, shutdown, error messages."""

import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from mailsim.__main__ import main
from mailsim.tls import NAMES
from simulator.driver import command, environment, ready_line

# Simulate an unwritable temporary directory: the current user may be able to write everywhere.
NOWHERE = """
import tempfile
tempfile._candidate_tempdir_list = lambda: ["/nonexistent"]
from mailsim.__main__ import main
main([])
"""


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*options), capture_output=True, text=True, timeout=60, check=False, env=environment()
    )


def test_the_ready_line_contains_urls_ca_and_clients(start):
    sim = start()
    assert sim.ready["pid"] == sim.process.pid
    assert set(sim.ready["clients"]) == {"gmail", "outlook"}
    assert sim.get("")["http"] == sim.http
    trusting = ssl.create_default_context(cafile=sim.ca)
    with httpx2.Client(verify=trusting, trust_env=False) as client:
        assert client.get(f"{sim.https}/_sim/clock").status_code == 200


def test_the_certificate_covers_the_providers_real_names(start):
    sim = start()
    place = urlsplit(sim.https)
    trusting = ssl.create_default_context(cafile=sim.ca)
    for name in NAMES:
        with (
            socket.create_connection((place.hostname, place.port)) as plain,
            trusting.wrap_socket(plain, server_hostname=name) as secure,
        ):
            assert secure.version() == "TLSv1.3"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly_and_removes_the_ca(number):
    process = subprocess.Popen(
        command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        ca = Path(ready_line(process.stdout)["ca"])
        assert ca.parent.stat().st_mode & 0o077 == 0
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stdout.read() == ""
        assert process.stderr.read() == ""
    assert not ca.parent.exists()


def test_a_signal_stops_it_while_a_client_keeps_a_connection_open(start):
    sim = start()
    place = urlsplit(sim.http)
    with socket.create_connection((place.hostname, place.port)) as held:
        held.sendall(b"GET /_sim/clock HTTP/1.1\r\n")
        sim.process.signal(signal.SIGTERM)
        assert sim.process.wait(30) == 0


def test_a_port_in_use_prints_one_clear_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run("--http", f"127.0.0.1:{taken.getsockname()[1]}")
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "address already in use" in ended.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--http", "nowhere"],
        ["--https", "127.0.0.1:70000"],
        ["--http", "host.invalid:0"],
        ["--seed", "-1"],
        ["--seed", "x"],
        ["--latency-ms", "1.5"],
        ["--quota", "none"],
        ["--clock", "fast"],
        ["--start", "yesterday"],
        ["--start", "2026-01-01T00:00:00"],
        ["--unknown"],
        ["--seed"],
    ],
)
def test_an_invalid_option_prints_one_clear_line(options, capsys):
    with pytest.raises(SystemExit) as ended:
        main(options)
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.out == ""
    assert said.err.startswith("mailsim: ")
    assert said.err.count("\n") == 1


def test_an_unwritable_tmpdir_prints_one_clear_line():
    ended = subprocess.run(
        [sys.executable, "-c", NOWHERE],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
    assert "TMPDIR" in ended.stderr


def test_help_shows_examples():
    ended = run("--help")
    assert ended.returncode == 0
    assert "examples:" in ended.stdout
    assert "--latency-ms" in ended.stdout


def test_it_runs_without_a_terminal_and_a_home_directory(tmp_path):
    bare = {name: environment()[name] for name in ("PATH", "PYTHONPATH")} | {"HOME": "/nonexistent"}
    with subprocess.Popen(
        command(), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=bare, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert ready_line(process.stdout)["http"].startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "/common/oauth2/v2.0/token", "/common/oauth2/v2.0/authorize", "/v1.0/$batch", "/token",
        "/gmail/v1/users/me/messages/send", "/batch",
    ],
)  # fmt: skip
def test_a_disconnecting_client_logs_no_error(sim, path):
    place = urlsplit(sim.http)
    with socket.create_connection((place.hostname, place.port)) as client:
        client.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{{".encode())
    while not ((entries := sim.get("requests")) and entries[0]["duration_ms"]):
        pass
    assert [(entry["path"], entry["status"]) for entry in entries] == [(path, 0)]
    assert sim.process.read_output()[1] == ""


def test_a_client_disconnecting_from_the_control_api_logs_no_error(start):
    sim = start()
    place = urlsplit(sim.http)
    with socket.create_connection((place.hostname, place.port)) as client:
        client.sendall(b"POST /_sim/mailboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
    assert sim.get("mailboxes") == []


def test_browsers_get_an_icon_without_errors(sim):
    assert httpx2.get(f"{sim.http}/favicon.ico", trust_env=False).status_code == 204
