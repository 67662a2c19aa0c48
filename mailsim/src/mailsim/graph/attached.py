"""The attachments of a message, as Outlook sees them: files, items and links to files elsewhere. Pure."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mailsim import mime

Sort = Literal["file", "item", "reference"]
REFERENCE_SIZE = 1060  # of what is kept about a link
_BODY_TYPES = ("text/plain", "text/html", "text/calendar")


@dataclass(frozen=True, slots=True)
class Attached:
    """`place`: where it stands among the attachments; ids are made from it. A link has no part."""

    place: int
    sort: Sort
    name: str
    content_type: str | None
    inline: bool
    size: int
    part: mime.Part | None = None

    @property
    def content(self) -> bytes:
        return self.part.content if self.part is not None else b""

    @property
    def message(self) -> mime.Part | None:
        """The message inside an item."""
        return self.part.children[0] if self.sort == "item" and self.part and self.part.children else None


def listed(root: mime.Part, links: Sequence[str] = ()) -> list[Attached]:
    """`links`: the header lines in which generated mail names files that lie in a cloud drive."""
    parts = [(part, related) for part, related in _leaves(root, related=False) if _counts(part, root)]
    found = [_of_part(place, part, related) for place, (part, related) in enumerate(parts)]
    return [*found, *(_of_link(len(found) + place, line) for place, line in enumerate(links))]


def _of_part(place: int, part: mime.Part, related: bool) -> Attached:  # noqa: FBT001 - a fact about the part
    sort = _sort(part)
    name = part.filename or f"ATT{place + 1:05d}"
    if sort == "item":
        name = mime.decode_words(part.children[0].header("subject"))
    # Exchange counts what it stores, which is a little more than the bytes.
    size = len(part.content) + 120 + 2 * len(name) if sort != "reference" else REFERENCE_SIZE
    content_type = None if sort == "item" else part.content_type
    return Attached(place, sort, name, content_type, _inline(part, related), size, part)


def _of_link(place: int, line: str) -> Attached:
    _, facts = mime.parameters(f"link; {line}")
    digits = facts.get("size", "")
    size = int(digits) if digits.isdecimal() else REFERENCE_SIZE
    return Attached(place, "reference", facts.get("name", ""), facts.get("type"), inline=False, size=size)


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
        answer["@odata.mediaContentType"] = attached.content_type
    answer |= {
        "id": identifier,
        "lastModifiedDateTime": modified,
        "name": attached.name,
        "contentType": attached.content_type,
        "size": attached.size,
        "isInline": attached.inline,
    }
    if attached.sort == "file" and part is not None:
        location = part.header("content-location") or None
        answer |= {"contentId": part.content_id or None, "contentLocation": location}
        if content:
            answer["contentBytes"] = b64encode(part.content).decode()
    return answer
