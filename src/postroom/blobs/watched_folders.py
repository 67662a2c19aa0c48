"""What is watched: a folder of the local disk, or a bucket. Never written to; links are not followed."""

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

# What programs call a file that they are still writing; and what begins with a dot.
_UNFINISHED: Final = (".part", ".partial", ".tmp", ".crdownload", ".filepart", "~")


@dataclass(frozen=True)
class BucketFolder:
    """Objects are whole, or not there."""

    bucket: "S3BlobStore | GcsBlobStore"
    settles: bool = False

    async def listing(self) -> list[WatchedFile]:
        return await self.bucket.listing()

    async def read(self, file: WatchedFile) -> bytes:
        return await self.bucket.read_file(file)


class DiskFolder:
    """Files may be there half-written: `settles` asks for two looks that find the same."""

    settles = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self._strange: dict[str, Path] = {}  # by the text that stands for a name which is none

    async def listing(self) -> list[WatchedFile]:
        return await asyncio.to_thread(self._listing)

    def _listing(self) -> list[WatchedFile]:
        def unreadable(error: OSError) -> None:
            raise error

        found: list[WatchedFile] = []
        try:
            for folder, folders, names in os.walk(self.root, onerror=unreadable):
                folders[:] = sorted(each for each in folders if not each.startswith("."))
                found += [
                    file
                    for name in sorted(names)
                    if not name.startswith(".") and not name.lower().endswith(_UNFINISHED)
                    if (file := self._file(Path(folder) / name)) is not None
                ]
        except OSError as error:
            raise OperatorError(
                f"The watched folder {self.root} cannot be read ({error.strerror}). Create it, let Postroom"
                " read it on every machine that runs workers, or correct `watch` in the pipelines' file."
            ) from None
        return found

    def _file(self, path: Path) -> WatchedFile | None:
        given = path.relative_to(self.root).as_posix()
        name = os.fsencode(given).decode(errors="backslashreplace")
        if name != given:
            self._strange[name] = path
        try:
            status = path.lstat()
        except FileNotFoundError:  # meanwhile
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        version = f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}"
        return WatchedFile(name, version, status.st_size)

    async def read(self, file: WatchedFile) -> bytes:
        """Raises Gone where it is no longer there, or is another one now."""
        return await asyncio.to_thread(self._read, file)

    def _read(self, file: WatchedFile) -> bytes:
        path = self._strange.get(file.name) or self.root / file.name
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as opened:
                content = opened.read()
        except OSError:
            raise NotFound("the file is no longer there") from None
        if self._file(path) != file or len(content) != file.size:
            raise NotFound("the file is being written")
        return content
