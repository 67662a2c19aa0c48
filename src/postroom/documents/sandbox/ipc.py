"""Messages to and from helper processes: requests with open files, and reports. Also file helpers.

It starts no process: `helper_process` does.
"""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from postroom.documents.files.file_reading import Rotation
from postroom.documents.page_ranges import PageRange
from postroom.documents.sandbox.confinement import Confinement
from postroom.documents.sandbox.file_limits import FileLimits

# Exit statuses of a child: it wrote a result; it wrote the reason why there is none; it ran out of memory; it
# wrote that the password is missing or wrong.
SUCCEEDED: Final = 0
REFUSED: Final = 10
OUT_OF_MEMORY: Final = 11
LOCKED: Final = 12
MAX_MESSAGE_BYTES: Final = 4096
# More than any result needs: the bitmap of a page, or the words and embedded files of a document.
MAX_RESULT_BYTES: Final = 160_000_000
# Width and height, before the pixels of a bitmap: three bytes each (red, green, blue), from the top left.
BITMAP_HEADER: Final = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A task for the first file that comes with the request; its result goes into the second.

    `cancel` comes without files and ends the task with the same number.
    """

    number: int
    task: Literal[
        "read", "unpack", "analyze", "bitmap", "image", "sanitize_html", "decrypt", "split", "ocr", "cancel"
    ]
    page: int = 0
    # The size in pixels that the upright page image must fit into.
    fit_within: tuple[int, int] = (0, 0)
    rotation: Rotation = 0
    name: str = ""  # of a container
    containers: int = 1  # that share the limits for one message
    ranges: tuple[PageRange, ...] = ()  # of pages, each of which becomes a file
    password: str = field(default="", repr=False)  # of an encrypted file


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The end of a task: the exit status of its child, or the negative number of the signal that ended it.

    Number 0 is not a task: the process has loaded its libraries and is ready; it says how it is confined.
    """

    number: int
    status: int
    reason: str = ""
    confinement: Confinement | None = None
    cpu_seconds: float = 0.0  # that the task used


# Takes the bytes of the first file and returns what goes into the second.
ChildTask = Callable[[bytes, TaskRequest, FileLimits], bytes | memoryview]
encode = msgspec.msgpack.encode
decode_request = msgspec.msgpack.Decoder(TaskRequest).decode
decode_report = msgspec.msgpack.Decoder(TaskReport).decode


def read_all(file: int) -> bytes:
    """Read an open file from its beginning, without moving its offset, which other processes share."""
    chunks: list[bytes] = []
    offset = 0
    while chunk := os.pread(file, 1 << 24, offset):
        chunks.append(chunk)
        offset += len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def write_all(file: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
