"""A webhook as Microsoft wants it: echoes validation tokens, keeps notifications, answers as it is told."""

import json
import queue
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

WAIT_SECONDS = 20


@dataclass(frozen=True)
class Delivery:
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def value(self) -> list[dict[str, Any]]:
        return self.json["value"]


@dataclass
class Webhook:
    """`answers`: statuses to give to notifications, in this order; after the last one, 202.

    `echo` makes the body of a handshake's answer, `handshake` its status and type; `seconds`: how long every
    answer takes.
    """

    url: str = ""
    handshakes: list[str] = field(default_factory=list)
    deliveries: "queue.Queue[Delivery]" = field(default_factory=queue.Queue)
    answers: "queue.Queue[int]" = field(default_factory=queue.Queue)
    handshake: tuple[int, str] = (200, "text/plain")
    encoded: bool = False
    seconds: float = 0.0

    def next(self) -> Delivery:
        return self.deliveries.get(timeout=WAIT_SECONDS)

    def waiting(self) -> list[Delivery]:
        """What has come so far. Call after the simulator has settled."""
        found: list[Delivery] = []
        while not self.deliveries.empty():
            found.append(self.deliveries.get())
        return found

    def items(self) -> list[dict[str, Any]]:
        return [item for delivery in self.waiting() for item in delivery.value]

    def answer(self, *statuses: int) -> None:
        for status in statuses:
            self.answers.put(status)


def _handler(webhook: Webhook) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            time.sleep(webhook.seconds)
            query = urlsplit(self.path).query
            if "validationToken" in query:
                webhook.handshakes.append(self.path)
                status, kind = webhook.handshake
                token = parse_qs(query)["validationToken"][0]
                shown = query.partition("validationToken=")[2] if webhook.encoded else token
                self._say(status, shown.encode(), kind)
                return
            names = {name.lower(): value for name, value in self.headers.items()}
            webhook.deliveries.put(Delivery(unquote(self.path), names, body))
            self._say(202 if webhook.answers.empty() else webhook.answers.get(), b"", "text/plain")

        def _say(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            """Nothing is printed."""

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away before a slow answer is what some tests are about."""


@contextmanager
def webhook() -> Generator[Webhook]:
    """A webhook on a port of its own for the block."""
    made = Webhook()
    server = _Server(("127.0.0.1", 0), _handler(made))
    made.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
