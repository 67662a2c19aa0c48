"""Extracts the files of a winmail.dat (TNEF, MS-OXTNEF), as far as it is intact."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct, error, unpack_from

from postroom.mime.text import decode_text, strip_unstorable

_SIGNATURE = 0x223E9F78
_ATTRIBUTE = Struct("<BII")
_CODEPAGE, _RENDERING, _TITLE, _DATA, _PROPERTIES = 0x00069007, 0x00069002, 0x00018010, 0x0006800F, 0x00069005
# Properties of an attachment, and the property types with a length before their values.
_CONTENT, _LONG_NAME, _MEDIA_TYPE = 0x3701, 0x3707, 0x370E
_TEXT_KIND, _WIDE_TEXT, _OBJECT, _BINARY = 0x001E, 0x001F, 0x000D, 0x0102
_FIXED_BYTES = {2: 4, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 10: 4, 11: 4, 20: 8, 64: 8, 72: 16}
_WIDE = "utf-16-le"

MAX_FILES = 1_000


@dataclass(frozen=True, slots=True)
class TnefFile:
    """`place` is the index of the file in the stream."""

    place: int
    name: str | None
    media_type: str | None
    content: bytes


@dataclass(slots=True)
class _TnefAttachment:
    title: str = ""
    long_name: str = ""
    media_type: str = ""
    content: bytes = b""


def extract_files(data: bytes) -> tuple[TnefFile, ...]:
    """The files of a TNEF stream; none if the bytes are something else."""
    found: list[_TnefAttachment] = []
    charset = "cp1252"
    for identity, value in _attributes(data):
        if identity == _CODEPAGE and len(value) >= 4:
            charset = f"cp{unpack_from('<I', value)[0]}"
        elif identity == _RENDERING:
            found.append(_TnefAttachment())
            if len(found) > MAX_FILES:
                break
        elif found:
            _apply_attribute(found[-1], identity, value, charset)
    return tuple(
        TnefFile(place, each.long_name or each.title or None, each.media_type or None, each.content)
        for place, each in enumerate(found[:MAX_FILES])
    )


def _attributes(data: bytes) -> Iterator[tuple[int, memoryview]]:
    if len(data) < 6 or unpack_from("<I", data)[0] != _SIGNATURE:
        return
    at = 6
    while at + _ATTRIBUTE.size <= len(data):
        level, identity, length = _ATTRIBUTE.unpack_from(data, at)
        at += _ATTRIBUTE.size
        if level not in {1, 2}:
            return
        yield identity, memoryview(data)[at : at + length]
        at += length + 2  # a checksum, which some writers get wrong


def _apply_attribute(file: _TnefAttachment, identity: int, value: memoryview, charset: str) -> None:
    if identity == _TITLE:
        file.title = _text(bytes(value), charset)
    elif identity == _DATA:
        file.content = bytes(value)
    elif identity == _PROPERTIES:
        for name, kind, given in _properties(value):
            if name == _LONG_NAME:
                file.long_name = _text(given, _WIDE if kind == _WIDE_TEXT else charset)
            elif name == _MEDIA_TYPE:
                file.media_type = _text(given, _WIDE if kind == _WIDE_TEXT else charset).lower()
            elif name == _CONTENT and not file.content:
                file.content = (
                    given[16:] if kind == _OBJECT else given
                )  # an object begins with the id of its interface


def _text(data: bytes, charset: str) -> str:
    """Decode a text, which ends at a NUL."""
    if charset == _WIDE:
        return strip_unstorable(data.decode(_WIDE, "replace").partition("\0")[0]).strip()
    return decode_text(data.partition(b"\0")[0], charset)[0].strip()


def _properties(value: memoryview) -> Iterator[tuple[int, int, bytes]]:
    """Each property with its type and first value, up to the first malformed one."""
    try:
        (count,) = unpack_from("<I", value)
        at = 4
        for _ in range(min(count, 500)):
            kind, name = unpack_from("<HH", value, at)
            at = _after_name(value, at + 4) if name >= 0x8000 else at + 4
            given, at = _value(value, at, kind)
            yield name, kind, given
    except (error, KeyError):
        return


def _after_name(value: memoryview, at: int) -> int:
    """Skip the name of a custom property: the id of an interface, then a number or a text."""
    kind, number = unpack_from("<II", value, at + 16)
    return at + 24 + (_padded(number) if kind else 0)


def _value(value: memoryview, at: int, kind: int) -> tuple[bytes, int]:
    several, plain = kind & 0x1000, kind & 0x0FFF
    sized = plain in {_TEXT_KIND, _WIDE_TEXT, _OBJECT, _BINARY}
    count = 1
    if several or sized:
        (count,) = unpack_from("<I", value, at)
        at += 4
    first: bytes | None = None
    for _ in range(min(count, 500)):
        length = _FIXED_BYTES[plain] if not sized else unpack_from("<I", value, at)[0]
        at += 4 if sized else 0
        if first is None:
            first = bytes(value[at : at + length])
        at += _padded(length)
    return first or b"", at


def _padded(length: int) -> int:
    return length + -length % 4
