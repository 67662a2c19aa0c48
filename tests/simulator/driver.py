"""Runs mailsim as a separate process, as users do, and calls its control API."""

import atexit
import contextlib
import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import httpx2

from postroom_chaos.launcher import LaunchedProcess, Launcher
from simulator import conformance

START_SECONDS = 30
SOURCES = Path(__file__).parents[2] / "mailsim/src"
IMPORTED = ("argparse", "uvloop", "mailsim.app", "mailsim.http_server", "mailsim.simulator", "mailsim.tls")


@dataclass(frozen=True)
class Simulation:
    """A running mailsim. `ready` is its ready line; `control` is a client relative to /_sim/."""

    process: LaunchedProcess
    ready: dict[str, Any]
    control: httpx2.Client

    @property
    def http(self) -> str:
        return self.ready["http"]

    @property
    def https(self) -> str:
        return self.ready["https"]

    @property
    def proxy(self) -> str:
        return self.ready["proxy"]

    @property
    def ca(self) -> str:
        return self.ready["ca"]

    def get(self, path: str, **query: Any) -> Any:
        return _check_response(self.control.get(path, params=query))

    def post(self, path: str, **body: Any) -> Any:
        return _check_response(self.control.post(path, json=body))

    def delete(self, path: str) -> None:
        _check_response(self.control.delete(path))

    def create(self, provider: str, address: str, messages: int = 0, **more: Any) -> dict[str, Any]:
        return self.post("mailboxes", provider=provider, address=address, messages=messages, **more)

    def deliver(self, address: str, raw: bytes | None = None, **spec: Any) -> dict[str, Any]:
        """Deliver these bytes or a generated message; return its number, ID and thread."""
        path = f"mailboxes/{address}/messages"
        if raw is None:
            return self.post(path, **spec)["messages"][0]
        answer = self.control.post(path, params=spec, content=raw, headers={"content-type": "message/rfc822"})
        return _check_response(answer)["messages"][0]

    def act(self, address: str, message: object, action: str, **body: Any) -> Any:
        """Run an action of the control API: move, mark, label, trash or send."""
        return self.post(f"mailboxes/{address}/messages/{message}/{action}", **body)

    def truth(self, address: str, **query: Any) -> list[dict[str, Any]]:
        """List the truth of all messages, oldest first, over all pages."""
        messages: list[dict[str, Any]] = []
        start: int | None = 0
        while start is not None:
            page = self.get(f"mailboxes/{address}/truth", start=start, **query)
            messages += page["messages"]
            start = page["next"]
        return messages

    def raw(self, address: str, message: object) -> bytes:
        """Return the true bytes of a message."""
        answer = self.control.get(f"mailboxes/{address}/messages/{message}/raw")
        assert answer.is_success, f"{answer.status_code} {answer.text}"
        return answer.content

    def fault(self, kind: str, **details: Any) -> dict[str, Any]:
        return _check_response(self.control.post("faults", json={"kind": kind, **details}))

    def move_clock(self, seconds: float) -> str:
        return self.post("clock", seconds=seconds)["now"]

    def meter(self, address: str) -> dict[str, Any]:
        return next(meter for meter in self.get("meters") if meter["mailbox"] == address)


def _check_response(answer: httpx2.Response) -> Any:
    assert answer.is_success, (
        f"{answer.request.method} {answer.request.url} -> {answer.status_code} {answer.text}"
    )
    return answer.json() if answer.content else None


def ready_line(stdout: IO[str]) -> dict[str, Any]:
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        assert selector.select(START_SECONDS), "mailsim did not become ready"
    line = stdout.readline()
    assert line, "mailsim exited before it was ready"
    return json.loads(line)


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "mailsim", *options]


def environment() -> dict[str, str]:
    """Return the environment with this repository first on the path, without coverage (too slow)."""
    path = os.pathsep.join(filter(None, (str(SOURCES), os.environ.get("PYTHONPATH"))))
    variables = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    return {**variables, "PYTHONPATH": path, "TZ": "UTC"}


def launch() -> Launcher:
    return Launcher(environment(), IMPORTED, "mailsim")


@cache
def _shared_launcher() -> Launcher:
    launcher = launch()
    atexit.register(launcher.end)
    return launcher


def _wait_until_ready(process: LaunchedProcess) -> dict[str, Any]:
    deadline = time.monotonic() + START_SECONDS
    while not (output := process.read_output()[0]).endswith("\n"):
        assert process.poll() is None, f"mailsim exited before it was ready: {process.read_output()[1]}"
        assert time.monotonic() < deadline, "mailsim did not become ready"
        time.sleep(0.005)
    return json.loads(output)


@contextlib.contextmanager
def running(*options: str, checked: bool = True, launcher: Launcher | None = None) -> Generator[Simulation]:
    """Run mailsim for the block; it must exit cleanly and log only calls of endpoints it does not simulate.

    At the end, its responses are validated against the providers' API descriptions. `checked` False skips
    this, for loads that would fill the log. Simulators of one launcher have the same hash seed.
    """
    process = (launcher or _shared_launcher()).start(options, Path.cwd(), environment())
    try:
        ready = _wait_until_ready(process)
        with httpx2.Client(base_url=ready["control"] + "/", trust_env=False, timeout=60) as control:
            simulation = Simulation(process, ready, control)
            if checked:
                conformance.record(control)
            yield simulation
            if checked and process.poll() is None:
                conformance.check(control)
        process.signal(signal.SIGTERM)
        assert process.wait(300) == 0  # it frees thousands of mailboxes after a soak
        lines = process.read_output()[1].splitlines()
        unexpected = [line for line in lines if "mailsim does not simulate" not in line]
        assert not unexpected, "\n".join(unexpected)
    finally:
        process.signal(signal.SIGKILL)
        process.close()
