"""Header lines as strings: encoded words, address lists, dates, and the block that opens every letter."""

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


def date_text(date: datetime) -> str:
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
def _escaped(character: str, charset: str) -> str:
    if character == " ":
        return "_"
    if character in _UNESCAPED:
        return character
    return "".join(f"={byte:02X}" for byte in character.encode(charset))


# The whole of Latin-1 and a few more, for subjects that fit into one word.
_ESCAPES = {
    ord(character): _escaped(character, "utf-8") for character in map(chr, (*range(256), 0x20AC, 0x2019))
}


def encoded_q(text: str, charset: str = "utf-8") -> str:
    """RFC 2047 words in Q encoding, folded; no character is cut in two."""
    if charset == "utf-8" and len(short := text.translate(_ESCAPES)) < 64 and short.isascii():
        return f"=?utf-8?Q?{short}?="
    words: list[str] = []
    room = 75 - len(charset) - 7
    word = ""
    for character in text:
        piece = _escaped(character, charset)
        if len(word) + len(piece) > room:
            words.append(word)
            word = ""
        word += piece
    words.append(word)
    return "\r\n ".join(f"=?{charset}?Q?{word}?=" for word in words)


def encoded_b(text: str, charset: str = "utf-8", step: int = 14) -> str:
    """RFC 2047 words in B encoding, folded, `step` characters each."""
    pieces = [text[start : start + step].encode(charset) for start in range(0, len(text), step)]
    return "\r\n ".join(
        f"=?{charset}?B?{binascii.b2a_base64(piece, newline=False).decode()}?=" for piece in pieces
    )


def folded(name: str, value: str) -> str:
    """One header line, encoded where it must be and broken at spaces before column 78."""
    if not value.isascii():
        return f"{name}: {encoded_q(value)}\r\n"
    if len(name) + len(value) < 76:
        return f"{name}: {value}\r\n"
    lines = [f"{name}:"]
    for word in value.split(" "):
        if len(lines[-1]) + len(word) > 76 and lines[-1].strip():
            lines.append("")
        lines[-1] += f" {word}"
    return "\r\n".join(lines) + "\r\n"


@functools.lru_cache(maxsize=4096)
def mailbox(person: Person) -> str:
    name, address = person
    if not name:
        return address
    if not name.isascii():
        return f"{encoded_q(name)} <{address}>"
    if _PLAIN_NAME.match(name):
        return f"{name} <{address}>"
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}" <{address}>'


def addresses(name: str, people: Sequence[Person]) -> str:
    return f"{name}: " + ",\r\n ".join(map(mailbox, people)) + "\r\n" if people else ""


def trail(order: MessageSpec, date: str) -> str:
    """What servers put above a letter on its way; mail that the owner sent has none."""
    address = order.sender[1]
    domain = address.rpartition("@")[2]
    number = mix_bits(order.seed ^ 6)
    receivers = order.to or order.cc or order.bcc
    return (
        f"Return-Path: <{'' if order.kind in _UNANSWERABLE else address}>\r\n"
        f"Received: from mail.{domain} (mail.{domain} [192.0.2.{number % 254 + 1}])\r\n"
        f"\tby mx.example.net with ESMTPS id {number:016x}\r\n"
        f"\tfor <{receivers[0][1]}>; {date}\r\n"
    )


def opening(order: MessageSpec, extra: str = "", *, travelled: bool = True) -> str:
    """The header block up to and without its Content-* lines and the empty line."""
    date = date_text(order.date)
    lines = [
        trail(order, date) if travelled else "",
        f"Date: {date}\r\nFrom: {mailbox(order.sender)}\r\n",
        addresses("To", order.to),
        addresses("Cc", order.cc) if order.cc else "",
        "" if travelled or not order.bcc else addresses("Bcc", order.bcc),
        folded("Subject", order.title) if order.title else "",
        f"Message-ID: {order.message_id}\r\n",
    ]
    if order.in_reply_to:
        lines.append(f"In-Reply-To: {order.in_reply_to}\r\n")
    if order.references:
        lines.append("References: " + "\r\n ".join(order.references) + "\r\n")
    lines.append(extra)
    lines.append("MIME-Version: 1.0\r\n")
    return "".join(lines)


def swapped(head: str, name: str, line: str) -> str:
    """The header block with the first `name` field, folds included, replaced by `line`."""
    pattern = re.compile(rf"^{name}:.*\r\n(?:[ \t].*\r\n)*", re.MULTILINE)
    return pattern.sub(lambda _: line, head, count=1)
