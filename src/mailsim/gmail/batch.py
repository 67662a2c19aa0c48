"""The multipart envelope of batch requests: taken apart into inner calls, and answers put together again.

Bytes only; what an inner call does is decided elsewhere. Lines end in CRLF: clients split header from
body there.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise

from mailsim.gmail.refusal import Refusal, bad_request

MAX_CALLS = 100
_BOUNDARY = re.compile(r""";\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;"]+))""", re.IGNORECASE)
_BLANK = re.compile(rb"\r?\n\r?\n")
_HEADER = re.compile(rb"([!-9;-~]+)[ \t]*:[ \t]*([^\r\n]*)$")
_REQUEST_LINE = re.compile(rb"([A-Za-z]+) +(\S+)(?: +HTTP/\d(?:\.\d)?)? *$")
_REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class InnerCall:
    content_id: str
    method: str
    target: str  # path and query as written
    headers: dict[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True, slots=True)
class InnerAnswer:
    content_id: str
    status: int
    body: bytes
    content_type: str = "application/json; charset=UTF-8"


def boundary_of(content_type: str) -> str:
    if not content_type.lower().lstrip().startswith("multipart/mixed"):
        raise unparsable("expected Content-Type multipart/mixed", 0)
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise unparsable("missing boundary", 0)
    return found[1] or found[2]


def take_apart(body: bytes, boundary: str) -> list[InnerCall]:
    """The inner calls in their order; raises Refusal for an envelope that cannot be read."""
    mark = re.compile(
        rb"(?:\A|\r?\n)--" + re.escape(boundary.encode("latin-1", "replace")) + rb"(--)?[ \t]*(?=\r?\n|\Z)"
    )
    marks = list(mark.finditer(body))
    if not marks:
        raise unparsable("0 items", len(body))
    calls: list[InnerCall] = []
    for opening, closing in pairwise(marks):
        if opening[1]:
            break
        calls.append(_inner(body[opening.end() : closing.start()], len(body)))
    if not calls:
        raise unparsable("0 items", len(body))
    if len(calls) > MAX_CALLS:
        message = f"The batch request contained {len(calls)} calls, which exceeds the maximum of {MAX_CALLS}."
        raise bad_request(message, "badRequest")
    return calls


def put_together(answers: Iterable[InnerAnswer], boundary: str) -> bytes:
    pieces: list[bytes] = []
    for answer in answers:
        reason = _REASONS.get(answer.status, "Unknown")
        content_id = f"Content-ID: {answer.content_id}\r\n" if answer.content_id else ""
        head = (
            f"--{boundary}\r\nContent-Type: application/http\r\n{content_id}\r\n"
            f"HTTP/1.1 {answer.status} {reason}\r\n"
        )
        if answer.body:
            head += (
                f"Content-Type: {answer.content_type}\r\nVary: Origin\r\nVary: X-Origin\r\nVary: Referer\r\n"
            )
        pieces.extend(
            (
                f"{head}Content-Length: {len(answer.body)}\r\n\r\n".encode("latin-1", "replace"),
                answer.body,
                b"\r\n",
            )
        )
    pieces.append(f"--{boundary}--\r\n".encode())
    return b"".join(pieces)


def answer_id(content_id: str) -> str:
    """`<abc>` is answered as `<response-abc>`."""
    return (
        f"<response-{content_id[1:]}"
        if content_id.startswith("<")
        else f"response-{content_id}"
        if content_id
        else ""
    )


def unparsable(why: str, size: int) -> Refusal:
    message = f"Failed to parse batch request, error: {why}. Received batch body: ({size}) bytes redacted"
    return bad_request(message, "badRequest")


def _inner(part: bytes, size: int) -> InnerCall:
    envelope, rest = _split(part.lstrip(b"\r\n"))
    outer = _headers(envelope.splitlines(), size)
    if not outer.get("content-type", "").lower().startswith("application/http"):
        raise unparsable("part without Content-Type application/http", size)
    head, body = _split(rest.lstrip(b"\r\n"))
    lines = head.splitlines()
    request = _REQUEST_LINE.match(lines[0]) if lines else None
    if request is None:
        raise unparsable("part without a request line", size)
    return InnerCall(
        content_id=outer.get("content-id", ""),
        method=request[1].decode().upper(),
        target=request[2].decode("latin-1"),
        headers=_headers(lines[1:], size),
        body=body,
    )


def _split(data: bytes) -> tuple[bytes, bytes]:
    blank = _BLANK.search(data)
    return (data, b"") if blank is None else (data[: blank.start()], data[blank.end() :])


def _headers(lines: Sequence[bytes], size: int) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.match(line)
        if found is None:
            raise unparsable("malformed header", size)
        headers[found[1].decode("latin-1").lower()] = found[2].decode("latin-1").rstrip()
    return headers
