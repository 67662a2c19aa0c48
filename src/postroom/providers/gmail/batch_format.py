"""The envelope of Gmail's batch calls: many paths in, an answer for each out. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from postroom.providers.transport import HttpAnswer

BOUNDARY: Final = "postroom_batch"
CONTENT_TYPE: Final = f'multipart/mixed; boundary="{BOUNDARY}"'
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]+)"|([^\s;]+))""", re.IGNORECASE)
_PLACE = re.compile(rb"^content-id:\s*<?response-(\d+)", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})")


def encode_batch(paths: Sequence[str]) -> bytes:
    """Inner addresses are paths only; lines end in CRLF."""
    parts = [
        f"--{BOUNDARY}\r\nContent-Type: application/http\r\nContent-ID: <{place}>\r\n\r\n"
        f"GET {path} HTTP/1.1\r\n\r\n"
        for place, path in enumerate(paths)
    ]
    return "".join([*parts, f"--{BOUNDARY}--\r\n"]).encode()


def decode_batch(answer: HttpAnswer) -> Mapping[int, HttpAnswer]:
    """The answers by the places of their paths. What is missing or cut off has none."""
    found = _BOUNDARY.search(answer.headers.get("content-type", ""))
    if found is None:
        return {}
    parts: dict[int, HttpAnswer] = {}
    dated = {name: value for name, value in answer.headers.items() if name == "date"}
    for begin, end in _part_spans(answer.body, b"--" + (found[1] or found[2]).encode()):
        lines = _after_empty_line(answer.body, begin, end)
        content = _after_empty_line(answer.body, lines, end)
        place = _PLACE.search(answer.body, begin, lines)
        status = _STATUS.match(answer.body, lines, content)
        if place and status:
            # Only a refusal's lines say something.
            told = {} if status[1] == b"200" else dated | _parse_headers(answer.body[lines:content].rstrip())
            parts[int(place[1])] = HttpAnswer(int(status[1]), told, answer.body[content:end])
    return parts


def _part_spans(body: bytes, boundary: bytes) -> Iterator[tuple[int, int]]:
    """Where they begin and end, between two boundaries each: what is large is copied once, by its reader."""
    begin = body.find(boundary)
    while begin != -1 and (end := body.find(boundary, begin + len(boundary))) != -1:
        yield begin + len(boundary), end
        begin = end


def _after_empty_line(body: bytes, begin: int, end: int) -> int:
    found = body.find(b"\r\n\r\n", begin, end)
    return end if found == -1 else found + 4


def _parse_headers(lines: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines.decode("latin-1").split("\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in pairs}
