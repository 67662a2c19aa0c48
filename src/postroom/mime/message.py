"""A whole message: its head, its bodies, what is attached to it. Reading never raises, whatever the bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from postroom.mime import part_tree, transfer_encoding
from postroom.mime.headers import MessageHead, build_head
from postroom.mime.part_tree import MimePart, ParseFindings
from postroom.mime.text import decode_text, html_to_text, make_snippet, searchable_text, strip_unstorable

_REMEMBERED_BYTES = 1 << 20  # larger contents are decoded at each use instead of being kept
# Text that is no body: an invitation, a mail program's own page, the headers of a message that bounced.
_NO_BODY = {"text/calendar", "text/x-amp-html", "text/watch-html", "text/rfc822-headers"}

AttachmentKind = Literal["file", "item", "reference"]
_KINDS: dict[str, AttachmentKind] = {
    "message/rfc822": "item",
    "message/global": "item",
    "message/external-body": "reference",
}


@dataclass(frozen=True)
class MimeAttachment:
    """A file, an enclosed message (`item`), or a link to a file elsewhere (`reference`).

    `part` is Gmail's partId, "" where the whole message is one file. `content` decodes all of it; `pieces`
    does so a piece at a time, for what is large.
    """

    part: str
    kind: AttachmentKind
    file_name: str | None
    media_type: str
    is_inline: bool  # shown inside the HTML body: named by a Content-ID and not expressly attached
    content_id: str | None
    _part: MimePart = field(repr=False)

    @cached_property
    def size(self) -> int:
        """Of the content, in bytes."""
        if len(self._part.raw) <= _REMEMBERED_BYTES:
            return len(self._remembered)
        return sum(len(piece) for piece in self.pieces())

    @property
    def content(self) -> bytes:
        if len(self._part.raw) <= _REMEMBERED_BYTES:
            return self._remembered
        return self._part.content

    def pieces(self) -> Iterator[bytes]:
        return transfer_encoding.decode_pieces(self._part.raw, self._part.encoding)

    @cached_property
    def _remembered(self) -> bytes:
        return self._part.content

    @cached_property
    def enclosed(self) -> "ParsedMessage | None":
        """The message inside an item. The parts of its attachments continue this one's: "1.0.2"."""
        if self.kind != "item" or self._part.depth >= part_tree.DEEPEST:
            return None
        return _parse(self.content, f"{self.part}.0" if self.part else "0", self._part.depth + 1)


@dataclass(frozen=True)
class ParsedMessage:
    """`defects` name what was found broken and read all the same: header, boundary, charset, depth, parts."""

    head: MessageHead
    body_plain: str | None
    body_html: str | None
    calendar: str | None  # an invitation that came as a part without a name
    snippet: str
    attachments: tuple[MimeAttachment, ...]  # those of enclosed messages are theirs
    defects: tuple[str, ...]

    @property
    def has_attachments(self) -> bool:
        """Inline pictures do not count."""
        return any(not each.is_inline for each in self.attachments)

    @property
    def text(self) -> str:
        return searchable_text(self.body_plain, self.body_html)

    def every_attachment(self) -> Iterator[MimeAttachment]:
        """Also those inside enclosed messages, depth first."""
        for each in self.attachments:
            yield each
            if each.enclosed is not None:
                yield from each.enclosed.every_attachment()


def parse(raw: bytes) -> ParsedMessage:
    """Bytes of an RFC 5322 message, or of anything else."""
    return _parse(raw, "", 0)


def _parse(raw: bytes, place: str, depth: int) -> ParsedMessage:
    findings = ParseFindings()
    root = part_tree.parse_parts(raw, findings, place=place, depth=depth)
    bodies = _BodyCollector(findings)
    attachments: list[MimeAttachment] = []
    for leaf, alternative in _leaves(root, None):
        if _is_attachment(leaf):
            attachments.append(_to_attachment(leaf))
        else:
            bodies.add(leaf, alternative)
    plain, html = bodies.joined("plain"), bodies.joined("html")
    readable = plain if bodies.first == "plain" and plain and plain.strip() else None
    return ParsedMessage(
        head=build_head(root.lines),
        body_plain=plain,
        body_html=html,
        calendar=bodies.joined("calendar"),
        snippet=make_snippet(readable or html_to_text(html or "", most=2000) or plain or ""),
        attachments=tuple(attachments),
        defects=tuple(findings.defects),
    )


def _leaves(part: MimePart, alternative: str | None) -> Iterator[tuple[MimePart, str | None]]:
    """Every part that holds something, with the place of the innermost alternative it belongs to."""
    if part.children:
        within = part.place if part.media_type == "multipart/alternative" else alternative
        for child in part.children:
            yield from _leaves(child, within)
    else:
        yield part, alternative


def _is_attachment(part: MimePart) -> bool:
    if part.file_name or part.disposition not in {"", "inline"} or part.media_type.startswith("message/"):
        return part.media_type != "message/delivery-status" or bool(part.file_name)
    return not part.media_type.startswith(("text/", "multipart/"))


def _to_attachment(part: MimePart) -> MimeAttachment:
    content_id = strip_unstorable(part.header("content-id")).strip().strip("<>") or None
    return MimeAttachment(
        part=part.place,
        kind=_KINDS.get(part.media_type, "file"),
        file_name=part.file_name or None,
        media_type=part.media_type,
        is_inline=bool(
            content_id
            and part.disposition in {"", "inline"}
            and (part.related or part.disposition == "inline")
        ),
        content_id=content_id,
        _part=part,
    )


class _BodyCollector:
    """Collects the texts of a message. Of the same text in several forms, one of each form counts."""

    def __init__(self, findings: ParseFindings) -> None:
        self.findings = findings
        self.first: str | None = None
        self.found: dict[str, list[str]] = {"plain": [], "html": [], "calendar": []}
        self.seen: set[tuple[str | None, str]] = set()

    def add(self, part: MimePart, alternative: str | None) -> None:
        form = _body_form(part.media_type)
        if form is None or (alternative is not None and (alternative, form) in self.seen):
            return
        self.seen.add((alternative, form))
        text, sound = decode_text(part.content, part.details.get("charset", ""))
        if not sound:
            self.findings.note("charset")
        if form != "calendar":
            self.first = self.first or form
        self.found[form].append(text)

    def joined(self, form: str) -> str | None:
        return "\n".join(self.found[form]) if self.found[form] else None


def _body_form(media_type: str) -> Literal["plain", "html", "calendar"] | None:
    if media_type in {"text/html", "application/xhtml+xml"}:
        return "html"
    if media_type == "text/calendar":
        return "calendar"
    return None if media_type in _NO_BODY else "plain"
