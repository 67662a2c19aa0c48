"""Reads RFC 5322 bytes into a tree of parts, in one pass, never raising on broken mail. Writes nothing.

Bodies stay slices of the message until asked for; transfer decoding happens on first use. Both provider
shapes and the truth are made from this tree.
"""

import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.errors import MessageError
from email.header import decode_header
from functools import cached_property, lru_cache
from urllib.parse import unquote_to_bytes

DEEPEST = 40  # deeper nesting than this is shown as one opaque part
_PARAM = re.compile(r""";\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;\s]*(?:[^;"]*[^;"\s])?)""")
_SECTION = re.compile(r"^(.+?)(?:\*(\d+))?(\*)?$")
_ESCAPE = re.compile(r"\\(.)")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")


@dataclass(frozen=True)
class Part:
    """One MIME part; the message itself is the root. `headers` keep their order, casing and repetitions."""

    headers: list[tuple[str, str]]
    content_type: str  # lower case, "text/plain" when absent or broken
    params: Mapping[str, str]  # of Content-Type, names in lower case, values decoded
    encoding: str  # Content-Transfer-Encoding, lower case
    disposition: str  # "attachment", "inline" or ""
    filename: str  # decoded; "" when there is none
    children: list["Part"]  # of a multipart; of a message/rfc822 exactly the message inside
    _raw: bytes
    _body: tuple[int, int]

    @property
    def body(self) -> bytes:
        """The bytes as they stand in the message, still transfer-encoded."""
        return self._raw[self._body[0] : self._body[1]]

    @cached_property
    def content(self) -> bytes:
        """The bytes with the transfer encoding undone."""
        return decode_transfer(self.body, self.encoding)

    @property
    def charset(self) -> str:
        return self.params.get("charset", "").lower()

    @property
    def content_id(self) -> str:
        return self.header("content-id").strip().strip("<>")

    @property
    def text(self) -> str:
        """The content as text, whatever the charset claims."""
        return decode_text(self.content, self.charset)

    def header(self, name: str) -> str:
        """The first header of that name, any casing, unfolded but with its encoded words; "" when absent."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), "")

    def walk(self, number: str = "") -> Iterator[tuple[str, "Part"]]:
        """Every part with its Gmail-like id: the root "", then "0", "0.0", "0.1", "1", …, depth first."""
        yield number, self
        for i, child in enumerate(self.children):
            yield from child.walk(f"{number}.{i}" if number else str(i))

    @property
    def is_attachment(self) -> bool:
        """A leaf or an embedded message that a mail program shows as a file, inline images included."""
        if self.content_type.startswith("multipart/") and self.children:
            return False
        if self.filename or self.disposition == "attachment" or self.content_type == "message/rfc822":
            return True
        return (
            not self.content_type.startswith(("text/", "multipart/"))
            and self.content_type != "message/delivery-status"
        )


def read(raw: bytes) -> Part:
    return _read(raw, 0, len(raw), 0, "text/plain")


def read_headers(raw: bytes) -> list[tuple[str, str]]:
    """Only the headers of a message: cheap."""
    start, head_end, _ = _head(raw, 0, len(raw))
    return _headers(raw[start:head_end])


def _read(raw: bytes, start: int, end: int, depth: int, default: str) -> Part:
    start, head_end, body = _head(raw, start, end)
    headers = _headers(raw[start:head_end])
    found: dict[str, str] = {}
    for name, value in headers:
        if name[0] in "Cc" and (key := name.lower()).startswith("content-"):
            found.setdefault(key, value)
    content_type, params = parameters(found.get("content-type", ""))
    kind, _, sub = content_type.partition("/")
    if not kind or not sub:
        content_type = default
    disposition, details = parameters(found.get("content-disposition", ""))
    encoding = found.get("content-transfer-encoding", "").partition(";")[0].strip().lower()
    return Part(
        headers=headers,
        content_type=content_type,
        params=params,
        encoding=encoding,
        disposition=disposition
        if disposition in {"attachment", "inline"}
        else "attachment"
        if disposition
        else "",
        filename=decode_words(details.get("filename") or params.get("name", "")),
        children=_children(raw, (body, end), content_type, params, encoding, depth),
        _raw=raw,
        _body=(body, end),
    )


def _children(
    raw: bytes, body: tuple[int, int], content_type: str, params: Mapping[str, str], encoding: str, depth: int
) -> list[Part]:
    if depth >= DEEPEST:
        return []
    if content_type == "message/rfc822":
        if encoding in {"base64", "quoted-printable"}:
            inner = decode_transfer(raw[body[0] : body[1]], encoding)
            return [_read(inner, 0, len(inner), depth + 1, "text/plain")]
        return [_read(raw, *body, depth + 1, "text/plain")]
    boundary = params.get("boundary", "")
    if not content_type.startswith("multipart/") or not boundary:
        return []
    default = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
    pieces = _split(raw, *body, b"--" + boundary.encode("utf-8", "surrogateescape"))
    return [_read(raw, first, last, depth + 1, default) for first, last in pieces]


def _split(raw: bytes, start: int, end: int, line: bytes) -> list[tuple[int, int]]:
    """Where the parts between the boundary lines begin and end. Without a last one the body ends it."""
    pieces: list[tuple[int, int]] = []
    begin = -1
    at = raw.find(line, start, end)
    while at != -1:
        after = at + len(line)
        stop = raw.find(b"\n", after, end)
        rest = raw[after : stop if stop != -1 else end].rstrip()
        if (at != start and raw[at - 1] != 0x0A) or rest not in {b"", b"--"}:
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


def _head(raw: bytes, start: int, end: int) -> tuple[int, int, int]:
    """Where the headers begin, where they end, where the body begins."""
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


def _headers(block: bytes) -> list[tuple[str, str]]:
    try:
        text = block.decode()
    except UnicodeDecodeError:
        text = block.decode("latin-1")
    headers: list[tuple[str, str]] = []
    folded: list[str] = []  # the continuation lines of the last header, joined at its end
    for line in text.replace("\r", "").split("\n"):
        if line[:1] in {" ", "\t"}:
            folded.append(line)
            continue
        name, colon, value = line.partition(":")
        name = name.rstrip()
        if colon and name and " " not in name:
            if folded:
                _unfold(headers, folded)
            headers.append((name, value.strip(" \t")))
    _unfold(headers, folded)
    return headers


def _unfold(headers: list[tuple[str, str]], folded: list[str]) -> None:
    if folded and headers:
        name, value = headers[-1]
        headers[-1] = (name, "".join((value, *folded)).strip(" \t"))
    folded.clear()


@lru_cache(maxsize=512)
def parameters(value: str) -> tuple[str, Mapping[str, str]]:
    """`text/plain; charset=utf-8` -> ("text/plain", {"charset": "utf-8"}), RFC 2231 continuations and
    charsets undone.
    """
    head, semicolon, _ = value.partition(";")
    if not semicolon:
        return head.strip().lower(), {}
    simple: dict[str, str] = {}
    pieces: dict[str, list[tuple[int, bool, str]]] = {}
    for name, given in _PARAM.findall(value[len(head) :]):
        text = _ESCAPE.sub(r"\1", given[1:-1]) if given[:1] == '"' else given.strip()
        if "*" not in name:
            simple.setdefault(name.lower(), text)
        elif match := _SECTION.match(name.lower()):
            pieces.setdefault(match[1], []).append((int(match[2] or 0), bool(match[3]), text))
    for name, sections in pieces.items():
        simple[name] = _joined(sorted(sections, key=lambda section: section[0]))
    return head.strip().lower(), simple


def _joined(sections: list[tuple[int, bool, str]]) -> str:
    charset = "utf-8"
    data = b""
    for position, (_, encoded, text) in enumerate(sections):
        rest = text
        if encoded and position == 0 and text.count("'") >= 2:
            charset, _, rest = text.split("'", 2)
        data += unquote_to_bytes(rest) if encoded else rest.encode("utf-8", "surrogateescape")
    return decode_text(data, charset)


def decode_words(value: str) -> str:
    """A header value with its RFC 2047 encoded words decoded; returned as it is when they are broken."""
    if "=?" not in value:
        return value
    try:
        pieces = decode_header(value)
    except (MessageError, ValueError):
        return value
    return "".join(
        text if isinstance(text, str) else decode_text(text, charset or "latin-1") for text, charset in pieces
    )


def decode_text(data: bytes, charset: str) -> str:
    for name in (charset.strip().lower(), "utf-8", "cp1252"):
        if "escape" in name:  # Python's own notations are no charsets of mail
            continue
        try:
            return data.decode(name or "utf-8")
        except (LookupError, ValueError):
            continue
    return data.decode("latin-1")


def decode_transfer(data: bytes, encoding: str) -> bytes:
    if encoding == "base64":
        return _base64(data)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(data)
    if encoding in {"x-uuencode", "uuencode", "x-uue", "uue"}:
        return _uuencoded(data)
    return data


def _base64(data: bytes) -> bytes:
    try:
        return binascii.a2b_base64(data)
    except binascii.Error:
        clean = _NOT_BASE64.sub(b"", data)
        clean = clean[: len(clean) - (len(clean) % 4 == 1)]
        return binascii.a2b_base64(clean + b"=" * (-len(clean) % 4))


def _uuencoded(data: bytes) -> bytes:
    decoded = b""
    for line in data.splitlines():
        if line.startswith(b"begin ") or line.strip() in {b"", b"end", b"`"}:
            continue
        try:
            decoded += binascii.a2b_uu(line)
        except binascii.Error:
            return data
    return decoded
