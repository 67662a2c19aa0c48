"""A receiver of Graph notifications: echoes validation tokens, stores pushes, answers as configured."""

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
class GraphPushReceiver:
    """`answers` are the statuses of the next responses to notifications; after the last one, 202.

    `handshake` is the status and content type of the response to a handshake; with `encoded`, it echoes the
    token without decoding it. Every response takes `seconds`.
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
        """Return the deliveries so far. Call it after the simulator has settled."""
        received: list[Delivery] = []
        while not self.deliveries.empty():
            received.append(self.deliveries.get())
        return received

    def items(self) -> list[dict[str, Any]]:
        return [item for delivery in self.waiting() for item in delivery.value]

    def answer(self, *statuses: int) -> None:
        for status in statuses:
            self.answers.put(status)


def _make_handler(receiver: GraphPushReceiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            time.sleep(receiver.seconds)
            query = urlsplit(self.path).query
            if "validationToken" in query:
                receiver.handshakes.append(self.path)
                status, content_type = receiver.handshake
                token = parse_qs(query)["validationToken"][0]
                echo = query.partition("validationToken=")[2] if receiver.encoded else token
                self._respond(status, echo.encode(), content_type)
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.deliveries.put(Delivery(unquote(self.path), headers, body))
            self._respond(202 if receiver.answers.empty() else receiver.answers.get(), b"", "text/plain")

        def _respond(self, status: int, content: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect before a slow response: some tests cause them on purpose."""


@contextmanager
def receive_pushes() -> Generator[GraphPushReceiver]:
    """Run a receiver on its own port inside the block."""
    receiver = GraphPushReceiver()
    server = _Server(("127.0.0.1", 0), _make_handler(receiver))
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
