"""Parsed messages as Gmail API JSON: payload, headers, snippet. Pure functions: no mailbox, no clock.

Bodies are base64url, padded unless the option `padding` says otherwise. `gmail_mailbox` adds IDs, labels and
dates.
"""

import html
import re
from binascii import b2a_base64
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from mailsim import mime

AttachmentIdMaker = Callable[[int], str]  # makes an attachment ID for the part at this position of the walk
SNIPPET_LENGTH = 200
_TEXT_PREFIX, _HTML_PREFIX = 1000, 4000  # characters of a body that the snippet is made from
_TAGS = re.compile(
    r"(?is)<(?:style|script|head|title)\b.*?(?:</(?:style|script|head|title)\s*>|\Z)|<!--.*?-->|<[^>]*>?"
)


def encode_base64url(data: bytes, *, padded: bool) -> msgspec.Raw:
    """Encode as a raw JSON string; base64url needs no escaping."""
    encoded = b2a_base64(data, newline=False).replace(b"+", b"-").replace(b"/", b"_")
    return msgspec.Raw(b'"%b"' % (encoded if padded else encoded.rstrip(b"=")))


def make_snippet(root: mime.MimePart) -> str:
    """Make the snippet: the first words, HTML-escaped even if the body is plain text."""
    part = _find_readable_part(root)
    if part is None:
        return ""
    if part.content_type == "text/html":
        text = part.text
        start = max(text.find("<body"), 0)
        text = html.unescape(_TAGS.sub(" ", text[start : start + _HTML_PREFIX]))
    else:
        text = part.get_beginning(_TEXT_PREFIX)
    words = " ".join(text[: SNIPPET_LENGTH + 100].split())
    if len(words) <= SNIPPET_LENGTH:
        words = " ".join(text[:_TEXT_PREFIX].split())
    if len(words) > SNIPPET_LENGTH:
        words = words[:SNIPPET_LENGTH].rpartition(" ")[0] or words[:SNIPPET_LENGTH]
    return html.escape(words, quote=True).replace("&#x27;", "&#39;")


def _find_readable_part(root: mime.MimePart) -> mime.MimePart | None:
    """Find the plain text body or else the HTML body, never an attachment."""
    html_part: mime.MimePart | None = None
    queue = [root]
    while queue:
        part = queue.pop(0)
        if part.content_type == "message/rfc822" and part is not root:
            continue
        if part.children:
            queue[:0] = part.children
        elif not part.filename and part.disposition != "attachment":
            if part.content_type == "text/plain":
                return part
            if part.content_type == "text/html" and html_part is None:
                html_part = part
    return html_part


def to_payload(
    root: mime.MimePart, make_attachment_id: AttachmentIdMaker, *, padded: bool, inline_bytes: int
) -> dict[str, Any]:
    """Return the whole part tree, as in `format=full`."""
    position = -1

    def shape(part: mime.MimePart, part_id: str) -> dict[str, Any]:
        nonlocal position
        position += 1
        body = _to_body(part, position, make_attachment_id, padded=padded, inline_bytes=inline_bytes)
        part_json: dict[str, Any] = {
            "partId": part_id,
            "mimeType": part.content_type,
            "filename": part.filename,
        }
        if message_headers := to_headers(part):
            part_json["headers"] = message_headers
        part_json["body"] = body
        if part.children:
            prefix = f"{part_id}." if part_id else ""
            part_json["parts"] = [shape(child, f"{prefix}{i}") for i, child in enumerate(part.children)]
        return part_json

    return shape(root, "")


def _to_body(
    part: mime.MimePart,
    position: int,
    make_attachment_id: AttachmentIdMaker,
    *,
    padded: bool,
    inline_bytes: int,
) -> dict[str, Any]:
    if part.children and part.content_type.startswith("multipart/"):
        return {"size": 0}
    content = part.content
    if not content:
        return {"size": 0}
    if part.is_attachment or len(content) > inline_bytes:
        return {"attachmentId": make_attachment_id(position), "size": len(content)}
    return {"size": len(content), "data": encode_base64url(content, padded=padded)}


def to_headers(part: mime.MimePart, header_names: Collection[str] = ()) -> list[dict[str, str]]:
    """List the headers: names as sent, duplicates included, encoded words decoded."""
    return [
        {"name": name, "value": mime.decode_words(value) if "=?" in value else value}
        for name, value in part.headers
        if not header_names or name.lower() in header_names
    ]


def to_metadata(root: mime.MimePart, header_names: Collection[str]) -> dict[str, Any]:
    part_json: dict[str, Any] = {"mimeType": root.content_type}
    header_list = to_headers(root, header_names)
    if header_list:
        part_json["headers"] = header_list
    return part_json


def find_part(root: mime.MimePart, position: int) -> mime.MimePart | None:
    """Find the part at a position of the walk, which attachment IDs encode."""
    for index, (_, part) in enumerate(root.walk()):
        if index == position:
            return part
    return None
