"""A Gmail account in the simulation with a token for it: what a plain HTTP program would do."""

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

    def ask(self, method: str, path: str, *, user: str = USER, **more: Any) -> httpx2.Response:
        return self.http.request(method, user + path if path[:1] != "/" else path, **more)

    def get(self, path: str, **params: Any) -> Any:
        """The JSON of an answer that must be 200."""
        return _fine(self.ask("GET", path, params=params), 200)

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        return _fine(self.ask("POST", path, json=body), status)

    def refused(self, status: int, path: str, method: str = "GET", **more: Any) -> dict[str, Any]:
        """The error of an answer that must be this refusal."""
        answer = self.ask(method, path, **more)
        assert answer.status_code == status, f"{answer.status_code} {answer.text}"
        return answer.json()["error"]

    def pages(self, path: str, key: str, **params: Any) -> list[Any]:
        """The entries of every page of a listing."""
        found: list[Any] = []
        token: str | None = ""
        while token is not None:
            page = self.get(path, **params, **({"pageToken": token} if token else {}))
            found += page.get(key, [])
            token = page.get("nextPageToken")
        return found

    def raw(self, message_id: str) -> bytes:
        return decoded(self.get(f"messages/{message_id}", format="raw")["raw"])

    def history_id(self) -> str:
        return self.get("profile")["historyId"]


def _fine(answer: httpx2.Response, status: int) -> Any:
    assert answer.status_code == status, f"{answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


@dataclass(frozen=True)
class GoogleUsers:
    """Makes accounts and signs them in; closes what it opened."""

    closing: ExitStack

    def connect(
        self, simulation: Simulation, address: str, *scopes: str, messages: int = 0, **more: Any
    ) -> GoogleUser:
        """A new mailbox and a user who agreed to these scopes (default: reading)."""
        simulation.create("gmail", address, messages=messages, **more)
        return self.sign_in(simulation, address, *scopes)

    def sign_in(self, simulation: Simulation, address: str, *scopes: str, client_id: str = "") -> GoogleUser:
        order = {"address": address, "client_id": client_id} | ({"scopes": scopes} if scopes else {})
        tokens = simulation.post("google/tokens", **order)
        headers = {"authorization": f"Bearer {tokens['access_token']}"}
        http = httpx2.Client(base_url=simulation.http, headers=headers, trust_env=False, timeout=60)
        return GoogleUser(simulation, address, tokens, self.closing.enter_context(http))


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def letter(subject: str = "Hello", body: str = "Good morning", **headers: str) -> bytes:
    """A small message of these headers."""
    lines = {"From": "Sender <sender@example.org>", "To": "person@example.com", "Subject": subject} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{head}\r\n{body}\r\n".encode()
