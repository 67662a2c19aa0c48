"""The envelope of Gmail's batch calls: many paths in, an answer for each out. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from postroom.providers.transport import Answer

BOUNDARY: Final = "postroom_batch"
CONTENT_TYPE: Final = f'multipart/mixed; boundary="{BOUNDARY}"'
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]+)"|([^\s;]+))""", re.IGNORECASE)
_PLACE = re.compile(rb"^content-id:\s*<?response-(\d+)", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})")


def envelope(paths: Sequence[str]) -> bytes:
    """Inner addresses are paths only; lines end in CRLF."""
    parts = [
        f"--{BOUNDARY}\r\nContent-Type: application/http\r\nContent-ID: <{place}>\r\n\r\n"
        f"GET {path} HTTP/1.1\r\n\r\n"
        for place, path in enumerate(paths)
    ]
    return "".join([*parts, f"--{BOUNDARY}--\r\n"]).encode()


def opened(answer: Answer) -> Mapping[int, Answer]:
    """The answers by the places of their paths. What is missing or cut off has none."""
    found = _BOUNDARY.search(answer.headers.get("content-type", ""))
    if found is None:
        return {}
    parts: dict[int, Answer] = {}
    dated = {name: value for name, value in answer.headers.items() if name == "date"}
    # The piece before the first boundary is empty, the one after the last is the end.
    for piece in answer.body.split(b"--" + (found[1] or found[2]).encode())[1:-1]:
        envelope_lines, _, inner = piece.partition(b"\r\n\r\n")
        lines, _, body = inner.partition(b"\r\n\r\n")
        place, status = _PLACE.search(envelope_lines), _STATUS.match(lines)
        if place and status:
            told = {} if status[1] == b"200" else dated | _headers(lines)  # only a refusal's say something
            parts[int(place[1])] = Answer(int(status[1]), told, body)
    return parts


def _headers(lines: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines.decode("latin-1").split("\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in pairs}
