"""The attachments of a message, as Outlook sees them: files, items and links to files elsewhere. Pure."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from mailsim import mime

Sort = Literal["file", "item", "reference"]
_BODY_TYPES = ("text/plain", "text/html", "text/calendar")


@dataclass(frozen=True, slots=True)
class Attached:
    """`place` is where it stands among the message's attachments; ids are made from it."""

    place: int
    sort: Sort
    part: mime.Part
    inline: bool

    @property
    def name(self) -> str:
        if self.sort == "item":
            return mime.decode_words(self.part.children[0].header("subject")) if self.part.children else ""
        return self.part.filename or f"ATT{self.place + 1:05d}"

    @property
    def content_type(self) -> str | None:
        return None if self.sort == "item" else self.part.content_type

    @property
    def size(self) -> int:
        """Exchange counts what it stores, which is a little more than the bytes."""
        return len(self.part.content) + 120 + 2 * len(self.name)


def listed(root: mime.Part) -> list[Attached]:
    parts = [(part, related) for part, related in _leaves(root, related=False) if _counts(part, root)]
    return [
        Attached(place, _sort(part), part, _inline(part, related))
        for place, (part, related) in enumerate(parts)
    ]


def _leaves(part: mime.Part, *, related: bool) -> Iterator[tuple[mime.Part, bool]]:
    """Every part that holds something, and whether it is in a multipart/related; none inside a message."""
    if part.content_type.startswith("multipart/") and part.children:
        within = related or part.content_type == "multipart/related"
        for child in part.children:
            yield from _leaves(child, related=within)
    else:
        yield part, related


def _counts(part: mime.Part, root: mime.Part) -> bool:
    """Bodies are no attachments; neither is the calendar part of a meeting request."""
    if part.content_type == "message/external-body":
        return True
    if part.content_type in _BODY_TYPES and part.disposition != "attachment":
        return bool(part.filename) and part is not root and part.content_type != "text/calendar"
    return part.is_attachment


def _sort(part: mime.Part) -> Sort:
    if part.content_type == "message/external-body":
        return "reference"
    return "item" if part.content_type == "message/rfc822" and part.children else "file"


def _inline(part: mime.Part, related: bool) -> bool:  # noqa: FBT001 - two facts about one part
    """Shown inside the body: named by a Content-ID, and not expressly attached."""
    return (
        bool(part.content_id)
        and part.disposition != "attachment"
        and (related or part.disposition == "inline")
    )


def shape(attached: Attached, identifier: str, modified: str, *, content: bool) -> dict[str, Any]:
    """The JSON of one attachment; `content` adds a file's bytes."""
    part = attached.part
    answer: dict[str, Any] = {"@odata.type": f"#microsoft.graph.{attached.sort}Attachment"}
    if attached.sort == "file":
        answer["@odata.mediaContentType"] = part.content_type
    answer |= {
        "id": identifier,
        "lastModifiedDateTime": modified,
        "name": attached.name,
        "contentType": attached.content_type,
        "size": attached.size if attached.sort != "reference" else 1060,
        "isInline": attached.inline,
    }
    if attached.sort == "file":
        answer |= {
            "contentId": part.content_id or None,
            "contentLocation": part.header("content-location") or None,
        }
        if content:
            answer["contentBytes"] = b64encode(part.content).decode()
    return answer
