"""Decodes transfer encodings (base64, quoted-printable, uuencode), whole or in pieces.

Malformed input is decoded as far as possible. Charsets are decoded in `text`.
"""

import re
from binascii import Error, a2b_base64, a2b_qp, a2b_uu
from collections.abc import Iterator

PIECE_BYTES = 1 << 19
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]+")
_UU = frozenset({"x-uuencode", "uuencode", "x-uue", "uue"})


def decode(raw: memoryview, encoding: str) -> bytes:
    """The decoded content; unchanged if the encoding is unknown or nothing can be decoded."""
    if encoding == "base64":
        return _decode_base64(raw)
    if encoding == "quoted-printable":
        return a2b_qp(raw)
    return _decode_uuencode(bytes(raw)) if encoding in _UU else bytes(raw)


def decode_pieces(raw: memoryview, encoding: str) -> Iterator[bytes]:
    """The same content in pieces, to save memory if the encoding allows it."""
    if encoding == "base64" and len(raw) > PIECE_BYTES:
        yield from _decode_base64_pieces(raw)
    elif encoding in {"base64", "quoted-printable", *_UU}:
        yield decode(raw, encoding)
    else:
        for start in range(0, len(raw), PIECE_BYTES):
            yield bytes(raw[start : start + PIECE_BYTES])


def _decode_base64(raw: memoryview) -> bytes:
    try:
        data = a2b_base64(raw)
    except Error:
        data = _decode_last_group(_NOT_BASE64.sub(b"", raw))
    return data if data or not bytes(raw).strip() else bytes(raw)


def _decode_base64_pieces(raw: memoryview) -> Iterator[bytes]:
    """Four characters are three bytes: incomplete groups carry over to the next piece."""
    over = b""
    for start in range(0, len(raw), PIECE_BYTES):
        clean = over + _NOT_BASE64.sub(b"", raw[start : start + PIECE_BYTES])
        whole = len(clean) - len(clean) % 4
        over = clean[whole:]
        yield a2b_base64(clean[:whole])
    yield _decode_last_group(over)


def _decode_last_group(clean: bytes) -> bytes:
    """Decode an incomplete group; a single character encodes nothing."""
    clean = clean[: len(clean) - (len(clean) % 4 == 1)]
    return a2b_base64(clean + b"=" * (-len(clean) % 4))


def _decode_uuencode(data: bytes) -> bytes:
    found = bytearray()
    for line in data.splitlines():
        if not line.strip() or line.startswith((b"begin ", b"end", b"`")):
            continue
        try:
            found += a2b_uu(line)
        except Error:
            return data
    return bytes(found)
