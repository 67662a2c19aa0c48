"""Edits of a draft's MIME bytes: replace the body, add a part, remove a part.

It copies the other parts byte for byte. `message_composer` writes headers and new parts.
"""

from collections.abc import Sequence
from hashlib import blake2b

from mailsim import mime
from mailsim.graph import mime_attachments


def replace_body(raw: bytes, body: bytes) -> bytes:
    """Replace the body by a part and keep the attachments."""
    root = mime.parse(raw)
    attachments = mime_attachments.list_attachments(root)
    parts = [write_part(attachment.part) for attachment in attachments if attachment.part is not None]
    if not parts:
        return _write_headers(root, content=False) + body
    kind = "related" if any(attachment.inline for attachment in attachments) else "mixed"
    return _write_headers(root, content=False) + _write_multipart(kind, [body, *parts])


def add_parts(raw: bytes, parts: Sequence[bytes]) -> bytes:
    """Add parts at the end; a message without parts becomes a multipart."""
    if not parts:
        return raw
    root = mime.parse(raw)
    is_mixed = root.content_type == "multipart/mixed" and root.children
    own = [write_part(child) for child in root.children] if is_mixed else [write_part(root)]
    return _write_headers(root, content=False) + _write_multipart("mixed", [*own, *parts])


def remove_part(root: mime.MimePart, removed: mime.MimePart) -> bytes:
    """Return the message without one of its parts."""
    if root is removed:  # the message is nothing but this file
        return _write_headers(root, content=False) + b"Content-Type: text/plain\r\n\r\n"
    return _write_headers(root, content=False) + _write_without(root, removed)


def write_part(part: mime.MimePart) -> bytes:
    """Return a part with its content headers, as it is in its message."""
    return _write_headers(part, content=True) + b"\r\n" + part.body


def _write_without(part: mime.MimePart, removed: mime.MimePart) -> bytes:
    if not part.content_type.startswith("multipart/") or not part.children:
        return write_part(part)
    kept = [_write_without(child, removed) for child in part.children if child is not removed]
    return _write_multipart(part.content_type.partition("/")[2], kept)


def _write_headers(part: mime.MimePart, *, content: bool) -> bytes:
    """Return the headers that describe the content, or all others."""
    lines = [
        f"{name}: {value}\r\n"
        for name, value in part.headers
        if name.lower() != "mime-version" and name.lower().startswith("content-") == content
    ]
    return "".join(lines).encode("utf-8", "surrogateescape")


def _write_multipart(kind: str, parts: Sequence[bytes]) -> bytes:
    boundary = blake2b(b"".join(parts), digest_size=12).hexdigest()
    line = f"--{boundary}".encode()
    head = f'MIME-Version: 1.0\r\nContent-Type: multipart/{kind}; boundary="{boundary}"\r\n\r\n'
    return head.encode() + b"".join(line + b"\r\n" + part + b"\r\n" for part in parts) + line + b"--\r\n"
