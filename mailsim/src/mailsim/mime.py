"""MIME parser: RFC 5322 bytes to a tree of parts, in one pass. It never fails on malformed mail.

Bodies stay slices of the message; transfer decoding happens on first use. The responses of both
providers and the truth are made from this tree. `samples` writes messages.
"""

import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.errors import MessageError
from email.header import decode_header
from functools import lru_cache
from urllib.parse import unquote_to_bytes

MAX_DEPTH = 40  # deeper levels become one opaque part
_PARAM = re.compile(r""";\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;\s]*(?:[^;"]*[^;"\s])?)""")
_SECTION = re.compile(r"^(.+?)(?:\*(\d+))?(\*)?$")
_ESCAPE = re.compile(r"\\(.)")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")
_ONE_PARAM = re.compile(r"""([^;]*);\s*([^\s=;"*]+)="([^"\\]*)\"\s*""")
_ONE_WORD = re.compile(r"=\?([\w-]+)\?[qQ]\?([!->@-~]*)\?=", re.ASCII)
_NOTHING: tuple[str, Mapping[str, str]] = ("", {})
# In these charsets and encodings, a line can be decoded without the lines before it.
_BYTEWISE = frozenset({"", "us-ascii", "utf-8", "iso-8859-1", "iso-8859-15", "windows-1252"})
# What machines read in bounces, receipts and complaints (RFC 3464, 6533, 8098, 5965).
_REPORTS = frozenset(
    {
        "message/delivery-status",
        "message/global-delivery-status",
        "message/disposition-notification",
        "message/feedback-report",
    }
)
_LINEWISE = frozenset({"", "7bit", "8bit", "quoted-printable"})


@dataclass(slots=True, eq=False)
class MimePart:
    """A MIME part; the message itself is the root.

    `headers` keep order, case and duplicates.
    """

    headers: list[tuple[str, str]]
    named: dict[str, str]  # the first header of each name, names in lower case
    content_type: str  # lower case, "text/plain" when absent or broken
    params: Mapping[str, str]  # of Content-Type, names in lower case, values decoded
    encoding: str  # Content-Transfer-Encoding, lower case
    disposition: str  # "attachment", "inline" or ""
    filename: str  # decoded; "" when there is none
    children: "Sequence[MimePart]"  # of a multipart; of a message/rfc822 exactly the message inside
    whole: bytes  # the message that this is a part of
    _start: int  # of the body in it
    _end: int
    _content: bytes | None = None

    @property
    def body(self) -> bytes:
        """The transfer-encoded bytes."""
        return self.whole[self._start : self._end]

    @property
    def content(self) -> bytes:
        """The decoded bytes."""
        if self._content is None:
            self._content = decode_transfer(self.body, self.encoding)
        return self._content

    @property
    def charset(self) -> str:
        return self.params.get("charset", "").lower()

    @property
    def content_id(self) -> str:
        return self.header("content-id").strip().strip("<>")

    @property
    def text(self) -> str:
        """The content as text, even if the declared charset is wrong."""
        return decode_text(self.content, self.charset)

    def get_beginning(self, length: int) -> str:
        """Return at least the first `length` characters of the text, if possible without decoding all."""
        start = self._start
        reach = start + 4 * length
        if reach >= self._end or self.charset not in _BYTEWISE or self.encoding not in _LINEWISE:
            return self.text
        lines = decode_transfer(self.whole[start : self.whole.rfind(b"\n", start, reach) + 1], self.encoding)
        text = decode_text(lines[: lines.rfind(b"\n") + 1], self.charset)
        return text if len(text) >= length else self.text

    def header(self, name: str) -> str:
        """Return the first header of that name in any case, unfolded, encoded words kept.

        Return "" if it is absent.
        """
        return self.named.get(name.lower(), "")

    def list_headers(self, name: str) -> list[str]:
        """List all headers of that name, given in lower case, in order."""
        if name not in self.named:
            return []
        if len(self.named) == len(self.headers):
            return [self.named[name]]
        return [value for key, value in self.headers if key.lower() == name]

    def walk(self, number: str = "") -> Iterator[tuple[str, "MimePart"]]:
        """Yield every part with its Gmail part ID, depth first: the root "", then "0", "0.0", "0.1", "1"."""
        yield number, self
        for i, child in enumerate(self.children):
            yield from child.walk(f"{number}.{i}" if number else str(i))

    @property
    def is_attachment(self) -> bool:
        """Whether mail clients show the part as a file: leaf, inline image or embedded message."""
        if self.content_type.startswith("multipart/") and self.children:
            return False
        if self.filename or self.disposition == "attachment" or self.content_type == "message/rfc822":
            return True
        return not self.content_type.startswith(("text/", "multipart/")) and self.content_type not in _REPORTS


def parse(raw: bytes, levels: int = MAX_DEPTH) -> MimePart:
    """Parse a message, with at most this many levels of parts inside it."""
    return _parse_part(raw, 0, len(raw), MAX_DEPTH - levels, "text/plain")


def parse_headers(raw: bytes) -> list[tuple[str, str]]:
    """Parse only the headers of a message, which is cheap."""
    start, head_end, _ = _find_headers(raw, 0, len(raw))
    return _parse_header_block(raw[start:head_end])


def _parse_part(raw: bytes, start: int, end: int, depth: int, default: str) -> MimePart:
    start, head_end, body = _find_headers(raw, start, end)
    headers = _parse_header_block(raw[start:head_end])
    named: dict[str, str] = {}
    for name, value in headers:
        named.setdefault(name.lower(), value)
    content_type, params = parse_parameters(named["content-type"]) if "content-type" in named else _NOTHING
    kind, _, sub = content_type.partition("/")
    if not kind or not sub:
        content_type = default
    disposition, details = _NOTHING
    if "content-disposition" in named:
        disposition, details = parse_parameters(named["content-disposition"])
    encoding = named.get("content-transfer-encoding", "").partition(";")[0].strip().lower()
    return MimePart(
        headers,
        named,
        content_type,
        params,
        encoding,
        disposition if disposition in {"attachment", "inline", ""} else "attachment",
        decode_words(details.get("filename") or params.get("name", "")),
        _parse_children(raw, body, end, content_type, params, encoding, depth),
        raw,
        body,
        end,
    )


def _parse_children(
    raw: bytes, start: int, end: int, content_type: str, params: Mapping[str, str], encoding: str, depth: int
) -> Sequence[MimePart]:
    if content_type[0] != "m" or depth >= MAX_DEPTH:
        return ()
    if content_type == "message/rfc822":
        if encoding in {"base64", "quoted-printable"}:
            inner = decode_transfer(raw[start:end], encoding)
            return [_parse_part(inner, 0, len(inner), depth + 1, "text/plain")]
        return [_parse_part(raw, start, end, depth + 1, "text/plain")]
    boundary = params.get("boundary", "")
    if not content_type.startswith("multipart/") or not boundary:
        return ()
    default = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
    pieces = _split_parts(raw, start, end, b"--" + boundary.encode("utf-8", "surrogateescape"))
    return [_parse_part(raw, first, last, depth + 1, default) for first, last in pieces]


def _split_parts(raw: bytes, start: int, end: int, line: bytes) -> list[tuple[int, int]]:
    """Find start and end of the parts between boundaries.

    A missing final boundary is the body's end.
    """
    pieces: list[tuple[int, int]] = []
    begin = -1
    at = raw.find(line, start, end)
    while at != -1:
        after = at + len(line)
        if at != start and raw[at - 1] != 0x0A:  # before reading its line, which may contain many of them
            at = raw.find(line, after, end)
            continue
        stop = raw.find(b"\n", after, end)
        rest = raw[after : stop if stop != -1 else end].rstrip()
        if rest not in {b"", b"--"}:
            at = raw.find(line, after, end)
            continue
        if begin != -1:
            last = at - 2 if raw[at - 2 : at] == b"\r\n" else at - 1
            pieces.append((begin, max(begin, last)))
        begin = -1
        if rest or stop == -1:
            break
        begin = stop + 1
        at = raw.find(line, begin, end)
    if begin != -1:
        pieces.append((begin, end))
    return pieces


def _find_headers(raw: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Find the start of the headers, their end, and the start of the body."""
    if raw.startswith(b"From ", start):  # an mbox separator is not a header
        line = raw.find(b"\n", start, end)
        start = line + 1 if line != -1 else end
    if raw.startswith(b"\r\n", start):
        return start, start, min(start + 2, end)
    if raw.startswith(b"\n", start):
        return start, start, min(start + 1, end)
    crlf = raw.find(b"\n\r\n", start, end)
    bare = raw.find(b"\n\n", start, crlf if crlf != -1 else end)
    if bare != -1:
        return start, bare, bare + 2
    return (start, crlf, crlf + 3) if crlf != -1 else (start, end, end)


def _parse_header_block(block: bytes) -> list[tuple[str, str]]:
    try:
        text = block.decode()
    except UnicodeDecodeError:
        text = block.decode("latin-1")
    headers: list[tuple[str, str]] = []
    for line in text.replace("\r", "").replace("\n ", " ").replace("\n\t", "\t").split("\n"):
        name, colon, value = line.partition(":")
        name = name.rstrip()
        if colon and name and " " not in name:
            headers.append((name, value.strip(" \t")))
    return headers


@lru_cache(maxsize=512)
def parse_parameters(value: str) -> tuple[str, Mapping[str, str]]:
    """Parse a header value with parameters, RFC 2231 decoded.

    `text/plain; charset=utf-8` gives ("text/plain", {"charset": "utf-8"}).
    """
    head, semicolon, _ = value.partition(";")
    if not semicolon:
        return head.strip().lower(), {}
    if usual := _ONE_PARAM.fullmatch(value):
        return usual[1].strip().lower(), {usual[2].lower(): usual[3]}
    simple: dict[str, str] = {}
    pieces: dict[str, list[tuple[int, bool, str]]] = {}
    for name, given in _PARAM.findall(value[len(head) :]):
        text = _ESCAPE.sub(r"\1", given[1:-1]) if given[:1] == '"' else given.strip()
        if "*" not in name:
            simple.setdefault(name.lower(), text)
        elif match := _SECTION.match(name.lower()):
            pieces.setdefault(match[1], []).append((int(match[2] or 0), bool(match[3]), text))
    for name, sections in pieces.items():
        simple[name] = _join_sections(sorted(sections, key=lambda section: section[0]))
    return head.strip().lower(), simple


def _join_sections(sections: list[tuple[int, bool, str]]) -> str:
    charset = "utf-8"
    data = b""
    for position, (_, encoded, text) in enumerate(sections):
        rest = text
        if encoded and position == 0 and text.count("'") >= 2:
            charset, _, rest = text.split("'", 2)
        data += unquote_to_bytes(rest) if encoded else rest.encode("utf-8", "surrogateescape")
    return decode_text(data, charset)


def decode_words(value: str) -> str:
    """Decode the RFC 2047 encoded words of a header value.

    Return malformed ones unchanged.
    """
    if "=?" not in value:
        return value
    if usual := _ONE_WORD.fullmatch(value):
        return decode_text(binascii.a2b_qp(usual[2].encode("ascii"), header=True), usual[1])
    try:
        pieces = decode_header(value)
    except (MessageError, ValueError):
        return value
    return "".join(
        text if isinstance(text, str) else decode_text(text, charset or "latin-1") for text, charset in pieces
    )


def decode_text(data: bytes, charset: str) -> str:
    for name in (charset.strip().lower(), "utf-8", "cp1252"):
        if "escape" in name:  # Python-only codecs are not mail charsets
            continue
        try:
            return data.decode(name or "utf-8")
        except (LookupError, ValueError):
            continue
    return data.decode("latin-1")


def decode_transfer(data: bytes, encoding: str) -> bytes:
    if encoding == "base64":
        return _decode_base64(data)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(data)
    if encoding in {"x-uuencode", "uuencode", "x-uue", "uue"}:
        return _decode_uuencode(data)
    return data


def _decode_base64(data: bytes) -> bytes:
    try:
        return binascii.a2b_base64(data)
    except binascii.Error:
        clean = _NOT_BASE64.sub(b"", data)
        clean = clean[: len(clean) - (len(clean) % 4 == 1)]
        return binascii.a2b_base64(clean + b"=" * (-len(clean) % 4))


def _decode_uuencode(data: bytes) -> bytes:
    decoded = b""
    for line in data.splitlines():
        if line.startswith(b"begin ") or line.strip() in {b"", b"end", b"`"}:
            continue
        try:
            decoded += binascii.a2b_uu(line)
        except binascii.Error:
            return data
    return decoded
