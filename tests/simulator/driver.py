"""Starts mailsim as people do, as a process of its own, and speaks to its control."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx2

from simulator import conformance

START_SECONDS = 30
SOURCES = Path(__file__).parents[2] / "mailsim/src"


@dataclass(frozen=True)
class Simulation:
    """A running mailsim. `ready` is its ready line; `control` answers relative to /_sim/."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]
    control: httpx2.Client
    errors: Path

    @property
    def http(self) -> str:
        return self.ready["http"]

    @property
    def https(self) -> str:
        return self.ready["https"]

    @property
    def ca(self) -> str:
        return self.ready["ca"]

    def get(self, path: str, **query: Any) -> Any:
        return _checked(self.control.get(path, params=query))

    def post(self, path: str, **body: Any) -> Any:
        return _checked(self.control.post(path, json=body))

    def delete(self, path: str) -> None:
        _checked(self.control.delete(path))

    def create(self, provider: str, address: str, messages: int = 0, **more: Any) -> dict[str, Any]:
        return self.post("mailboxes", provider=provider, address=address, messages=messages, **more)

    def deliver(self, address: str, raw: bytes | None = None, **order: Any) -> dict[str, Any]:
        """One message: these bytes, or an order for generated mail. Returns its number, id and thread."""
        path = f"mailboxes/{address}/messages"
        if raw is None:
            return self.post(path, **order)["messages"][0]
        answer = self.control.post(
            path, params=order, content=raw, headers={"content-type": "message/rfc822"}
        )
        return _checked(answer)["messages"][0]

    def act(self, address: str, message: object, action: str, **body: Any) -> Any:
        """move, mark, label, trash, send: see the control's document."""
        return self.post(f"mailboxes/{address}/messages/{message}/{action}", **body)

    def truth(self, address: str, **query: Any) -> list[dict[str, Any]]:
        """Every message, oldest first, over all pages."""
        found: list[dict[str, Any]] = []
        start: int | None = 0
        while start is not None:
            page = self.get(f"mailboxes/{address}/truth", start=start, **query)
            found += page["messages"]
            start = page["next"]
        return found

    def fault(self, kind: str, **details: Any) -> dict[str, Any]:
        return _checked(self.control.post("faults", json={"kind": kind, **details}))

    def move_clock(self, seconds: float) -> str:
        return self.post("clock", seconds=seconds)["now"]

    def meter(self, address: str) -> dict[str, Any]:
        return next(meter for meter in self.get("meters") if meter["mailbox"] == address)


def _checked(answer: httpx2.Response) -> Any:
    assert answer.is_success, (
        f"{answer.request.method} {answer.request.url} -> {answer.status_code} {answer.text}"
    )
    return answer.json() if answer.content else None


def ready_line(stdout: IO[str]) -> dict[str, Any]:
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        assert selector.select(START_SECONDS), "mailsim did not get ready"
    line = stdout.readline()
    assert line, "mailsim ended before it was ready"
    return json.loads(line)


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "mailsim", *options]


def environment() -> dict[str, str]:
    """Ours, with the sources beside these tests first on the path. Its lines are not counted: too slow."""
    path = os.pathsep.join(filter(None, (str(SOURCES), os.environ.get("PYTHONPATH"))))
    ours = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    return {**ours, "PYTHONPATH": path, "TZ": "UTC"}


@contextlib.contextmanager
def running(*options: str, checked: bool = True) -> Generator[Simulation]:
    """A mailsim for the block. At its end its answers are held against the providers' descriptions (`checked`
    false: not, for loads that would fill the log), and it must end cleanly, having complained about nothing.
    """
    with tempfile.TemporaryDirectory() as directory:
        errors = Path(directory, "stderr")
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                command(*options),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=environment(),
            )
        assert process.stdout is not None
        try:
            ready = ready_line(process.stdout)
            with httpx2.Client(base_url=ready["control"] + "/", trust_env=False, timeout=60) as control:
                simulation = Simulation(process, ready, control, errors)
                if checked:
                    conformance.record(control)
                yield simulation
                if checked and process.poll() is None:
                    conformance.check(control)
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert not (complaints := errors.read_text()), complaints
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
