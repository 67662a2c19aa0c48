"""The demo and `up`: whatever is killed, whenever, the next start works and nothing is left behind."""

import os
import re
import signal
import socket
from contextlib import contextmanager, suppress

import httpx2
import pytest

from postroom.config import Settings
from postroom.store.embedded.stale_processes import find_server_processes
from postroom.vault import LedgerHeads
from scenarios.postroom_process import PostroomProcess, children, running_in, wait_until
from web.sign_in_support import open_signed_in_client

# The demo ignores all of these: with them it would not start, or read nothing.
YOURS = {
    "POSTROOM_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    "POSTROOM_QUEUE": "sqs:http://127.0.0.1:1/1/yours",
    "POSTROOM_PIPELINES": "/nowhere.toml",
    "POSTROOM_BLOBS": "s3://yours",
}
# Documents may be late on a busy machine; everything that must run, runs.
TROUBLES = ("Not working", "No worker is connected", "read-only")


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.fixture
def demo(tmp_path, port):
    def start():
        return PostroomProcess(tmp_path, "demo", "--port", str(port), **YOURS)

    return start


@contextmanager
def visitor(running):
    """Signs in with the link that was printed; whether everything runs."""
    url = running.line("Postroom: ")
    with open_signed_in_client(url, running.line("Sign in (single use, valid for one hour): ")) as client:

        def is_well():
            with suppress(httpx2.TransportError):
                page = client.get("/health").text
                return "work-title" in page and not any(words in page for words in TROUBLES)
            return False

        yield client, is_well


@pytest.mark.soak
def test_whatever_part_is_killed_comes_back(demo, tmp_path):
    data = tmp_path / ".demo/postgres/data"
    parts = {
        "web": lambda pid: children(pid).get("serve", []),
        "a worker": lambda pid: children(pid).get("work", []),
        "the database": lambda _: find_server_processes(data)[:1],
    }
    with demo() as running:
        with visitor(running) as (_, is_well):
            for pids_of in parts.values():
                wait_until(is_well)
                kill_and_wait_for_another(pids_of, running.process.pid)
            wait_until(is_well)
        assert running.end() == 0


def compared(client):
    """Of each mailbox on the guided page: at the provider, kept, on the way, missing, extra, duplicate."""
    try:
        page = client.get("/demo/parts").text
    except httpx2.TransportError:
        return []
    rows = re.findall(r"<tr><th scope=.row.>.*?</tr>", page, re.DOTALL)
    return [[int(figure) for figure in re.findall(r'data-label="[^"]+">(\d+)<', row)] for row in rows]


def is_complete(client):
    """No message of either mailbox is in transit, missing or duplicated."""
    found = compared(client)
    return len(found) == 2 and all(row[0] >= 200 and row[2:] == [0, 0, 0, 0] for row in found)


def test_it_says_its_address_makes_good_what_the_guided_page_breaks_and_ends_cleanly_on_ctrl_c(
    demo, tmp_path
):
    LedgerHeads(tmp_path / ".demo").keep(Settings().organization, f"9999:{'0' * 64}")  # of an earlier demo
    with demo() as running:
        with visitor(running) as (client, is_well):
            wait_until(is_well)
            wait_until(lambda: is_complete(client))
            assert {name: len(pids) for name, pids in children(running.process.pid).items()} == {
                "serve": 1,
                "work": 2,
            }
            for trouble in ("worker", "database", "cursors"):
                assert client.post(f"/demo/break/{trouble}").status_code == 303
                wait_until(lambda: is_complete(client))
            assert client.post("/demo/break/nothing").status_code == 404
        before = len(running.said)
        assert running.end(signal.SIGINT) == 0
        assert "ledger.truncated" not in "".join(running.said)
        ending = "".join(running.said[before:])
        assert "Traceback" not in ending, ending
    wait_until(lambda: running_in(tmp_path) == [])


def kill_and_wait_for_another(pids_of, pid):
    before = pids_of(pid)
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: len(pids_of(pid)) == len(before) and before[0] not in pids_of(pid))


@pytest.mark.soak
def test_killed_at_any_moment_it_starts_again_five_times_in_a_row(demo, tmp_path):
    # At once, while the database is made, while it is filled, while children start, when all is ready.
    for moment in ("", "creating the database", "Applying migration 0001", '{"timestamp"', "Postroom: "):
        with demo() as running:
            if moment:
                running.line(moment)
            running.end(signal.SIGKILL)
    with demo() as running:
        running.line("Postroom: ")
        for pid in running_in(tmp_path):
            with suppress(ProcessLookupError):  # it ends with those that were killed before it
                os.kill(pid, signal.SIGKILL)
    with demo() as running:
        with visitor(running) as (_, is_well):
            wait_until(is_well)
        assert running.end() == 0
    wait_until(lambda: running_in(tmp_path) == [])
