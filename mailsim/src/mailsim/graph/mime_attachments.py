"""The attachments that Outlook sees in a MIME tree: files, items and references, with their JSON.

A reference is a link to a cloud file. Pure functions; the routes are in `attachments`.
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mailsim import mime

AttachmentType = Literal["file", "item", "reference"]
REFERENCE_SIZE = 1060  # of the stored link
_BODY_TYPES = ("text/plain", "text/html", "text/calendar")


@dataclass(frozen=True, slots=True)
class OutlookAttachment:
    """One attachment. Ids are derived from its `position` among them. A reference has no part."""

    position: int
    type: AttachmentType
    name: str
    content_type: str | None
    inline: bool
    size: int
    part: mime.MimePart | None = None

    @property
    def content(self) -> bytes:
        return self.part.content if self.part is not None else b""

    @property
    def message(self) -> mime.MimePart | None:
        """Return the message inside an item."""
        return self.part.children[0] if self.type == "item" and self.part and self.part.children else None


def list_attachments(root: mime.MimePart, links: Sequence[str] = ()) -> list[OutlookAttachment]:
    """Return a message's attachments. `links` are headers in which generated mail names cloud files."""
    parts = [(part, related) for part, related in _leaves(root, related=False) if _is_attachment(part, root)]
    # Links never change, so they take the first positions: files come and go without changing their IDs.
    return [
        *(_from_part(len(links), index, *pair) for index, pair in enumerate(parts)),
        *(_from_link(position, line) for position, line in enumerate(links)),
    ]


def _from_part(links: int, index: int, part: mime.MimePart, related: bool) -> OutlookAttachment:  # noqa: FBT001 - a fact about the part
    position, type_ = links + index, _attachment_type(part)
    name = part.filename or f"ATT{index + 1:05d}"
    if type_ == "item":
        name = mime.decode_words(part.children[0].header("subject"))
    # Exchange reports the stored size, which is slightly larger than the content.
    size = len(part.content) + 120 + 2 * len(name) if type_ != "reference" else REFERENCE_SIZE
    content_type = None if type_ == "item" else part.content_type
    return OutlookAttachment(position, type_, name, content_type, _is_inline(part, related), size, part)


def _from_link(position: int, line: str) -> OutlookAttachment:
    _, facts = mime.parse_parameters(f"link; {line}")
    digits = facts.get("size", "")
    size = int(digits) if digits.isdecimal() else REFERENCE_SIZE
    return OutlookAttachment(
        position, "reference", facts.get("name", ""), facts.get("type"), inline=False, size=size
    )


def _leaves(part: mime.MimePart, *, related: bool) -> Iterator[tuple[mime.MimePart, bool]]:
    """Iterate over leaf parts and whether they are in a multipart/related, without attached messages."""
    if part.content_type.startswith("multipart/") and part.children:
        within = related or part.content_type == "multipart/related"
        for child in part.children:
            yield from _leaves(child, related=within)
    else:
        yield part, related


def _is_attachment(part: mime.MimePart, root: mime.MimePart) -> bool:
    """Return False for bodies and for the calendar part of a meeting request."""
    if part.content_type == "message/external-body":
        return True
    if part.content_type in _BODY_TYPES and part.disposition != "attachment":
        return bool(part.filename) and part is not root and part.content_type != "text/calendar"
    return part.is_attachment


def _attachment_type(part: mime.MimePart) -> AttachmentType:
    if part.content_type == "message/external-body":
        return "reference"
    return "item" if part.content_type == "message/rfc822" and part.children else "file"


def _is_inline(part: mime.MimePart, related: bool) -> bool:  # noqa: FBT001 - two facts about one part
    """Return whether the body embeds it: it has a Content-ID and is not marked as an attachment."""
    return (
        bool(part.content_id)
        and part.disposition != "attachment"
        and (related or part.disposition == "inline")
    )


def to_json(
    attachment: OutlookAttachment, identifier: str, modified: str, *, content: bool
) -> dict[str, Any]:
    """Return the JSON of an attachment; `content` adds a file's bytes."""
    part = attachment.part
    response: dict[str, Any] = {"@odata.type": f"#microsoft.graph.{attachment.type}Attachment"}
    if attachment.type == "file":
        response["@odata.mediaContentType"] = attachment.content_type
    response |= {
        "id": identifier,
        "lastModifiedDateTime": modified,
        "name": attachment.name,
        "contentType": attachment.content_type,
        "size": attachment.size,
        "isInline": attachment.inline,
    }
    if attachment.type == "file" and part is not None:
        location = part.header("content-location") or None
        response |= {"contentId": part.content_id or None, "contentLocation": location}
        if content:
            response["contentBytes"] = b64encode(part.content).decode()
    return response
