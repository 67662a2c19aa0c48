"""A mailsim process for tests: starts it, and calls its control API with blocking methods.

It needs no test framework. The pytest plugin provides it as a fixture.
"""

import http.client
import selectors
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from mailsim.control.schemas import (
    ClockReading,
    FaultInfo,
    MailboxInfo,
    MessageRef,
    MessageRefs,
    MessageTruth,
    NewMailbox,
    NewMessages,
    TruthPage,
)
from mailsim.errors import SimulatorError
from mailsim.faults import Fault, FaultKind
from mailsim.message_state import ProviderName
from mailsim.scenario import play_scenario

START_SECONDS: Final = 60
STOP_SECONDS: Final = 5
CALL_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class MailSimulator:
    """A running mailsim. `clients` holds the preregistered OAuth client of each provider.

    The URL is enough to control it; a scenario needs no more.
    """

    url: str
    https_url: str = ""
    ca: str = ""  # path of the certificate authority of `https_url`
    clients: Mapping[ProviderName, Mapping[str, str]] = field(
        default_factory=dict[ProviderName, Mapping[str, str]]
    )

    @property
    def gmail_url(self) -> str:
        return f"{self.url}/gmail/v1"

    @property
    def graph_url(self) -> str:
        return f"{self.url}/v1.0"

    def reset(self) -> None:
        """Start a new simulation: without mailboxes, tokens and faults, with the initial time and options."""
        self.control("POST", "reset")

    def save(self, path: str | Path) -> None:
        """Save the whole simulation to a file, for example for a bug report."""
        Path(path).write_bytes(self.control("GET", "state"))

    def load(self, path: str | Path) -> None:
        """Replace the simulation with a saved one: tokens, cursors and subscriptions keep working."""
        self.control("POST", "state", Path(path).read_bytes(), media="application/gzip")

    def play(self, path: str | Path) -> None:
        """Play a scenario from a file, step by step."""
        play_scenario(self, Path(path))

    def create_mailbox(self, provider: ProviderName, address: str, **fields: Any) -> MailboxInfo:
        """Create a mailbox. `fields` are those of `NewMailbox`, such as `messages=20`."""
        body = NewMailbox(provider, address, **fields)
        return msgspec.convert(self.control("POST", "mailboxes", body), MailboxInfo)

    def deliver(self, address: str, raw: bytes | None = None, **fields: Any) -> MessageRef:
        """Deliver these bytes, or generate a message from the `fields` of `NewMessages`. Return the first."""
        if raw is not None and fields:
            raise TypeError(f"a message in bytes cannot be given {', '.join(fields)}")
        body = NewMessages(**fields) if raw is None else raw
        response = self.control("POST", f"mailboxes/{quote(address)}/messages", body)
        return msgspec.convert(response, MessageRefs).messages[0]

    def messages(self, address: str) -> list[MessageTruth]:
        """List the true state of every message in a mailbox, oldest first."""
        listed: list[MessageTruth] = []
        start: int | None = 0
        while start is not None:
            response = self.control("GET", f"mailboxes/{quote(address)}/truth?start={start}")
            page = msgspec.convert(response, TruthPage)
            listed += page.messages
            start = page.next
        return listed

    def gmail_token(self, address: str, *scopes: str) -> str:
        """Issue an access token for a Gmail mailbox; without `scopes`, to read it."""
        return self._issue_token("google", address, scopes)

    def graph_token(self, address: str, *scopes: str) -> str:
        """Issue an access token for a Microsoft 365 mailbox; without `scopes`, to read it."""
        return self._issue_token("microsoft", address, scopes)

    def now(self) -> datetime:
        return _read_time(self.control("GET", "clock"))

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> datetime:
        """Move the clock forward and return the new time, once everything due until then has happened."""
        step = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return _read_time(self.control("POST", "clock", {"seconds": step.total_seconds()}))

    @contextmanager
    def fault(self, kind: FaultKind, mailbox: str = "*", **fields: Any) -> Generator[None]:
        """Inject a fault inside the block. `fields` are those of `Fault`, such as `times=3`."""
        response = self.control("POST", "faults", Fault(kind, mailbox, **fields))
        try:
            yield
        finally:
            self.control("DELETE", f"faults/{msgspec.convert(response, FaultInfo).number}")

    def throttle(self, mailbox: str = "*", **fields: Any) -> AbstractContextManager[None]:
        """Answer 429 to every request inside the block.

        The response says when to retry, after ten seconds or `retry_after`; with 0, it does not.
        """
        return self.fault("throttle", mailbox, **fields)

    def control(self, method: str, path: str, body: object = None, *, media: str = "message/rfc822") -> Any:
        """Call the control API below /_sim/, with JSON or with bytes of the type `media`.

        Return the decoded JSON, the bytes of a message, or None. An error response raises SimulatorError.
        """
        is_mail = isinstance(body, bytes)
        content = body if is_mail else b"" if body is None else msgspec.json.encode(body)
        kind = media if is_mail else "application/json"
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=CALL_SECONDS)
        try:
            connection.request(method, f"/_sim/{path}", content, {"Content-Type": kind})
            response = connection.getresponse()
            received = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            reason = received.decode(errors="replace")
            raise SimulatorError(f"mailsim refused {method} /_sim/{path}: {response.status} {reason}")
        is_json = response.headers.get_content_type() == "application/json"
        return msgspec.json.decode(received) if is_json else received or None

    def _issue_token(self, issuer: str, address: str, scopes: tuple[str, ...]) -> str:
        wanted = {"address": address} | ({"scopes": scopes} if scopes else {})
        return self.control("POST", f"{issuer}/tokens", wanted)["access_token"]


@contextmanager
def run_simulator(*options: str) -> Generator[MailSimulator]:
    """Run mailsim on free ports of loopback, with further options of the command.

    Its standard input is a pipe of this process: however this process ends, mailsim exits.
    """
    process = subprocess.Popen(  # noqa: S603 - this Python, with options of the caller
        [sys.executable, "-m", "mailsim", *options, "--supervised"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches the tests only, which stop mailsim last
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        try:
            yield _read_ready_line(process.stdout)
        finally:
            _stop(process)


def _read_ready_line(output: IO[bytes]) -> MailSimulator:
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        line = output.readline() if selector.select(START_SECONDS) else b""
    if not line:
        raise SimulatorError("mailsim did not start. Its standard error names the reason; check its options.")
    ready = msgspec.json.decode(line)
    return MailSimulator(ready["http"], ready["https"], ready["ca"], ready["clients"])


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _read_time(reading: object) -> datetime:
    return datetime.fromisoformat(msgspec.convert(reading, ClockReading).now)
