"""UploadSession: a file that a client uploads in pieces to attach it to a message."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class UploadSession:
    """An upload in progress. The token in its URL is the only authorization."""

    oid: str  # owner of the mailbox
    number: int  # of the message
    token: str
    file: Mapping[str, Any]  # the attachment without its content
    size: int
    expires: float
    content: bytes = b""
