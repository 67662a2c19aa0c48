"""What lies inside ZIP files and forwarded messages, and inside those in there, within bounds. Pure.

Names are labels: nothing is ever written under one. Whatever is left out comes with its reason.
"""

import lzma
import re
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Final

from postroom.documents.files.file_type import FileType, detect, parse_zip_end
from postroom.documents.sandbox.file_limits import FILE_BYTES

_SMALL_BYTES: Final = 1000
# Everything that opening a ZIP file of foreign bytes raises, by each way of packing; bzip2 raises the
# built-in ones. What is short or has wrong lengths comes as LookupError or struct.error.
_DAMAGED: Final = (
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
    """How far to go into one attachment, everything inside it counted together."""

    depth: int = 3
    files: int = 100
    file_bytes: int = FILE_BYTES
    total_bytes: int = 100_000_000
    # How much larger than packed a file may be. An empty page scanned without compression comes near.
    ratio: int = 400


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file as a message encloses it."""

    name: str
    media_type: str
    content: bytes
    is_inline: bool = False
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class UnpackedFile:
    """A file that was inside; `inside` names the containers around it, the outermost first."""

    name: str
    kind: FileType
    content: bytes
    inside: tuple[str, ...]
    media_type: str = ""
    is_inline: bool = False
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """Something that was inside and is not taken out, and why."""

    name: str
    inside: tuple[str, ...]
    reason: str


# The files that a message, given as its bytes, encloses. A forwarded message among them is its bytes again.
ListAttachments = Callable[[bytes], Iterable[AttachedFile]]


def unpack(
    content: bytes, name: str, read_message: ListAttachments, bounds: UnpackLimits | None = None
) -> Iterator[UnpackedFile | SkippedEntry]:
    """The files inside a container, in their order; of a file that is no container, nothing."""
    yield from _Unpacking(read_message, bounds or UnpackLimits()).open(content, sanitize_name(name), ())


def sanitize_name(name: str) -> str:
    """The last part of a path, without anything that could confuse a program or a person."""
    name = unicodedata.normalize("NFC", name.encode(errors="replace").decode())
    name = re.split(r"[/\\:]", name)[-1]
    # Marks that turn the direction of writing make exe.pdf of fdp.exe.
    name = "".join(each for each in name if unicodedata.category(each)[0] != "C").strip(" .")
    return name[:200] or "file"


@dataclass(slots=True)
class _Unpacking:
    read_message: ListAttachments
    bounds: UnpackLimits
    files: int = 0
    size: int = 0

    def open(
        self, content: bytes, name: str, inside: tuple[str, ...]
    ) -> Iterator[UnpackedFile | SkippedEntry]:
        detected = detect(content)
        kind = detected.kind
        if kind not in {FileType.ZIP, FileType.MESSAGE}:
            if content.startswith(b"PK"):
                yield SkippedEntry(name, inside, detected.reason)
            return
        if len(inside) >= self.bounds.depth:
            yield SkippedEntry(name, inside, f"Containers are opened {self.bounds.depth} deep and no deeper.")
            return
        inside = (*inside, name)
        entries = self._entries(content, inside) if kind is FileType.ZIP else self._enclosed(content, inside)
        for entry in entries:
            if isinstance(entry, SkippedEntry):
                yield entry
            elif entry.kind in {FileType.ZIP, FileType.MESSAGE}:
                yield from self.open(entry.content, entry.name, inside)
            else:
                yield entry
            if self.files > self.bounds.files or self.size > self.bounds.total_bytes:
                return

    def _enclosed(self, content: bytes, inside: tuple[str, ...]) -> Iterator[UnpackedFile | SkippedEntry]:
        for each in self.read_message(content):
            name = sanitize_name(each.name)
            if refusal := self._count(len(each.content)):
                yield SkippedEntry(name, inside, refusal)
                continue
            kind = detect(each.content, each.name).kind
            yield UnpackedFile(
                name, kind, each.content, inside, each.media_type, each.is_inline, each.content_id
            )

    def _entries(self, content: bytes, inside: tuple[str, ...]) -> Iterator[UnpackedFile | SkippedEntry]:
        end = parse_zip_end(content)
        if end is None or end[0] > 10 * self.bounds.files:
            yield SkippedEntry(inside[-1], inside[:-1], "The ZIP file has too many entries.")
            return
        try:
            archive = zipfile.ZipFile(BytesIO(content))
        except _DAMAGED:
            yield SkippedEntry(inside[-1], inside[:-1], "The ZIP file is damaged.")
            return
        with archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    yield self._entry(archive, entry, inside)

    def _entry(
        self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, inside: tuple[str, ...]
    ) -> UnpackedFile | SkippedEntry:
        name = sanitize_name(entry.filename)
        if entry.flag_bits & 1:
            return SkippedEntry(name, inside, "The file is encrypted.")
        if entry.file_size > self.bounds.ratio * max(entry.compress_size, _SMALL_BYTES):
            return SkippedEntry(
                name, inside, f"The file is packed more than {self.bounds.ratio} times smaller."
            )
        if refusal := self._count(entry.file_size):
            return SkippedEntry(name, inside, refusal)
        try:
            with archive.open(entry) as packed:
                # What the directory says is a claim: one byte more than that tells a lie.
                content = packed.read(entry.file_size + 1)
        except _DAMAGED:
            return SkippedEntry(name, inside, "The file is damaged, or packed in a way that is not known.")
        if len(content) != entry.file_size:
            return SkippedEntry(name, inside, "The file is not as large as the ZIP file says.")
        return UnpackedFile(name, detect(content, name).kind, content, inside)

    def _count(self, size: int) -> str:
        """Count a file in, or say why it may not come in."""
        if size > self.bounds.file_bytes:
            return f"The file has {size:,} bytes; {self.bounds.file_bytes:,} are taken at most."
        self.files += 1
        if self.files > self.bounds.files:
            return f"The container holds more than {self.bounds.files} files; the rest is left out."
        self.size += size
        if self.size > self.bounds.total_bytes:
            return f"The container holds more than {self.bounds.total_bytes:,} bytes; the rest is left out."
        return ""
