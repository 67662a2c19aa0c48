"""The multipart format of Gmail's batch requests: encode many paths, decode the responses. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from postroom.providers.transport import HttpResponse

BOUNDARY: Final = "postroom_batch"
CONTENT_TYPE: Final = f'multipart/mixed; boundary="{BOUNDARY}"'
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]+)"|([^\s;]+))""", re.IGNORECASE)
_PLACE = re.compile(rb"^content-id:\s*<?response-(\d+)", re.IGNORECASE | re.MULTILINE)
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})")


def encode_batch(paths: Sequence[str]) -> bytes:
    """The body of a batch request. Inner URLs are paths only; lines end in CRLF."""
    parts = [
        f"--{BOUNDARY}\r\nContent-Type: application/http\r\nContent-ID: <{index}>\r\n\r\n"
        f"GET {path} HTTP/1.1\r\n\r\n"
        for index, path in enumerate(paths)
    ]
    return "".join([*parts, f"--{BOUNDARY}--\r\n"]).encode()


def decode_batch(response: HttpResponse) -> Mapping[int, HttpResponse]:
    """The responses by the index of their path; parts that are missing or cut off are left out."""
    boundary = _BOUNDARY.search(response.headers.get("content-type", ""))
    if boundary is None:
        return {}
    parts: dict[int, HttpResponse] = {}
    date_header = {name: value for name, value in response.headers.items() if name == "date"}
    for begin, end in _part_spans(response.body, b"--" + (boundary[1] or boundary[2]).encode()):
        lines = _after_empty_line(response.body, begin, end)
        content = _after_empty_line(response.body, lines, end)
        index = _PLACE.search(response.body, begin, lines)
        status = _STATUS.match(response.body, lines, content)
        if index and status:
            # Headers matter only for errors.
            headers = (
                {}
                if status[1] == b"200"
                else date_header | _parse_headers(response.body[lines:content].rstrip())
            )
            parts[int(index[1])] = HttpResponse(int(status[1]), headers, response.body[content:end])
    return parts


def _part_spans(body: bytes, boundary: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each part between two boundaries. Spans, so that large parts are copied only once."""
    begin = body.find(boundary)
    while begin != -1 and (end := body.find(boundary, begin + len(boundary))) != -1:
        yield begin + len(boundary), end
        begin = end


def _after_empty_line(body: bytes, begin: int, end: int) -> int:
    position = body.find(b"\r\n\r\n", begin, end)
    return end if position == -1 else position + 4


def _parse_headers(lines: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines.decode("latin-1").split("\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in pairs}
