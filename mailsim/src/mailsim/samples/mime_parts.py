"""Builders of MIME parts (text, attachments, multiparts, attached messages) and of whole messages.

`headers` formats the header block.
"""

import binascii
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from mailsim.samples.headers import format_header_block
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.seeded_random import mix_bits
from mailsim.samples.text_blocks import encode_quoted_printable


class EncodedPart(NamedTuple):
    """A MIME part.

    `head` holds its Content-* lines, each with CRLF; `body` is transfer-encoded.
    """

    head: str
    body: bytes


def make_boundary(seed: int, place: int = 0) -> str:
    """Make a boundary from the message's seed; it occurs nowhere else in the message."""
    return f"=_{mix_bits(seed ^ (place + 1) * 0x51ED):016x}_{place}"


def encode_base64_lines(data: bytes) -> bytes:
    encoded = binascii.b2a_base64(data, newline=False)
    return b"".join([encoded[start : start + 76] + b"\r\n" for start in range(0, len(encoded), 76)])


def make_text(
    content: str, subtype: str = "plain", *, charset: str = "utf-8", encoding: str = "quoted-printable"
) -> EncodedPart:
    """Make a text part; `content` has LF line endings."""
    head = f'Content-Type: text/{subtype}; charset="{charset}"\r\nContent-Transfer-Encoding: {encoding}\r\n'
    if encoding == "quoted-printable":
        return EncodedPart(head, encode_quoted_printable(content, charset))
    data = content.replace("\n", "\r\n").encode(charset)
    return EncodedPart(head, encode_base64_lines(data) if encoding == "base64" else data)


def format_parameter(key: str, value: str) -> str:
    """Format a header parameter, in the form of RFC 2231 if it is not ASCII."""
    if value.isascii():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f';\r\n {key}="{escaped}"'
    return f";\r\n {key}*=utf-8''{quote(value, safe='')}"


def make_attachment(
    name: str, media_type: str, data: bytes, *, content_id: str = "", inline: bool = False
) -> EncodedPart:
    """Make a base64 attachment; with a content ID, an HTML body can refer to it."""
    identity = f"Content-ID: <{content_id}>\r\n" if content_id else ""
    head = (
        f"Content-Type: {media_type}{format_parameter('name', name)}\r\n"
        "Content-Transfer-Encoding: base64\r\n"
        f"{identity}"
        f"Content-Disposition: {'inline' if inline else 'attachment'}{format_parameter('filename', name)}\r\n"
    )
    return EncodedPart(head, encode_base64_lines(data))


def make_multipart(
    subtype: str, parts: Sequence[EncodedPart], boundary: str, parameters: str = ""
) -> EncodedPart:
    """Join parts to a multipart.

    `parameters` starts with a semicolon and precedes the boundary.
    """
    pieces: list[bytes] = []
    for part in parts:
        pieces.append(f"--{boundary}\r\n{part.head}\r\n".encode("ascii"))
        pieces.append(part.body)
        pieces.append(b"\r\n")
    pieces.append(f"--{boundary}--\r\n".encode("ascii"))
    return EncodedPart(
        f'Content-Type: multipart/{subtype}{parameters};\r\n boundary="{boundary}"\r\n', b"".join(pieces)
    )


def embed_message(message: bytes, name: str = "") -> EncodedPart:
    """Wrap a whole message as a message/rfc822 part."""
    encoding = "7bit" if message.isascii() else "8bit"
    disposition = f"Content-Disposition: attachment{format_parameter('filename', name)}\r\n" if name else ""
    head = f"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: {encoding}\r\n{disposition}"
    return EncodedPart(head, message)


def build_message(spec: MessageSpec, part: EncodedPart, extra: str = "", *, travelled: bool = True) -> bytes:
    return (
        f"{format_header_block(spec, extra, travelled=travelled)}{part.head}\r\n".encode("ascii") + part.body
    )
