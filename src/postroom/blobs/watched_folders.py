"""Watched folders on the local disk and in buckets: list and read their files.

Links are not followed. It changes no file and does not remember which ones it has listed;
`flow.documents.watch` does.
"""

import asyncio
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from postroom.errors import NotFound, OperatorError
from postroom.ports import WatchedFile

if TYPE_CHECKING:
    from postroom.blobs.gcs import GcsBlobStore
    from postroom.blobs.s3 import S3BlobStore

# Endings of files that programs are still writing. Names with a leading dot are skipped as well.
_UNFINISHED: Final = (".part", ".partial", ".tmp", ".crdownload", ".filepart", "~")


@dataclass(frozen=True)
class BucketFolder:
    """A bucket. Its objects are always complete."""

    bucket: "S3BlobStore | GcsBlobStore"
    may_hold_partial_files: bool = False

    async def list_files(self) -> list[WatchedFile]:
        return await self.bucket.list_files()

    async def read(self, file: WatchedFile) -> bytes:
        return await self.bucket.read_file(file)


class DiskFolder:
    """A directory. Its files may be incomplete: two equal listings are required before one is read."""

    may_hold_partial_files = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self._undecodable: dict[str, Path] = {}  # paths whose names are not UTF-8, by their escaped names

    async def list_files(self) -> list[WatchedFile]:
        return await asyncio.to_thread(self._listing)

    def _listing(self) -> list[WatchedFile]:
        def unreadable(error: OSError) -> None:
            raise error

        files: list[WatchedFile] = []
        try:
            for folder, folders, names in os.walk(self.root, onerror=unreadable):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                files += [
                    file
                    for name in sorted(names)
                    if not name.startswith(".") and not name.lower().endswith(_UNFINISHED)
                    if (file := self._file(Path(folder) / name)) is not None
                ]
        except OSError as error:
            raise OperatorError(
                f"The watched folder {self.root} cannot be read ({error.strerror}). Create it, let Postroom"
                " read it on every machine that runs workers, or correct `watch` in the pipelines file."
            ) from None
        return files

    def _file(self, path: Path) -> WatchedFile | None:
        relative = path.relative_to(self.root).as_posix()
        name = os.fsencode(relative).decode(errors="backslashreplace")
        if name != relative:
            self._undecodable[name] = path
        try:
            status = path.lstat()
        except FileNotFoundError:  # deleted meanwhile
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        version = f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
        return WatchedFile(name, version, status.st_size)

    async def read(self, file: WatchedFile) -> bytes:
        """Raises NotFound if the file is gone or has changed."""
        return await asyncio.to_thread(self._read, file)

    def _read(self, file: WatchedFile) -> bytes:
        path = self._undecodable.get(file.name) or self.root / file.name
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as opened:
                content = opened.read()
        except OSError:
            raise NotFound("the file no longer exists") from None
        if self._file(path) != file or len(content) != file.size:
            raise NotFound("the file is being written")
        return content
