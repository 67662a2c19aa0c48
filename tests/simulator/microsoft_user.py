"""An Outlook account in the simulator and a plain HTTP client with a token for it."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx2

from simulator.driver import Simulation

IMMUTABLE = {"prefer": 'IdType="ImmutableId"'}
APPLICATION_PERMISSION = "Mail.Read"
# Any: the type checker cannot know that `**{"$top": 1}` names no headers.
Headers = Any | None


@dataclass(frozen=True)
class MicrosoftUser:
    simulation: Simulation
    address: str
    tokens: dict[str, Any]
    http: httpx2.Client

    def request(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """Send a request. `path` is relative to /v1.0/me, absolute with a slash, or a complete link."""
        if path.startswith("http"):
            return self.http.request(method, path, **more)
        return self.http.request(method, f"/v1.0{path}" if path[:1] == "/" else f"/v1.0/me/{path}", **more)

    def get(self, path: str, headers: Headers = None, **params: Any) -> Any:
        """Return the JSON of a response that must be 200."""
        return fine(self.request("GET", path, params=params or None, headers=headers), 200)

    def post(self, path: str, body: Any = None, status: int = 201, **more: Any) -> Any:
        return fine(self.request("POST", path, json=body, **more), status)

    def expect_error(self, status: int, path: str, method: str = "GET", **more: Any) -> dict[str, Any]:
        """Return the error of a response that must have this status."""
        answer = self.request(method, path, **more)
        assert answer.status_code == status, f"{answer.status_code} {answer.text}"
        return answer.json()["error"]

    def pages(self, path: str, headers: Headers = None, **params: Any) -> list[Any]:
        """Return the entries of all pages of a listing."""
        page = self.get(path, headers, **params)
        found = list(page["value"])
        while link := page.get("@odata.nextLink"):
            page = self.get(link, headers)
            found += page["value"]
        return found

    def delta(self, path: str, headers: Headers = None, **params: Any) -> tuple[list[dict[str, Any]], str]:
        """Follow a complete round from a path or a deltaLink; return its entries and the next deltaLink."""
        page = self.get(path, headers, **params)
        found = list(page["value"])
        while "@odata.deltaLink" not in page:
            page = self.get(page["@odata.nextLink"], headers)
            found += page["value"]
        return found, page["@odata.deltaLink"]


def fine(answer: httpx2.Response, status: int) -> Any:
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


@dataclass(frozen=True)
class MicrosoftUsers:
    """Creates accounts and signs them in; closes their clients."""

    closing: ExitStack

    def connect(
        self, simulation: Simulation, address: str, *scopes: str, messages: int = 0, **more: Any
    ) -> MicrosoftUser:
        """Create a mailbox and sign in its user with these permissions (default: reading)."""
        simulation.create("outlook", address, messages=messages, **more)
        return self.sign_in(simulation, address, *scopes)

    def sign_in(self, simulation: Simulation, address: str, *scopes: str, **more: Any) -> MicrosoftUser:
        order = {"address": address, **more} | ({"scopes": scopes} if scopes else {})
        tokens = simulation.post("microsoft/tokens", **order)
        headers = {"authorization": f"Bearer {tokens['access_token']}"}
        http = httpx2.Client(base_url=simulation.http, headers=headers, trust_env=False, timeout=60)
        self.closing.enter_context(http)
        return MicrosoftUser(simulation, address, tokens, http)
