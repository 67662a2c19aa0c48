"""Unpacks ZIP files, forwarded messages and winmail.dat files, nested ones too, within limits. Pure.

Names are labels only: nothing is ever written under one. Every skipped entry has a reason. The caller passes
the decoders of messages and winmail.dat.
"""

import lzma
import re
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Final

from postroom.documents.files.file_type import TNEF_START, FileType, detect, parse_zip_end
from postroom.documents.sandbox.file_limits import FILE_BYTES

CONTAINERS: Final = frozenset({FileType.ZIP, FileType.MESSAGE, FileType.TNEF})
_SMALL_BYTES: Final = 1000
# Everything that opening a ZIP file of untrusted bytes raises, for each compression method; bzip2 raises the
# built-in ones. Truncated entries and wrong lengths raise LookupError or struct.error.
_ZIP_ERRORS: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    LookupError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class UnpackLimits:
    """Limits for one attachment; everything inside it counts together."""

    depth: int = 3
    files: int = 100
    file_bytes: int = FILE_BYTES
    total_bytes: int = 100_000_000
    # How many times larger than its packed size a file may be. An empty page scanned without compression
    # comes close to this.
    ratio: int = 400
    # How many times larger than the attachment all its files together may be. Small ones may always hold
    # `free_bytes`, so that a single scan or a collection of XML invoices fits.
    total_ratio: int = 50
    free_bytes: int = FILE_BYTES

    def bound_total(self, size: int) -> "UnpackLimits":
        """The limits for an attachment of this size."""
        return replace(self, total_bytes=min(self.total_bytes, max(self.free_bytes, self.total_ratio * size)))


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file as a message or a winmail.dat file contains it."""

    name: str
    media_type: str
    content: bytes
    is_inline: bool = False
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class UnpackedFile:
    """A file from a container; `containers` names the containers around it, the outermost first.

    `unsupported` is the reason why its type is not supported.
    """

    name: str
    file_type: FileType
    content: bytes
    containers: tuple[str, ...]
    media_type: str = ""
    is_inline: bool = False
    content_id: str | None = None
    unsupported: str = ""


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """An entry of a container that is not unpacked, and why."""

    name: str
    containers: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ContainerEntry:
    """Either an unpacked file or a skipped entry, for the way from a child to the worker."""

    unpacked: UnpackedFile | None = None
    skipped: SkippedEntry | None = None


# Lists the files inside the bytes of a container. A message among them is given as its bytes.
ListAttachedFiles = Callable[[bytes], Iterable[AttachedFile]]
# The decoders for containers other than ZIP files, which are decoded here.
ContainerDecoders = Mapping[FileType, ListAttachedFiles]


def unpack(
    content: bytes, name: str, decoders: ContainerDecoders, limits: UnpackLimits | None = None
) -> Iterator[UnpackedFile | SkippedEntry]:
    """Yield the files inside a container, in order.

    A file that is not a container yields nothing.
    """
    bounded = (limits or UnpackLimits()).bound_total(len(content))
    yield from _Unpacker(decoders, bounded).open(content, sanitize_name(name), ())


def sanitize_name(name: str) -> str:
    """Return the last part of a path, without characters that could mislead a program or a person."""
    name = unicodedata.normalize("NFC", name.encode(errors="replace").decode())
    name = re.split(r"[/\\:]", name)[-1]
    # Bidirectional control characters can make fdp.exe look like exe.pdf.
    name = "".join(character for character in name if unicodedata.category(character)[0] != "C").strip(" .")
    return name[:200] or "file"


@dataclass(slots=True)
class _Unpacker:
    decoders: ContainerDecoders
    limits: UnpackLimits
    files: int = 0
    size: int = 0

    def open(
        self, content: bytes, name: str, containers: tuple[str, ...]
    ) -> Iterator[UnpackedFile | SkippedEntry]:
        detected = detect(content)
        if detected.file_type not in CONTAINERS:
            if content.startswith((b"PK", TNEF_START)):
                yield SkippedEntry(name, containers, detected.reason)
            return
        if len(containers) >= self.limits.depth:
            yield SkippedEntry(name, containers, f"Containers are opened at most {self.limits.depth} deep.")
            return
        containers = (*containers, name)
        for entry in self._entries(content, detected.file_type, containers):
            if isinstance(entry, UnpackedFile) and entry.file_type in CONTAINERS:
                yield from self.open(entry.content, entry.name, containers)
            else:
                yield entry
            if self.files > self.limits.files or self.size > self.limits.total_bytes:
                return

    def _entries(
        self, content: bytes, file_type: FileType, containers: tuple[str, ...]
    ) -> Iterator[UnpackedFile | SkippedEntry]:
        if file_type is FileType.ZIP:
            yield from self._zip_entries(content, containers)
            return
        for file in self.decoders[file_type](content):
            name = sanitize_name(file.name)
            if refusal := self._count(len(file.content)):
                yield SkippedEntry(name, containers, refusal)
                continue
            detected = detect(file.content, file.name)
            yield UnpackedFile(
                name,
                detected.file_type,
                file.content,
                containers,
                file.media_type,
                file.is_inline,
                file.content_id,
                detected.reason,
            )

    def _zip_entries(
        self, content: bytes, containers: tuple[str, ...]
    ) -> Iterator[UnpackedFile | SkippedEntry]:
        end = parse_zip_end(content)
        if end is None or end[0] > 10 * self.limits.files:
            yield SkippedEntry(containers[-1], containers[:-1], "The ZIP file has too many entries.")
            return
        try:
            archive = zipfile.ZipFile(BytesIO(content))
        except _ZIP_ERRORS:
            yield SkippedEntry(containers[-1], containers[:-1], "The ZIP file is damaged.")
            return
        with archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    yield self._zip_entry(archive, entry, containers)

    def _zip_entry(
        self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, containers: tuple[str, ...]
    ) -> UnpackedFile | SkippedEntry:
        name = sanitize_name(entry.filename)
        if entry.flag_bits & 1:
            return SkippedEntry(name, containers, "The file is encrypted.")
        if entry.file_size > self.limits.ratio * max(entry.compress_size, _SMALL_BYTES):
            return SkippedEntry(
                name, containers, f"The file's compression ratio is above {self.limits.ratio}."
            )
        if refusal := self._count(entry.file_size):
            return SkippedEntry(name, containers, refusal)
        try:
            with archive.open(entry) as packed:
                # The directory only claims a size: reading one byte more exposes a false claim.
                content = packed.read(entry.file_size + 1)
        except _ZIP_ERRORS:
            return SkippedEntry(
                name, containers, "The file is damaged or uses an unknown compression method."
            )
        if len(content) != entry.file_size:
            return SkippedEntry(name, containers, "The file's size differs from the ZIP directory.")
        detected = detect(content, name)
        return UnpackedFile(name, detected.file_type, content, containers, unsupported=detected.reason)

    def _count(self, size: int) -> str:
        """Count a file, or return why it exceeds the limits."""
        if size > self.limits.file_bytes:
            return f"The file has {size:,} bytes; the limit is {self.limits.file_bytes:,}."
        self.files += 1
        if self.files > self.limits.files:
            return f"The container holds more than {self.limits.files} files; the rest is skipped."
        self.size += size
        if self.size > self.limits.total_bytes:
            limit = f"{self.limits.total_bytes:,} bytes, the limit for its size"
            return f"The container unpacks to more than {limit}; the rest is skipped."
        return ""
