"""The multipart envelope of batch requests: parse the calls, format the responses.

It does not run the calls. Lines end in CRLF, because clients split headers and body there.
"""

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from itertools import pairwise
from typing import NamedTuple

from mailsim.gmail.errors import GmailError, bad_request

MAX_CALLS = 100
_BOUNDARY = re.compile(r""";\s*boundary\s*=\s*(?:"([^"]+)"|([^\s;"]+))""", re.IGNORECASE)
_BLANK = re.compile(r"\r?\n\r?\n")
_LINE = re.compile(r"\r?\n|\r")
_HEADER = re.compile(r"([!-9;-~]+)[ \t]*:[ \t]*([^\r\n]*)")
_REQUEST_LINE = re.compile(r"([A-Za-z]+) +(\S+)(?: +HTTP/[0-9](?:\.[0-9])?)? *")
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class BatchCall(NamedTuple):
    content_id: str
    method: str
    target: str  # path and query as written
    headers: dict[str, str]  # names in lower case
    body: bytes


class BatchResponse(NamedTuple):
    content_id: str
    status: int
    body: bytes
    content_type: str = "application/json; charset=UTF-8"


def parse_boundary(content_type: str) -> str:
    if not content_type.lower().lstrip().startswith("multipart/mixed"):
        raise unparsable_batch("expected Content-Type multipart/mixed", 0)
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise unparsable_batch("missing boundary", 0)
    return found[1] or found[2]


def parse_batch(body: bytes, boundary: str) -> list[BatchCall]:
    """Parse the calls in order. Raise GmailError for a malformed envelope."""
    mark = re.compile(
        rb"(?:\A|\r?\n)--" + re.escape(boundary.encode("latin-1", "replace")) + rb"(--)?[ \t]*(?=\r?\n|\Z)"
    )
    marks = list(mark.finditer(body))
    if not marks:
        raise unparsable_batch("0 items", len(body))
    calls: list[BatchCall] = []
    for opening, closing in pairwise(marks):
        if opening[1]:
            break
        calls.append(_parse_call(body[opening.end() : closing.start()], len(body)))
    if not calls:
        raise unparsable_batch("0 items", len(body))
    if len(calls) > MAX_CALLS:
        message = f"The batch request contained {len(calls)} calls, which exceeds the maximum of {MAX_CALLS}."
        raise bad_request(message, "badRequest")
    return calls


def format_batch(responses: Iterable[BatchResponse], boundary: str) -> bytes:
    pieces: list[bytes] = []
    for response in responses:
        reason = _REASONS.get(response.status, "Unknown")
        content_id = f"Content-ID: {response.content_id}\r\n" if response.content_id else ""
        head = (
            f"--{boundary}\r\nContent-Type: application/http\r\n{content_id}\r\n"
            f"HTTP/1.1 {response.status} {reason}\r\n"
        )
        if response.body:
            vary = "".join(f"Vary: {name}\r\n" for name in ("Origin", "X-Origin", "Referer"))
            head += f"Content-Type: {response.content_type}\r\n{vary}"
        pieces.extend(
            (
                f"{head}Content-Length: {len(response.body)}\r\n\r\n".encode("latin-1", "replace"),
                response.body,
                b"\r\n",
            )
        )
    pieces.append(f"--{boundary}--\r\n".encode())
    return b"".join(pieces)


def to_response_id(content_id: str) -> str:
    """Turn the content ID `<abc>` of a call into `<response-abc>`."""
    return (
        f"<response-{content_id[1:]}"
        if content_id.startswith("<")
        else f"response-{content_id}"
        if content_id
        else ""
    )


def unparsable_batch(why: str, size: int) -> GmailError:
    message = f"Failed to parse batch request, error: {why}. Received batch body: ({size}) bytes redacted"
    return bad_request(message, "badRequest")


def _parse_call(part: bytes, size: int) -> BatchCall:
    text = part.decode("latin-1")  # one character per byte, so that the body can be encoded back
    envelope, rest = _split_head(text.lstrip("\r\n"))
    outer = _parse_headers(_LINE.split(envelope), size)
    if not outer.get("content-type", "").lower().startswith("application/http"):
        raise unparsable_batch("part without Content-Type application/http", size)
    head, body = _split_head(rest.lstrip("\r\n"))
    first, *lines = _LINE.split(head)
    request = _REQUEST_LINE.fullmatch(first)
    if request is None:
        raise unparsable_batch("part without a request line", size)
    return BatchCall(
        content_id=outer.get("content-id", ""),
        method=request[1].upper(),
        target=request[2],
        headers=_parse_headers(lines, size),
        body=body.encode("latin-1"),
    )


def _split_head(text: str) -> tuple[str, str]:
    blank = _BLANK.search(text)
    return (text, "") if blank is None else (text[: blank.start()], text[blank.end() :])


def _parse_headers(lines: Sequence[str], size: int) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        if not line:
            continue
        found = _HEADER.fullmatch(line)
        if found is None:
            raise unparsable_batch("malformed header", size)
        headers[found[1].lower()] = found[2].rstrip()
    return headers
