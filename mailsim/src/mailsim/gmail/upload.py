"""Extracts message and metadata from an upload body: the message alone, or a multipart with both."""

import re
from collections.abc import Sequence

from mailsim import mime
from mailsim.gmail.errors import bad_request

_BOUNDARY = re.compile(r""";\s*boundary\s*=""", re.IGNORECASE)


def _is_multipart(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "multipart/related" and _BOUNDARY.search(content_type) is not None


def _split_parts(content_type: str, body: bytes) -> Sequence[mime.MimePart]:
    tree = mime.parse(b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n" + body)
    if len(tree.children) != 2:
        raise bad_request("Multipart upload needs two parts: metadata and media", "badContent")
    return tree.children


def extract_metadata(content_type: str, body: bytes) -> bytes:
    """Extract the JSON of an upload; empty if it contains only the message."""
    return _split_parts(content_type, body)[0].content if _is_multipart(content_type) else b""


def extract_message(content_type: str, body: bytes) -> bytes:
    """Extract the RFC 5322 bytes of an upload."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith("message/"):
        media = body
    elif _is_multipart(content_type):
        media = _split_parts(content_type, body)[1].content
    else:
        raise bad_request(
            f"Media type '{kind}' is not supported. Valid media types: [message/*]", "badContent"
        )
    if not media.strip():
        raise bad_request("Media upload is empty", "badContent")
    return media
