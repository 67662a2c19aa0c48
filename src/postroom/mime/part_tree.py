"""Parses the tree of a message's MIME parts. Bodies stay undecoded slices of the message.

Hostile mail is normal: depth, number of parts and size of heads are limited. Parts beyond the limit become
one opaque part; header lines beyond it are only in the stored message. Each level reads every byte once.
`message` interprets the parts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from postroom.mime import transfer_encoding
from postroom.mime.encoded_words import parse_parameters
from postroom.mime.headers import parse_header_lines

MAX_DEPTH = 40
MAX_PARTS = 10_000
MAX_HEAD_BYTES = 1_000_000  # of the header lines of one part; providers accept less
# The total for a message's encoded multiparts, which are kept decoded and may be nested.
MAX_DECODED_BYTES = 100_000_000
_MAX_BOUNDARY_PADDING = 200  # bytes behind a boundary on its line
_MEDIA_TYPE = re.compile(r"[!-.0-~]+/[!-.0-~]+")
_EMPTY_LINE = re.compile(rb"\n\r?\n")

HeaderLines = Sequence[tuple[str, str]]
Span = tuple[int, int]


@dataclass(slots=True)
class ParseFindings:
    """What was found so far in one message. Defects are our own words, never text of the message."""

    parts: int = 0
    decoded_bytes: int = 0  # of encoded multiparts
    defects: list[str] = field(default_factory=list[str])

    def note(self, defect: str) -> None:
        if defect not in self.defects:
            self.defects.append(defect)


@dataclass(frozen=True, slots=True)
class MimePart:
    """One part. A multipart has children; an attached message is a leaf, which can be parsed separately."""

    place: str  # Gmail's partId: "" for the message itself, then "0", "0.1", …
    lines: HeaderLines
    media_type: str
    details: Mapping[str, str]  # of Content-Type
    encoding: str
    disposition: str
    file_name: str
    related: bool  # inside a multipart/related
    depth: int
    raw: memoryview
    children: tuple["MimePart", ...]

    def header(self, name: str) -> str:
        return next((value for key, value in self.lines if key.lower() == name), "")

    @property
    def content(self) -> bytes:
        return transfer_encoding.decode(self.raw, self.encoding)


@dataclass(frozen=True, slots=True)
class _PartPosition:
    """The position of a part in the tree."""

    place: str
    depth: int
    default: str = "text/plain"
    related: bool = False

    def child(self, number: int, media_type: str) -> "_PartPosition":
        return _PartPosition(
            f"{self.place}.{number}" if self.place else str(number),
            self.depth + 1,
            "message/rfc822" if media_type == "multipart/digest" else "text/plain",
            self.related or media_type == "multipart/related",
        )


def parse_parts(raw: bytes, findings: ParseFindings, *, place: str = "", depth: int = 0) -> MimePart:
    """The tree of a message; `place` and `depth` are those of the item for an attached message."""
    return _parse_part(raw, (0, len(raw)), _PartPosition(place, depth), findings)


def _parse_part(raw: bytes, span: Span, spot: _PartPosition, findings: ParseFindings) -> MimePart:
    findings.parts += 1
    start, head_end, body = _find_head(raw, *span)
    lines, clean = parse_header_lines(_limit_head(raw[start:head_end]))
    clean = clean and head_end - start <= MAX_HEAD_BYTES
    if not clean:
        findings.note("header")
    given: dict[str, str] = {}
    for name, value in lines:
        if name[0] in "Cc" and (key := name.lower()).startswith("content-"):
            given.setdefault(key, value)
    media_type, details = parse_parameters(given.get("content-type", ""))
    if not _MEDIA_TYPE.fullmatch(media_type):
        media_type = spot.default
    disposition, named = parse_parameters(given.get("content-disposition", ""))
    encoding = given.get("content-transfer-encoding", "").partition(";")[0].strip(' \t"').lower()
    children: tuple[MimePart, ...] = ()
    if media_type.startswith("multipart/"):
        boundary = b"--" + details.get("boundary", "").encode("utf-8", "replace")
        children = _parse_children(raw, (body, span[1]), (media_type, encoding, boundary), spot, findings)
    return MimePart(
        place=spot.place,
        lines=lines,
        media_type=media_type,
        details=details,
        encoding=encoding,
        disposition=disposition,
        file_name=(named.get("filename") or details.get("name") or "").strip(),
        related=spot.related,
        depth=spot.depth,
        raw=memoryview(raw)[body : span[1]],
        children=children,
    )


def _parse_children(
    raw: bytes, span: Span, kind: tuple[str, str, bytes], spot: _PartPosition, findings: ParseFindings
) -> tuple[MimePart, ...]:
    media_type, encoding, boundary = kind
    if spot.depth >= MAX_DEPTH or findings.parts >= MAX_PARTS:
        findings.note("depth" if spot.depth >= MAX_DEPTH else "parts")
        return ()
    room = MAX_PARTS - findings.parts
    spans = list(_split_parts(raw, span, boundary, room))
    encoded = span[1] - span[0] if encoding in {"base64", "quoted-printable"} else 0
    if not spans and encoded and findings.decoded_bytes + encoded <= MAX_DECODED_BYTES:
        # Forbidden, but it occurs: the whole multipart is encoded.
        findings.decoded_bytes += encoded
        raw = transfer_encoding.decode(memoryview(raw)[span[0] : span[1]], encoding)
        spans = list(_split_parts(raw, (0, len(raw)), boundary, room))
    if not spans:
        findings.note("boundary")
    children: list[MimePart] = []
    for number, part_span in enumerate(spans):
        child = spot.child(number, media_type)
        if findings.parts >= MAX_PARTS:
            findings.note("parts")
            children.append(_opaque_part(child, memoryview(raw)[part_span[0] : span[1]]))
            break
        children.append(_parse_part(raw, part_span, child, findings))
    return tuple(children)


def _opaque_part(spot: _PartPosition, raw: memoryview) -> MimePart:
    """A part that is not parsed any further."""
    return MimePart(
        place=spot.place,
        lines=(),
        media_type="application/octet-stream",
        details={},
        encoding="",
        disposition="attachment",
        file_name="",
        related=False,
        depth=spot.depth,
        raw=raw,
        children=(),
    )


def _split_parts(raw: bytes, span: Span, boundary: bytes, room: int) -> Iterator[Span]:
    """Start and end of the parts between boundary lines, at most one more than there is room for.

    Without a closing line, the last part ends with the multipart.
    """
    begin = -1
    for line, after, closing in _boundary_lines(raw, span, boundary):
        if begin != -1:
            room -= 1
            if room < 0:
                break
            yield begin, max(begin, line - (2 if raw[line - 2 : line] == b"\r\n" else 1))
        begin = -1 if closing else after
        if closing:
            return
    if begin != -1:
        yield begin, span[1]


def _boundary_lines(raw: bytes, span: Span, boundary: bytes) -> Iterator[tuple[int, int, bool]]:
    """Start of each boundary line, start of the next line, and whether it closes the multipart."""
    if boundary == b"--":
        return
    start, end = span
    line = raw.find(boundary, start, end)
    while line != -1:
        after = line + len(boundary)
        if line == start or raw[line - 1] == 0x0A:
            limit = min(end, after + _MAX_BOUNDARY_PADDING)
            next_line = raw.find(b"\n", after, limit) + 1 or limit
            rest = raw[after:next_line].strip()
            if rest in {b"", b"--"} and (next_line == end or raw[next_line - 1] == 0x0A):
                yield line, next_line, rest == b"--"
                after = next_line
        line = raw.find(boundary, after, end)


def _limit_head(head: bytes) -> bytes:
    """The header lines that are parsed: whole lines, as long as the first one is not too long itself."""
    if len(head) <= MAX_HEAD_BYTES:
        return head
    last = head.rfind(b"\n", 0, MAX_HEAD_BYTES)
    return head[: MAX_HEAD_BYTES if last == -1 else last]


def _find_head(raw: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Start and end of the header lines, and start of the body."""
    if raw.startswith((b"From ", b">From "), start):  # the separator line of mbox files
        start = raw.find(b"\n", start, end) + 1 or end
    if raw.startswith((b"\r\n", b"\n"), start):
        return start, start, min(end, start + (2 if raw[start] == 0x0D else 1))
    if empty := _EMPTY_LINE.search(raw, start, end):
        return start, empty.start(), empty.end()
    if raw.find(b"\n", start, end) == -1 and (old := raw.find(b"\r\r", start, end)) != -1:
        return start, old, old + 2
    return start, end, end
