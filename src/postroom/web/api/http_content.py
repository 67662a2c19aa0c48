"""HTTP details of API responses: ETags, preconditions, byte ranges, safe download headers, streamed blobs.

The ETag of a mailbox covers the fields that a client can change.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from postroom.api_types import MailboxResource
from postroom.web.api.operations import ApiCall, ApiProblem, require_found

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_MEDIA_TYPE: Final = re.compile(r"[a-zA-Z0-9!#$&^_.+-]{1,60}/[a-zA-Z0-9!#$&^_.+-]{1,80}")


# Some resources change constantly without a write. `If-Match` compares only the fields that callers change.
_CHANGEABLE_FIELDS: Final[Mapping[type, Sequence[str]]] = {
    MailboxResource: ("id", "content_policy", "connected_at", "paused_at", "disconnected_at")
}


def compute_etag(shown: object, body: bytes) -> str:
    """Hash the whole body, followed by a hash of the changeable fields if the type declares them."""
    whole = sha256(body).hexdigest()[:32]
    if type(shown) not in _CHANGEABLE_FIELDS:
        return f'"{whole}"'
    part = [getattr(shown, name) for name in _CHANGEABLE_FIELDS[type(shown)]]
    return f'"{whole}.{sha256(msgspec.json.encode(part)).hexdigest()[:32]}"'


def matches_etag(given: str, etag: str) -> bool:
    """Whether an `If-None-Match` header contains the ETag, weak or strong."""
    return given.strip() == "*" or etag in _split_etags(given)


def require_if_match(request: Request, shown: object) -> None:
    """Reject a change that was made against an outdated version."""
    header = request.headers.get("if-match")
    if header is None or header.strip() == "*":
        return
    etag = compute_etag(shown, msgspec.json.encode(shown))
    if _changeable_part(etag) not in {_changeable_part(each) for each in _split_etags(header)}:
        raise ApiProblem(
            412,
            "precondition-failed",
            "The resource has changed since the version in `If-Match`. Fetch it again.",
        )


def _split_etags(given: str) -> set[str]:
    return {each.strip().removeprefix("W/") for each in given.split(",")}


def _changeable_part(etag: str) -> str:
    return etag.strip('"').rpartition(".")[2]


async def respond_with_blob(
    call: ApiCall[Any, Any, Any], digest: bytes, media_type: str, name: str
) -> Response:
    """Stream a blob: all of it, a range, or 304 if the client already has it."""
    organization = call.caller.organization
    found = require_found(await call.context.blobs.find(organization, digest), "content")
    asked = _select_range(call.request, digest, found.size, _build_headers(media_type, name))
    if isinstance(asked, Response):
        return asked
    chunks = call.context.blobs.read(organization, digest, start=asked.start, end=asked.end)
    return StreamingResponse(await _read_first_chunk(chunks), asked.status, asked.headers)


def respond_with_bytes(request: Request, body: bytes, media_type: str, name: str) -> Response:
    """Like `respond_with_blob`, for bytes in memory."""
    asked = _select_range(request, sha256(body).digest(), len(body), _build_headers(media_type, name))
    if isinstance(asked, Response):
        return asked
    return Response(body[asked.start : asked.end], asked.status, asked.headers)


@dataclass(frozen=True, slots=True)
class _ByteRange:
    """The range of bytes to send, with status and headers."""

    start: int
    end: int
    status: int
    headers: Mapping[str, str]


def _select_range(
    request: Request, digest: bytes, size: int, headers: Mapping[str, str]
) -> _ByteRange | Response:
    """Evaluate the request's preconditions and range; a complete response if no bytes are to be sent."""
    etag = f'"{digest.hex()}"'
    asked = request.headers
    if "if-none-match" in asked and matches_etag(asked["if-none-match"], etag):
        return Response(status_code=304, headers={"etag": etag})
    start, end, status = 0, size, 200
    sent = {**headers, "etag": etag, "accept-ranges": "bytes"}
    wanted = asked.get("range", "") if asked.get("if-range", etag) == etag else ""
    if part := _RANGE.fullmatch(wanted.strip()):
        start, end = _parse_span(part[1], part[2], size)
        if start >= end:
            return Response(status_code=416, headers={"content-range": f"bytes */{size}"})
        status = 206
        sent["content-range"] = f"bytes {start}-{end - 1}/{size}"
    sent["content-length"] = str(end - start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=sent)
    return _ByteRange(start, end, status, sent)


async def _read_first_chunk(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Read the first chunk before the response starts, so that a missing blob still gives an error status."""
    first = await anext(chunks, b"")

    async def all_chunks() -> AsyncGenerator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return all_chunks()


def _parse_span(first: str, last: str, size: int) -> tuple[int, int]:
    if not first:  # a suffix range: the last N bytes
        return (max(size - int(last), 0), size) if last and int(last) else (size, size)
    end = min(int(last) + 1, size) if last else size
    return int(first), end


def _build_headers(media_type: str, name: str) -> dict[str, str]:
    """Always a download: browsers must not render untrusted content under our origin."""
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", name)[:150] or "file"
    full = quote(name.encode(errors="replace")[:600], safe="")
    return {
        "content-type": media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream",
        "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{full}",
    }
