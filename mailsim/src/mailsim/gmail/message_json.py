"""Messages in the shapes of the Gmail API, made from the parsed letter. Pure: no mailbox, no clock.

Bodies are base64url; whether they are padded is not dependable, so every second message goes without.
"""

import html
import re
from binascii import b2a_base64
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from mailsim import mime

Mint = Callable[[int], str]  # an attachment id for the part with this position in the walk
SNIPPET = 200
_TEXT_PREFIX, _HTML_PREFIX = 1000, 4000  # characters of a body that are looked at for its first words
_TAGS = re.compile(
    r"(?is)<(?:style|script|head|title)\b.*?(?:</(?:style|script|head|title)\s*>|\Z)|<!--.*?-->|<[^>]*>?"
)


def encode(data: bytes, *, padded: bool) -> msgspec.Raw:
    """A JSON string, ready-made: nothing in it needs an escape."""
    encoded = b2a_base64(data, newline=False).replace(b"+", b"-").replace(b"/", b"_")
    return msgspec.Raw(b'"%b"' % (encoded if padded else encoded.rstrip(b"=")))


def snippet(root: mime.MimePart) -> str:
    """The first words of the text, HTML-escaped even when they come from plain text."""
    part = _readable(root)
    if part is None:
        return ""
    if part.content_type == "text/html":
        text = part.text
        start = max(text.find("<body"), 0)
        text = html.unescape(_TAGS.sub(" ", text[start : start + _HTML_PREFIX]))
    else:
        text = part.beginning(_TEXT_PREFIX)
    words = " ".join(text[: SNIPPET + 100].split())
    if len(words) <= SNIPPET:
        words = " ".join(text[:_TEXT_PREFIX].split())
    if len(words) > SNIPPET:
        words = words[:SNIPPET].rpartition(" ")[0] or words[:SNIPPET]
    return html.escape(words, quote=True).replace("&#x27;", "&#39;")


def _readable(root: mime.MimePart) -> mime.MimePart | None:
    """The plain text if there is one, else the HTML, never what is attached."""
    found: mime.MimePart | None = None
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
            if part.content_type == "text/html" and found is None:
                found = part
    return found


def payload(root: mime.MimePart, mint: Mint, *, padded: bool, inline_bytes: int) -> dict[str, Any]:
    """The whole tree, as `format=full` gives it."""
    place = -1

    def shape(part: mime.MimePart, part_id: str) -> dict[str, Any]:
        nonlocal place
        place += 1
        body = _body(part, place, mint, padded=padded, inline_bytes=inline_bytes)
        shaped: dict[str, Any] = {
            "partId": part_id,
            "mimeType": part.content_type,
            "filename": part.filename,
        }
        if named := headers(part):
            shaped["headers"] = named
        shaped["body"] = body
        if part.children:
            prefix = f"{part_id}." if part_id else ""
            shaped["parts"] = [shape(child, f"{prefix}{i}") for i, child in enumerate(part.children)]
        return shaped

    return shape(root, "")


def _body(part: mime.MimePart, place: int, mint: Mint, *, padded: bool, inline_bytes: int) -> dict[str, Any]:
    if part.children and part.content_type.startswith("multipart/"):
        return {"size": 0}
    content = part.content
    if not content:
        return {"size": 0}
    if part.is_attachment or len(content) > inline_bytes:
        return {"attachmentId": mint(place), "size": len(content)}
    return {"size": len(content), "data": encode(content, padded=padded)}


def headers(part: mime.MimePart, only: Collection[str] = ()) -> list[dict[str, str]]:
    """Names as the sender wrote them, repetitions included, encoded words decoded."""
    return [
        {"name": name, "value": mime.decode_words(value) if "=?" in value else value}
        for name, value in part.headers
        if not only or name.lower() in only
    ]


def metadata(root: mime.MimePart, only: Collection[str]) -> dict[str, Any]:
    shaped: dict[str, Any] = {"mimeType": root.content_type}
    kept = headers(root, only)
    if kept:
        shaped["headers"] = kept
    return shaped


def part_at(root: mime.MimePart, place: int) -> mime.MimePart | None:
    """The part at a position of the walk, as attachment ids name it."""
    for position, (_, part) in enumerate(root.walk()):
        if position == place:
            return part
    return None
