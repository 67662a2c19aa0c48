"""The control of the simulator that stands for both providers in a demonstration. Nothing else uses it."""

from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import parse_qs, quote, urljoin, urlsplit

import aiohttp

from postroom.errors import TransientError

ANSWER_SECONDS: Final = 30
MOST_AT_ONCE: Final = 20_000


class SimulatorControl:
    """What is ordered of it, and what it says is true."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self._client = client
        self._url = url.rstrip("/")

    async def create(self, provider: str, address: str, name: str, **order: object) -> None:
        await self._send(
            "POST", "mailboxes", {"provider": provider, "address": address, "name": name, **order}
        )

    async def deliver(self, address: str, **order: object) -> str:
        """One generated message; its id at the provider."""
        told = await self._send("POST", f"mailboxes/{quote(address)}/messages", order)
        return told["messages"][0]["id"]

    async def mark_read(self, address: str, message: str) -> None:
        await self._send("POST", f"mailboxes/{quote(address)}/messages/{quote(message)}/mark", {"read": True})

    async def push_to(self, topic: str, subscription: str, url: str) -> None:
        """Make a topic of Pub/Sub whose messages are pushed to this address."""
        await self._send("POST", "google/topics", {"name": topic})
        order = {"name": subscription, "topic": topic, "push_endpoint": url, "retry_min_seconds": 1}
        await self._send("POST", "google/subscriptions", order)

    async def mailboxes(self) -> Sequence[str]:
        return [each["address"] for each in await self._send("GET", "mailboxes")]

    async def truth(self, address: str) -> list[str]:
        """The id of every message that the mailbox holds."""
        path = f"mailboxes/{quote(address)}/truth?digests=false&limit={MOST_AT_ONCE}"
        return [each["id"] for each in (await self._send("GET", path))["messages"]]

    async def fault(self, kind: str, **order: object) -> None:
        await self._send("POST", "faults", {"kind": kind, **order})

    async def expire_cursors(self, address: str) -> None:
        await self._send("POST", f"mailboxes/{quote(address)}/expire-cursors", {})

    async def revoke(self, address: str) -> None:
        await self._send("POST", f"mailboxes/{quote(address)}/revoke", {"reason": "consent"})

    async def consent(self, url: str, address: str) -> Mapping[str, str]:
        """Agree on a provider's consent page as a person does; what it sends back: code and state."""
        try:
            async with self._client.get(url) as page:
                form = _ConsentForm()
                form.feed(await page.text())
            where = urljoin(url, form.action)
            async with self._client.post(where, data=form.agreed(address), allow_redirects=False) as answer:
                query = parse_qs(urlsplit(answer.headers.get("location", "")).query)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TransientError("the simulator's consent page does not answer") from error
        return {name: values[0] for name, values in query.items()}

    async def _send(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        timeout = aiohttp.ClientTimeout(ANSWER_SECONDS)
        try:
            async with self._client.request(
                method, f"{self._url}/{path}", json=body, timeout=timeout
            ) as answer:
                if answer.status >= 400:
                    raise TransientError(f"the simulator refused an order with status {answer.status}")
                return await answer.json() if answer.status != 204 else None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise TransientError("the simulator does not answer") from error


class _ConsentForm(HTMLParser):
    """The form of a consent page."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self._fields: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form" and not self.action:
            self.action = given.get("action", "")
        if tag == "input" and given.get("name"):
            self._fields.append((given.get("type", "text"), given["name"], given.get("value", "")))

    def agreed(self, address: str) -> list[tuple[str, str]]:
        """The form filled in: this account, and yes to everything that is asked for."""
        accounts = {name: address for kind, name, _ in self._fields if kind == "radio"}
        rest = [(name, value) for kind, name, value in self._fields if kind != "radio"]
        return [("decision", "allow"), *accounts.items(), *rest]
