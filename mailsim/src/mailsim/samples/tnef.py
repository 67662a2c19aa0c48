"""Encoder of winmail.dat: a small TNEF stream (MS-OXTNEF), which Outlook sends to others by mistake.

It encodes one file and does not decode.
"""

import struct
from datetime import datetime

_MESSAGE, _ATTACHMENT = 1, 2


def encode_tnef(subject: str, name: str, data: bytes, date: datetime) -> bytes:
    """Encode a stream with one attached file."""
    moment = struct.pack(
        "<7H", date.year, date.month, date.day, date.hour, date.minute, date.second, (date.weekday() + 1) % 7
    )
    attributes = (
        _encode_attribute(_MESSAGE, 0x00089006, struct.pack("<I", 0x00010000)),  # TnefVersion
        _encode_attribute(_MESSAGE, 0x00069007, struct.pack("<II", 1252, 0)),  # OemCodepage
        _encode_attribute(_MESSAGE, 0x00078008, b"IPM.Microsoft Mail.Note\0"),  # MessageClass
        _encode_attribute(_MESSAGE, 0x00018004, _encode_text(subject)),  # Subject
        _encode_attribute(_MESSAGE, 0x00038005, moment),  # DateSent
        _encode_attribute(
            _ATTACHMENT, 0x00069002, struct.pack("<HIHHI", 1, 0xFFFFFFFF, 0, 0, 0)
        ),  # AttachRendData
        _encode_attribute(_ATTACHMENT, 0x00018010, _encode_text(name)),  # AttachTitle
        _encode_attribute(_ATTACHMENT, 0x0006800F, data),  # AttachData
    )
    return struct.pack("<IH", 0x223E9F78, 1) + b"".join(attributes)


def _encode_attribute(level: int, identity: int, data: bytes) -> bytes:
    return struct.pack("<BII", level, identity, len(data)) + data + struct.pack("<H", sum(data) & 0xFFFF)


def _encode_text(value: str) -> bytes:
    return value.encode("cp1252", "replace") + b"\0"
