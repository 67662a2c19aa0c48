"""What a message says, read with Python's own parser from its true bytes."""

import email
import email.policy
import hashlib
from email.message import Message


def read_texts(raw: bytes) -> list[str]:
    """Return the decoded content of each part with text."""
    parsed = email.message_from_bytes(raw, policy=email.policy.compat32)
    return [_decode(part) for part in parsed.walk() if part.get_content_maintype() == "text"]


def _decode(part: Message) -> str:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode(part.get_content_charset() or "utf-8", errors="replace")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
