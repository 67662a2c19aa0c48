"""The client of the simulator's control API, for demonstrations only.

It also accepts consent pages like a person. Mail is read by the same adapters as at the real providers.
"""

from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import parse_qs, quote, urljoin, urlsplit

import aiohttp

from postroom.errors import TransientError

TIMEOUT_SECONDS: Final = 30
MAX_LISTED: Final = 20_000


class SimulatorControl:
    """Creates mailboxes, messages and faults at the simulator, and reads its true state."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self._client = client
        self._url = url.rstrip("/")

    async def create(self, provider: str, address: str, name: str, **order: object) -> None:
        await self._send(
            "POST", "mailboxes", {"provider": provider, "address": address, "name": name, **order}
        )

    async def deliver(self, address: str, **order: object) -> str:
        """Deliver one generated message; returns its id at the provider."""
        delivered = await self._send("POST", f"mailboxes/{quote(address)}/messages", order)
        return delivered["messages"][0]["id"]

    async def mark_read(self, address: str, message: str) -> None:
        await self._send("POST", f"mailboxes/{quote(address)}/messages/{quote(message)}/mark", {"read": True})

    async def push_to(self, topic: str, subscription: str, url: str) -> None:
        """Create a Pub/Sub topic whose messages are pushed to this URL."""
        await self._send("POST", "google/topics", {"name": topic})
        order = {"name": subscription, "topic": topic, "push_endpoint": url, "retry_min_seconds": 1}
        await self._send("POST", "google/subscriptions", order)

    async def mailboxes(self) -> Sequence[str]:
        return [mailbox["address"] for mailbox in await self._send("GET", "mailboxes")]

    async def truth(self, address: str) -> list[str]:
        """The ids of all messages in the mailbox."""
        path = f"mailboxes/{quote(address)}/truth?digests=false&limit={MAX_LISTED}"
        return [message["id"] for message in (await self._send("GET", path))["messages"]]

    async def fault(self, kind: str, **order: object) -> None:
        await self._send("POST", "faults", {"kind": kind, **order})

    async def expire_cursors(self, address: str) -> None:
        await self._send("POST", f"mailboxes/{quote(address)}/expire-cursors", {})

    async def revoke(self, address: str) -> None:
        await self._send("POST", f"mailboxes/{quote(address)}/revoke", {"reason": "consent"})

    async def consent(self, url: str, address: str) -> Mapping[str, str]:
        """Accept a provider's consent page like a person; returns code and state from the redirect."""
        try:
            async with self._client.get(url) as page:
                form = _ConsentForm()
                form.feed(await page.text())
            where = urljoin(url, form.action)
            async with self._client.post(
                where, data=form.fill_in(address), allow_redirects=False
            ) as response:
                query = parse_qs(urlsplit(response.headers.get("location", "")).query)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TransientError("the simulator's consent page does not respond") from error
        return {name: values[0] for name, values in query.items()}

    async def _send(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        timeout = aiohttp.ClientTimeout(TIMEOUT_SECONDS)
        try:
            async with self._client.request(
                method, f"{self._url}/{path}", json=body, timeout=timeout
            ) as response:
                if response.status >= 400:
                    raise TransientError(f"the simulator rejected a request with status {response.status}")
                return await response.json() if response.status != 204 else None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TransientError("the simulator does not respond") from error


class _ConsentForm(HTMLParser):
    """Collects the form fields of a consent page."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self._fields: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form" and not self.action:
            self.action = attributes.get("action", "")
        if tag == "input" and attributes.get("name"):
            self._fields.append(
                (attributes.get("type", "text"), attributes["name"], attributes.get("value", ""))
            )

    def fill_in(self, address: str) -> list[tuple[str, str]]:
        """The submitted form: this account, and all requested permissions allowed."""
        accounts = {name: address for kind, name, _ in self._fields if kind == "radio"}
        rest = [(name, value) for kind, name, value in self._fields if kind != "radio"]
        return [("decision", "allow"), *accounts.items(), *rest]
