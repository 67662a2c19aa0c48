"""Runs the simulator as a child process of the demo, and returns the settings for it.

It imports nothing of mailsim. `demo` creates the simulated mailboxes.
"""

import importlib.util
import selectors
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import IO, Any, Final

import msgspec

from postroom.errors import OperatorError

START_SECONDS: Final = 60
STOP_SECONDS: Final = 5
_ENDPOINTS: Final = ("google_accounts", "google_token", "google_certs", "gmail", "microsoft_login", "graph")


@dataclass(frozen=True)
class SimulatorProcess:
    process: subprocess.Popen[bytes]
    control: str
    settings: Mapping[str, str]  # settings that point Postroom at the simulator


@contextmanager
def run_simulator(environment: Mapping[str, str]) -> Generator[SimulatorProcess]:
    """Run the simulator.

    Its standard input is a pipe of this process: when this process ends, it exits.
    """
    if importlib.util.find_spec("mailsim") is None:
        raise OperatorError(
            "The demo needs the simulator mailsim, which is not installed. Install Postroom with the extra"
            " `demo`: `pip install 'postroom[demo]'`, or run `uvx 'postroom[demo]' demo`."
        )
    process = subprocess.Popen(
        [sys.executable, "-m", "mailsim", "--http", "127.0.0.1:0", "--quota", "old", "--supervised"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(environment),
        start_new_session=True,  # Ctrl-C reaches the demo only, which stops the simulator last
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        try:
            yield _to_simulator_process(process, _read_ready_line(process.stdout))
        finally:
            _stop(process)


def _read_ready_line(output: IO[bytes]) -> dict[str, Any]:
    """Read the line of JSON that the simulator prints once it accepts requests."""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        line = output.readline() if selector.select(START_SECONDS) else b""
    if not line:
        raise OperatorError("The simulator did not start. Run `mailsim` on its own to see why.")
    return msgspec.json.decode(line)


def _to_simulator_process(process: "subprocess.Popen[bytes]", ready: dict[str, Any]) -> SimulatorProcess:
    google, microsoft = ready["clients"]["gmail"], ready["clients"]["outlook"]
    settings = {
        "google_client_id": google["client_id"],
        "google_client_secret": google["client_secret"],
        "pubsub_topic": f"projects/{google['project']}/topics/gmail",
        "pubsub_subscription": f"projects/{google['project']}/subscriptions/postroom",
        "pubsub_token": token_urlsafe(16),
        "microsoft_client_id": microsoft["client_id"],
        "microsoft_client_secret": microsoft["client_secret"],
        "simulator_url": ready["control"],
        "gmail_quota": "old",  # of projects from before May 2026: the larger quota keeps the demo fast
    } | {f"{endpoint}_url": ready["http"] for endpoint in _ENDPOINTS}
    return SimulatorProcess(process, ready["control"], settings)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
