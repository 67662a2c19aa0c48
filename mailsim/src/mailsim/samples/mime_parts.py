"""MIME parts as strings and bytes: text, attachments, multiparts, enclosed messages; and whole letters."""

import binascii
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from mailsim.samples.headers import opening
from mailsim.samples.message_spec import MessageSpec
from mailsim.samples.seeded_random import mix_bits
from mailsim.samples.text_blocks import quoted_printable


class EncodedPart(NamedTuple):
    """`head` holds Content-* lines, each with its CRLF; `body` is encoded for transfer."""

    head: str
    body: bytes


def boundary(seed: int, place: int = 0) -> str:
    """A line that occurs nowhere else in the letter, made from its seed."""
    return f"=_{mix_bits(seed ^ (place + 1) * 0x51ED):016x}_{place}"


def base64_lines(data: bytes) -> bytes:
    encoded = binascii.b2a_base64(data, newline=False)
    return b"".join([encoded[start : start + 76] + b"\r\n" for start in range(0, len(encoded), 76)])


def text(
    content: str, subtype: str = "plain", *, charset: str = "utf-8", encoding: str = "quoted-printable"
) -> EncodedPart:
    """A text part; `content` has LF line ends."""
    head = f'Content-Type: text/{subtype}; charset="{charset}"\r\nContent-Transfer-Encoding: {encoding}\r\n'
    if encoding == "quoted-printable":
        return EncodedPart(head, quoted_printable(content, charset))
    data = content.replace("\n", "\r\n").encode(charset)
    return EncodedPart(head, base64_lines(data) if encoding == "base64" else data)


def parameter(key: str, value: str) -> str:
    """`; key="value"`, in the extended form of RFC 2231 where the value is not ASCII."""
    if value.isascii():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f';\r\n {key}="{escaped}"'
    return f";\r\n {key}*=utf-8''{quote(value, safe='')}"


def attachment(
    name: str, media: str, data: bytes, *, content_id: str = "", inline: bool = False
) -> EncodedPart:
    """A file in base64; with a content id it can be shown inside an HTML body."""
    identity = f"Content-ID: <{content_id}>\r\n" if content_id else ""
    head = (
        f"Content-Type: {media}{parameter('name', name)}\r\n"
        "Content-Transfer-Encoding: base64\r\n"
        f"{identity}"
        f"Content-Disposition: {'inline' if inline else 'attachment'}{parameter('filename', name)}\r\n"
    )
    return EncodedPart(head, base64_lines(data))


def multipart(subtype: str, parts: Sequence[EncodedPart], mark: str, parameters: str = "") -> EncodedPart:
    """`parameters` begins with a semicolon and stands before the boundary."""
    pieces: list[bytes] = []
    for part in parts:
        pieces.append(f"--{mark}\r\n{part.head}\r\n".encode("ascii"))
        pieces.append(part.body)
        pieces.append(b"\r\n")
    pieces.append(f"--{mark}--\r\n".encode("ascii"))
    return EncodedPart(
        f'Content-Type: multipart/{subtype}{parameters};\r\n boundary="{mark}"\r\n', b"".join(pieces)
    )


def enclosed(message: bytes, name: str = "") -> EncodedPart:
    """A whole message as a part of another one."""
    encoding = "7bit" if message.isascii() else "8bit"
    disposition = f"Content-Disposition: attachment{parameter('filename', name)}\r\n" if name else ""
    head = f"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: {encoding}\r\n{disposition}"
    return EncodedPart(head, message)


def letter(order: MessageSpec, part: EncodedPart, extra: str = "", *, travelled: bool = True) -> bytes:
    return f"{opening(order, extra, travelled=travelled)}{part.head}\r\n".encode("ascii") + part.body
