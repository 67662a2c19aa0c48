"""Formatting of header fields: encoded words, address lists, dates, and the complete header block."""

import binascii
import functools
import re
from collections.abc import Sequence
from datetime import datetime

from mailsim.samples.message_spec import MessageSpec, Person
from mailsim.samples.seeded_random import mix_bits

_UNANSWERABLE = frozenset({"auto-reply", "bounce"})
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]+\Z")
_UNESCAPED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/")


def format_date(date: datetime) -> str:
    offset = date.utcoffset()
    minutes = int(offset.total_seconds()) // 60 if offset else 0
    zone = (
        "+0000"
        if not minutes
        else f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{abs(minutes) % 60:02d}"
    )
    return (
        f"{_DAYS[date.weekday()]}, {date.day} {_MONTHS[date.month - 1]} {date.year}"
        f" {date.hour:02d}:{date.minute:02d}:{date.second:02d} {zone}"
    )


@functools.lru_cache(maxsize=512)
def _escape_q(character: str, charset: str) -> str:
    if character == " ":
        return "_"
    if character in _UNESCAPED:
        return character
    return "".join(f"={byte:02X}" for byte in character.encode(charset))


# Fast path for subjects that fit into one encoded word: Latin-1 and two more characters.
_ESCAPES = {
    ord(character): _escape_q(character, "utf-8") for character in map(chr, (*range(256), 0x20AC, 0x2019))
}


def encode_q_words(text: str, charset: str = "utf-8") -> str:
    """Encode text as folded RFC 2047 Q words without splitting a character."""
    if charset == "utf-8" and len(short := text.translate(_ESCAPES)) < 64 and short.isascii():
        return f"=?utf-8?Q?{short}?="
    words: list[str] = []
    room = 75 - len(charset) - 7
    word = ""
    for character in text:
        piece = _escape_q(character, charset)
        if len(word) + len(piece) > room:
            words.append(word)
            word = ""
        word += piece
    words.append(word)
    return "\r\n ".join(f"=?{charset}?Q?{word}?=" for word in words)


def encode_b_words(text: str, charset: str = "utf-8", step: int = 14) -> str:
    """Encode text as folded RFC 2047 B words of `step` characters each."""
    pieces = [text[start : start + step].encode(charset) for start in range(0, len(text), step)]
    return "\r\n ".join(
        f"=?{charset}?B?{binascii.b2a_base64(piece, newline=False).decode()}?=" for piece in pieces
    )


def fold_header(name: str, value: str) -> str:
    """Format one header field, encoded if it is not ASCII, folded at spaces before column 78."""
    if not value.isascii():
        return f"{name}: {encode_q_words(value)}\r\n"
    if len(name) + len(value) < 76:
        return f"{name}: {value}\r\n"
    lines = [f"{name}:"]
    for word in value.split(" "):
        if len(lines[-1]) + len(word) > 76 and lines[-1].strip():
            lines.append("")
        lines[-1] += f" {word}"
    return "\r\n".join(lines) + "\r\n"


@functools.lru_cache(maxsize=4096)
def format_address(person: Person) -> str:
    name, address = person
    if not name:
        return address
    if not name.isascii():
        return f"{encode_q_words(name)} <{address}>"
    if _PLAIN_NAME.match(name):
        return f"{name} <{address}>"
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}" <{address}>'


def format_address_header(name: str, people: Sequence[Person]) -> str:
    return f"{name}: " + ",\r\n ".join(map(format_address, people)) + "\r\n" if people else ""


def format_trace_headers(spec: MessageSpec, date: str) -> str:
    """Format the trace headers that servers add in transit.

    The owner's sent messages have none.
    """
    address = spec.sender[1]
    domain = address.rpartition("@")[2]
    number = mix_bits(spec.seed ^ 6)
    receivers = spec.to or spec.cc or spec.bcc
    return (
        f"Return-Path: <{'' if spec.kind in _UNANSWERABLE else address}>\r\n"
        f"Received: from mail.{domain} (mail.{domain} [192.0.2.{number % 254 + 1}])\r\n"
        f"\tby mx.example.net with ESMTPS id {number:016x}\r\n"
        f"\tfor <{receivers[0][1]}>; {date}\r\n"
    )


def format_header_block(spec: MessageSpec, extra: str = "", *, travelled: bool = True) -> str:
    """Format the header block without the Content-* fields and the empty line."""
    date = format_date(spec.date)
    lines = [
        format_trace_headers(spec, date) if travelled else "",
        f"Date: {date}\r\nFrom: {format_address(spec.sender)}\r\n",
        format_address_header("To", spec.to),
        format_address_header("Cc", spec.cc) if spec.cc else "",
        "" if travelled or not spec.bcc else format_address_header("Bcc", spec.bcc),
        fold_header("Subject", spec.title) if spec.title else "",
        f"Message-ID: {spec.message_id}\r\n",
    ]
    if spec.in_reply_to:
        lines.append(f"In-Reply-To: {spec.in_reply_to}\r\n")
    if spec.references:
        lines.append("References: " + "\r\n ".join(spec.references) + "\r\n")
    lines.append(extra)
    lines.append("MIME-Version: 1.0\r\n")
    return "".join(lines)


def replace_header(head: str, name: str, line: str) -> str:
    """Replace the first `name` field of a header block, folded lines included, by `line`."""
    pattern = re.compile(rf"^{name}:.*\r\n(?:[ \t].*\r\n)*", re.MULTILINE)
    return pattern.sub(lambda _: line, head, count=1)
