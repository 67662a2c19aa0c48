"""An HTTP endpoint that stores the pushes it receives and answers as configured."""

import json
import queue
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT_SECONDS = 20


@dataclass(frozen=True)
class Delivery:
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """`answers` are the statuses of the next responses; after the last one, 200."""

    url: str
    deliveries: "queue.Queue[Delivery]" = field(default_factory=queue.Queue)
    answers: "queue.Queue[int]" = field(default_factory=queue.Queue)

    def next(self) -> Delivery:
        return self.deliveries.get(timeout=WAIT_SECONDS)

    def nothing_came(self) -> bool:
        """Return whether nothing was received. Call it after the simulator has settled."""
        return self.deliveries.empty()

    def answer(self, *statuses: int) -> None:
        for status in statuses:
            self.answers.put(status)


@contextmanager
def receiving() -> Generator[Receiver]:
    """Run a receiver on its own port inside the block."""
    receiver = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            names = {name.lower(): value for name, value in self.headers.items()}
            receiver.deliveries.put(Delivery(self.path, names, body))
            status = 200 if receiver.answers.empty() else receiver.answers.get()
            self.send_response(status)
            if status not in {204, 304}:
                self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815 (the name is http.server's)

        def log_message(self, *_words: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
