"""Extracts the message from an upload body, which is the message itself or a multipart with metadata.

The metadata is ignored.
"""

import re

from mailsim import mime
from mailsim.gmail.errors import bad_request

_BOUNDARY = re.compile(r""";\s*boundary\s*=""", re.IGNORECASE)


def extract_message(content_type: str, body: bytes) -> bytes:
    """Extract the RFC 5322 bytes of an upload."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith("message/"):
        media = body
    elif kind == "multipart/related" and _BOUNDARY.search(content_type):
        tree = mime.parse(b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n" + body)
        if len(tree.children) != 2:
            raise bad_request("Multipart upload needs two parts: metadata and media", "badContent")
        media = tree.children[1].content
    else:
        raise bad_request(
            f"Media type '{kind}' is not supported. Valid media types: [message/*]", "badContent"
        )
    if not media.strip():
        raise bad_request("Media upload is empty", "badContent")
    return media
