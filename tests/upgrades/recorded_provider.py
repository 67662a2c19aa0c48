"""A provider that repeats what it answered to an earlier version, and the proxy that records it.

A recording holds one answer per call. Calls in a batch are recorded one by one, so that a version that groups
them differently finds its answers too. What a call selects from the answer is not part of its key. Listings
that only later versions ask for are recorded at the end.
"""

import base64
import json
import re
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from mailsim.gmail import batch

_SELECTING = {"$select", "$top", "$expand", "$filter", "fields", "maxResults", "prettyPrint", "alt"}
_GMAIL_BATCH, _GRAPH_BATCH = "/batch/gmail/v1", "/v1.0/$batch"
_BOUNDARY = "batch_recorded"


@dataclass(frozen=True)
class ProviderCall:
    method: str
    target: str  # path and query
    headers: dict[str, str]
    body: bytes = b""

    @property
    def key(self) -> str:
        url = urlsplit(self.target)
        query = sorted((name, value) for name, value in parse_qsl(url.query) if name not in _SELECTING)
        return f"{self.method} {url.path}?{urlencode(query)}"

    @property
    def path(self) -> str:
        return urlsplit(self.target).path


@dataclass(frozen=True)
class ProviderAnswer:
    status: int
    content_type: str
    body: bytes


@dataclass
class Conversation:
    """Answers by call, in order, and what the mailboxes held at the end."""

    base_url: str
    answers: dict[str, list[ProviderAnswer]] = field(default_factory=lambda: defaultdict(list))
    truth: dict[str, dict[str, Any]] = field(default_factory=dict)

    def dump(self) -> str:
        answers = {
            key: [{**asdict(each), "body": base64.b64encode(each.body).decode()} for each in found]
            for key, found in self.answers.items()
        }
        return json.dumps({"base_url": self.base_url, "answers": answers, "truth": self.truth}, indent=0)

    @classmethod
    def load(cls, text: str) -> "Conversation":
        kept = json.loads(text)
        answers = {
            key: [ProviderAnswer(**{**each, "body": base64.b64decode(each["body"])}) for each in found]
            for key, found in kept["answers"].items()
        }
        return cls(kept["base_url"], answers, kept["truth"])


# Listings by the beginning of the paths of a mailbox, each on one page.
_LATER_LISTINGS = {
    r"/gmail/v1/users/[^/?]+": ("/labels", "/profile", "/messages?includeSpamTrash=true&maxResults=500"),
    r"/v1.0/users/[^/?]+": ("/messages?$orderby=receivedDateTime%20desc&$top=500",),
}

Respond = Callable[[ProviderCall], ProviderAnswer]


class RecordingProxy:
    """Forwards calls to a provider. Records the answers while `conversation` is set."""

    def __init__(self, provider_url: str) -> None:
        self.provider = urlsplit(provider_url).netloc
        self.conversation: Conversation | None = None
        self._lock = Lock()
        self._headers: dict[str, dict[str, str]] = {}  # by the beginning of the path

    def record_listings(self) -> None:
        """Ask for what later versions may ask for."""
        for path, headers in list(self._headers.items()):
            for pattern, listings in _LATER_LISTINGS.items():
                for listing in listings if re.fullmatch(pattern, path) else ():
                    self.respond(ProviderCall("GET", path + listing, headers))

    def respond(self, call: ProviderCall) -> ProviderAnswer:
        answer = self._forward(call)
        if self.conversation is not None:
            for pattern in _LATER_LISTINGS:
                if mailbox := re.match(pattern, call.path):
                    self._headers[mailbox.group()] = call.headers
            # The calls of a batch are repeated alone: they only read.
            parts = [(part, self._forward(part)) for part in split_batch(call)] or [(call, answer)]
            with self._lock:
                for part, found in parts:
                    self.conversation.answers[part.key].append(found)
        return answer

    def _forward(self, call: ProviderCall) -> ProviderAnswer:
        connection = HTTPConnection(self.provider, timeout=60)
        try:
            connection.request(call.method, call.target, call.body or None, call.headers)
            answer = connection.getresponse()
            return ProviderAnswer(answer.status, answer.headers.get("content-type", ""), answer.read())
        finally:
            connection.close()


class RecordedProvider:
    """Answers from a recording. Calls that it does not hold are kept in `unanswered`."""

    def __init__(self, conversation: Conversation) -> None:
        self.base_url = ""
        self.unanswered: set[str] = set()
        self._recorded_url = conversation.base_url.encode()
        self._answers = {key: list(found) for key, found in conversation.answers.items()}
        self._lock = Lock()

    def respond(self, call: ProviderCall) -> ProviderAnswer:
        if call.path.endswith("/token"):  # every grant is good: tokens of the recording have expired
            tokens = {"access_token": "recorded", "refresh_token": "recorded", "expires_in": 3600}
            return _json_answer(200, {**tokens, "token_type": "Bearer", "scope": "openid"})
        parts = split_batch(call)
        if parts:
            return join_batch(call, [self._find(part) for part in parts])
        return self._find(call)

    def _find(self, call: ProviderCall) -> ProviderAnswer:
        with self._lock:
            found = self._answers.get(call.key)
            if not found:
                self.unanswered.add(call.key)
                return _json_answer(503, {"error": {"code": "serviceUnavailable", "message": "not recorded"}})
            answer = found.pop(0) if len(found) > 1 else found[0]
        body = answer.body.replace(self._recorded_url, self.base_url.encode())
        return ProviderAnswer(answer.status, answer.content_type, body)


def split_batch(call: ProviderCall) -> list[ProviderCall]:
    """Return the calls of a batch; none for another call."""
    authorization = {name: value for name, value in call.headers.items() if name in {"authorization", "host"}}
    if call.path == _GMAIL_BATCH:
        boundary = batch.parse_boundary(call.headers["content-type"])
        return [
            ProviderCall(part.method, part.target, authorization | part.headers)
            for part in batch.parse_batch(call.body, boundary)
        ]
    if call.path == _GRAPH_BATCH:
        return [
            ProviderCall(
                part["method"], f"/v1.0{part['url']}", authorization | _lower_names(part.get("headers", {}))
            )
            for part in json.loads(call.body)["requests"]
        ]
    return []


def join_batch(call: ProviderCall, answers: list[ProviderAnswer]) -> ProviderAnswer:
    if call.path == _GMAIL_BATCH:
        parts = batch.parse_batch(call.body, batch.parse_boundary(call.headers["content-type"]))
        joined = batch.format_batch(
            [
                batch.BatchResponse(
                    batch.to_response_id(part.content_id), answer.status, answer.body, answer.content_type
                )
                for part, answer in zip(parts, answers, strict=True)
            ],
            _BOUNDARY,
        )
        return ProviderAnswer(200, f"multipart/mixed; boundary={_BOUNDARY}", joined)
    requests = json.loads(call.body)["requests"]
    responses = [_graph_response(part["id"], answer) for part, answer in zip(requests, answers, strict=True)]
    return _json_answer(200, {"responses": responses})


def _graph_response(id_: str, answer: ProviderAnswer) -> dict[str, Any]:
    is_json = "json" in answer.content_type
    body = json.loads(answer.body) if is_json else base64.b64encode(answer.body).decode()
    return {
        "id": id_,
        "status": answer.status,
        "headers": {"Content-Type": answer.content_type},
        "body": body,
    }


def _json_answer(status: int, content: Any) -> ProviderAnswer:
    return ProviderAnswer(status, "application/json", json.dumps(content).encode())


def _lower_names(headers: dict[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@contextmanager
def serve(respond: Respond) -> Generator[str]:
    """Answer calls on a free port; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            answer = respond(ProviderCall(self.command, self.path, _lower_names(dict(self.headers)), body))
            self.send_response(answer.status)
            self.send_header("content-type", answer.content_type)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815  # names given by the base class

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
