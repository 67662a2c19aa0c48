"""What the worker and the processes beside it say to each other: orders with open files, and reports."""

import ctypes
import os
import signal
import struct
import sys
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from postroom.documents.files.transcript import Rotation

# How a child ends when it has written a result, or in words why there is none.
SUCCEEDED: Final = 0
REFUSED: Final = 10
OUT_OF_MEMORY: Final = 11
MAX_MESSAGE_BYTES: Final = 4096
# More than any result needs: the bitmap of a page, or the words and embedded files of a document.
MAX_RESULT_BYTES: Final = 160_000_000
# Width and height before the pixels of a bitmap: three bytes each, red, green and blue, from the top left.
BITMAP_HEADER: Final = struct.Struct("<II")

_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """Do this with the file that comes along, and write the result into the other. `end` ends an order."""

    number: int
    task: Literal["read", "bitmap", "image", "letter", "recognise", "end"]
    page: int = 0
    # What a picture of the page shall fit into when it is upright.
    within: tuple[int, int] = (0, 0)
    turned: Rotation = 0


@dataclass(frozen=True, slots=True)
class TaskReport:
    """An order has ended: the exit status of its child, or the signal that ended it, negative.

    Number 0 is no order: the process has loaded what it needs and begins to work.
    """

    number: int
    status: int
    reason: str = ""


encode = msgspec.msgpack.encode
decode_request = msgspec.msgpack.Decoder(TaskRequest).decode
decode_report = msgspec.msgpack.Decoder(TaskReport).decode


def exit_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent ends, however that happens."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        sys.exit(1)  # it ended before we asked


def read_all(file: int) -> bytes:
    """All of an open file, from its beginning, whoever else reads it."""
    parts: list[bytes] = []
    place = 0
    while part := os.pread(file, 1 << 24, place):
        parts.append(part)
        place += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def write_all(file: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
