"""A Gmail account in the simulator and a plain HTTP client with a token for it."""

import base64
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx2

from simulator.driver import Simulation

SCOPE = "https://www.googleapis.com/auth/gmail."
READONLY, METADATA, MODIFY = SCOPE + "readonly", SCOPE + "metadata", SCOPE + "modify"
FULL = "https://mail.google.com/"
USER = "/gmail/v1/users/me/"


@dataclass(frozen=True)
class GoogleUser:
    simulation: Simulation
    address: str
    tokens: dict[str, Any]
    http: httpx2.Client

    def request(self, method: str, path: str, *, user: str = USER, **more: Any) -> httpx2.Response:
        return self.http.request(method, user + path if path[:1] != "/" else path, **more)

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON of a response that must be 200."""
        return _check_response(self.request("GET", path, params=params), 200)

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        return _check_response(self.request("POST", path, json=body), status)

    def expect_error(self, status: int, path: str, method: str = "GET", **more: Any) -> dict[str, Any]:
        """Return the error of a response that must have this status."""
        answer = self.request(method, path, **more)
        assert answer.status_code == status, f"{answer.status_code} {answer.text}"
        return answer.json()["error"]

    def pages(self, path: str, key: str, **params: Any) -> list[Any]:
        """List the entries of all pages."""
        entries: list[Any] = []
        token: str | None = ""
        while token is not None:
            page = self.get(path, **params, **({"pageToken": token} if token else {}))
            entries += page.get(key, [])
            token = page.get("nextPageToken")
        return entries

    def raw(self, message_id: str) -> bytes:
        return decode_base64url(self.get(f"messages/{message_id}", format="raw")["raw"])

    def history_id(self) -> str:
        return self.get("profile")["historyId"]


def _check_response(answer: httpx2.Response, status: int) -> Any:
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


@dataclass(frozen=True)
class GoogleUsers:
    """Creates accounts and signs them in; closes its clients."""

    closing: ExitStack

    def connect(
        self, simulation: Simulation, address: str, *scopes: str, messages: int = 0, **more: Any
    ) -> GoogleUser:
        """Create a mailbox and a user who granted these scopes (default: read)."""
        simulation.create("gmail", address, messages=messages, **more)
        return self.sign_in(simulation, address, *scopes)

    def sign_in(self, simulation: Simulation, address: str, *scopes: str, client_id: str = "") -> GoogleUser:
        body = {"address": address, "client_id": client_id} | ({"scopes": scopes} if scopes else {})
        tokens = simulation.post("google/tokens", **body)
        headers = {"authorization": f"Bearer {tokens['access_token']}"}
        http = httpx2.Client(base_url=simulation.http, headers=headers, trust_env=False, timeout=60)
        return GoogleUser(simulation, address, tokens, self.closing.enter_context(http))


def decode_base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def make_message(subject: str = "Hello", body: str = "Good morning", **headers: str) -> bytes:
    """Make a small message with these headers."""
    lines = {"From": "Sender <sender@example.org>", "To": "person@example.com", "Subject": subject} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{head}\r\n{body}\r\n".encode()
