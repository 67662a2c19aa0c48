"""UploadBody: the body of an upload, split once into message and metadata."""

import re
from typing import NamedTuple

from mailsim import mime
from mailsim.gmail.errors import bad_request

_BOUNDARY = re.compile(r""";\s*boundary\s*=""", re.IGNORECASE)


class UploadBody(NamedTuple):
    """An upload: the message alone, or with its metadata in JSON."""

    media_type: str
    media: bytes
    metadata: bytes = b""

    def read_message(self) -> bytes:
        """Return the RFC 5322 bytes."""
        check_media_type(self.media_type)
        if not self.media.strip():
            raise bad_request("Media upload is empty", "badContent")
        return self.media


def split_upload(content_type: str, body: bytes) -> UploadBody:
    """Split a body that is the message alone, or a multipart/related of metadata and message."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "multipart/related" or _BOUNDARY.search(content_type) is None:
        return UploadBody(kind, body)
    head = b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n"
    parts = mime.parse(head + body, levels=1).children
    if len(parts) != 2:
        raise bad_request("Multipart upload needs two parts: metadata and media", "badContent")
    metadata, media = parts
    return UploadBody("message/rfc822", media.content, metadata.content)


def check_media_type(media_type: str) -> None:
    if not media_type.startswith("message/"):
        raise bad_request(
            f"Media type '{media_type}' is not supported. Valid media types: [message/*]", "badContent"
        )
