"""Parses a whole message: head, bodies, attachments. Never raises, whatever the bytes.

Pure. It decides which parts are bodies and which are attachments; `part_tree` finds the parts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from postroom.mime import part_tree, transfer_encoding
from postroom.mime.headers import MessageHead, build_head
from postroom.mime.part_tree import MimePart, ParseFindings
from postroom.mime.text import decode_text, html_to_text, make_snippet, searchable_text, strip_unstorable

_MAX_CACHED_BYTES = 1 << 20  # larger contents are decoded at each use and not cached
# Text parts that are not a body: invitations, AMP and watch pages, headers of bounced messages.
_NO_BODY = {"text/calendar", "text/x-amp-html", "text/watch-html", "text/rfc822-headers"}

AttachmentKind = Literal["file", "item", "reference"]
_KINDS: dict[str, AttachmentKind] = {
    "message/rfc822": "item",
    "message/global": "item",
    "message/external-body": "reference",
}


@dataclass(frozen=True)
class MimeAttachment:
    """A file, an attached message (`item`), or a link to a file stored elsewhere (`reference`).

    `part` is Gmail's partId, "" if the whole message is one file. `content` decodes everything; `pieces`
    decodes a large attachment piece by piece.
    """

    part: str
    kind: AttachmentKind
    file_name: str | None
    media_type: str
    is_inline: bool  # shown in the HTML body: it has a Content-ID and is not declared as an attachment
    content_id: str | None
    _part: MimePart = field(repr=False)

    @cached_property
    def size(self) -> int:
        """Size of the content in bytes."""
        if len(self._part.raw) <= _MAX_CACHED_BYTES:
            return len(self._cached_content)
        return sum(len(piece) for piece in self.pieces())

    @property
    def content(self) -> bytes:
        if len(self._part.raw) <= _MAX_CACHED_BYTES:
            return self._cached_content
        return self._part.content

    def pieces(self) -> Iterator[bytes]:
        return transfer_encoding.decode_pieces(self._part.raw, self._part.encoding)

    @cached_property
    def _cached_content(self) -> bytes:
        return self._part.content

    @cached_property
    def attached_message(self) -> "ParsedMessage | None":
        """The message inside an item. The parts of its attachments extend this one's: "1.0.2"."""
        if self.kind != "item" or self._part.depth >= part_tree.MAX_DEPTH:
            return None
        return _parse(self.content, f"{self.part}.0" if self.part else "0", self._part.depth + 1)


@dataclass(frozen=True)
class ParsedMessage:
    """`defects` name what was malformed: header, boundary, charset, depth, parts."""

    head: MessageHead
    body_plain: str | None
    body_html: str | None
    calendar: str | None  # an invitation in a part without a file name
    snippet: str
    attachments: tuple[MimeAttachment, ...]  # without those of attached messages
    defects: tuple[str, ...]

    @property
    def has_attachments(self) -> bool:
        """Whether there are attachments other than inline images."""
        return any(not each.is_inline for each in self.attachments)

    @property
    def text(self) -> str:
        return searchable_text(self.body_plain, self.body_html)

    def walk_attachments(self) -> Iterator[MimeAttachment]:
        """All attachments, also those of attached messages, depth first."""
        for attachment in self.attachments:
            yield attachment
            if attachment.attached_message is not None:
                yield from attachment.attached_message.walk_attachments()


def parse(raw: bytes) -> ParsedMessage:
    """Parse the bytes of an RFC 5322 message, or anything else."""
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
    """All parts with content, each with the position of its innermost multipart/alternative."""
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
    """Collects the body texts of a message: within an alternative, one of each form."""

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
