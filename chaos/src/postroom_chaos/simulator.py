"""The simulator as a program, and the client of its control API."""

import asyncio
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from postroom_chaos.launcher import die_with_parent
from postroom_chaos.processes import clean_environment, python_program, read_start_ticks

PROJECT: Final = "mailsim"
TOPIC: Final = f"projects/{PROJECT}/topics/gmail"
SUBSCRIPTION: Final = f"projects/{PROJECT}/subscriptions/postroom"
_ENDPOINTS: Final = ("google_accounts", "google_token", "google_certs", "gmail", "microsoft_login", "graph")


class ControlRefused(Exception):
    """The simulator rejected a request of the control API, such as one about a deleted message."""


@dataclass(frozen=True)
class SimulatorProcess:
    process: "subprocess.Popen[bytes]"
    ready: Mapping[str, Any]

    started_ticks: int

    @property
    def url(self) -> str:
        return self.ready["http"]

    @property
    def client_secrets(self) -> list[str]:
        return [client["client_secret"] for client in self.ready["clients"].values()]

    def settings(self, pubsub_token: str) -> dict[str, str]:
        """The settings that make the simulator both providers."""
        google, microsoft = self.ready["clients"]["gmail"], self.ready["clients"]["outlook"]
        return {
            "google_client_id": google["client_id"],
            "google_client_secret": google["client_secret"],
            "pubsub_topic": TOPIC,
            "pubsub_subscription": SUBSCRIPTION,
            "pubsub_token": pubsub_token,
            "microsoft_client_id": microsoft["client_id"],
            "microsoft_client_secret": microsoft["client_secret"],
            "gmail_quota": "old",
        } | {f"{endpoint}_url": self.url for endpoint in _ENDPOINTS}

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


async def start_simulator(seed: int, log: Path) -> SimulatorProcess:
    command = python_program("mailsim", "--http", "127.0.0.1:0", "--seed", str(seed), "--quota", "old")
    with log.open("ab") as errors:
        process = subprocess.Popen(  # noqa: ASYNC220, S603  # the simulator; starting it does not block
            command,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # one system call
        )
    assert process.stdout is not None
    line = await asyncio.to_thread(process.stdout.readline)  # empty if it ended
    if not line:
        raise ControlRefused(f"the simulator did not start; see {log}")
    return SimulatorProcess(process, json.loads(line), read_start_ticks(process.pid))


class SimulatorControl:
    """The control API below /_sim/."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url}/_sim"

    async def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        async with self._session.request(
            method, f"{self._url}/{path}", json=body, params=query or None
        ) as response:
            return await _read_response(method, path, response)

    async def send_mail(self, method: str, path: str, content: bytes) -> Any:
        headers = {"content-type": "message/rfc822"}
        async with self._session.request(
            method, f"{self._url}/{path}", data=content, headers=headers
        ) as response:
            return await _read_response(method, path, response)

    async def create_mailbox(
        self, provider: str, address: str, *, messages: int, days: float, kinds: Sequence[str]
    ) -> None:
        body = {"provider": provider, "address": address, "messages": messages, "days": days, "kinds": kinds}
        await self.call("POST", "mailboxes", body)

    async def push_to(self, url: str) -> None:
        """Create the Pub/Sub topic whose messages are pushed to this URL."""
        await self.call("POST", "google/topics", {"name": TOPIC})
        body = {"name": SUBSCRIPTION, "topic": TOPIC, "push_endpoint": url, "retry_min_seconds": 1}
        await self.call("POST", "google/subscriptions", body | {"retry_max_seconds": 600, "ack_seconds": 10})

    async def deliver(self, address: str, **spec: Any) -> str:
        """Deliver one generated message and return its id at the provider."""
        response = await self.call("POST", f"mailboxes/{quote(address)}/messages", spec)
        return response["messages"][0]["id"]

    async def act(self, address: str, message: int | str, action: str, **body: Any) -> None:
        await self.call("POST", f"mailboxes/{quote(address)}/messages/{quote(str(message))}/{action}", body)

    async def numbers(self, address: str) -> list[int]:
        """The numbers of all messages in a mailbox."""
        found: list[int] = []
        start: int | None = 0
        while start is not None:
            page = await self.call(
                "GET", f"mailboxes/{quote(address)}/truth", start=start, digests="false", limit=1000
            )
            found += [message["number"] for message in page["messages"]]
            start = page["next"]
        return found

    async def truth(self, address: str) -> list[dict[str, Any]]:
        page = await self.call("GET", f"mailboxes/{quote(address)}/truth", limit=10_000)
        return page["messages"]

    async def fault(self, kind: str, **details: Any) -> int:
        return (await self.call("POST", "faults", {"kind": kind, **details}))["number"]

    async def now(self) -> datetime:
        return datetime.fromisoformat((await self.call("GET", "clock"))["now"])

    async def move_clock(self, seconds: float) -> None:
        await self.call("POST", "clock", {"seconds": seconds})

    async def pushes(self, address: str, after: int = 0) -> list[dict[str, Any]]:
        return await self.call("GET", "pushes", mailbox=address, after=after, limit=1000)


async def _read_response(method: str, path: str, response: aiohttp.ClientResponse) -> Any:
    if response.status >= 400:
        raise ControlRefused(f"{method} {path}: {response.status} {(await response.text())[:300]}")
    return await response.json() if response.status != 204 and response.content_length != 0 else None
