"""The archive on the local disk: files by path, never overwritten, each beside its metadata file.

The caller passes the paths, which come from `documents.archive_path`.
"""

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from errno import EISDIR, EOPNOTSUPP
from pathlib import Path
from typing import Final

from postroom.blobs.disk import disk_errors, fsync_path
from postroom.errors import NotFound

_FLAGS: Final = os.O_WRONLY | os.O_CLOEXEC


class DiskArchive:
    def __init__(self, root: Path) -> None:
        self.root = root

    async def put_once(self, path: str, content: bytes, metadata: Mapping[str, str]) -> None:
        """Write the metadata first, so that no file exists without it."""
        described = json.dumps(dict(metadata), indent=1).encode()
        with disk_errors(self.root):
            for name, data in ((f"{path}.metadata.json", described), (path, content)):
                await asyncio.to_thread(self._create, self.root / name, data)

    async def fetch(self, path: str) -> bytes:
        with disk_errors(self.root):
            try:
                return await asyncio.to_thread((self.root / path).read_bytes)
            except FileNotFoundError:
                raise NotFound(
                    "The archived file is missing: it was moved or deleted. Restore it from a backup."
                ) from None

    async def remove(self, path: str) -> None:
        """Remove the file, its metadata and the folders that are then empty: a folder names the sender."""
        with disk_errors(self.root):
            await asyncio.to_thread(self._remove, self.root / path)

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.metadata.json").unlink(missing_ok=True)
        folder = path.parent
        while folder != self.root and folder.is_relative_to(self.root):
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:  # other files are in it
                break
            folder = folder.parent
        if folder.is_dir():
            fsync_path(folder)

    def _create(self, path: Path, content: bytes) -> None:
        """Create the complete file or nothing; an existing file stays as it is.

        A process that is killed meanwhile leaves nothing behind, or a file that the next attempt removes.
        """
        self._ensure_directory(path.parent)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        partial = f".{path.name}.part"
        try:
            with os.fdopen(_open_nameless(partial, directory), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                with suppress(FileExistsError):
                    # By its descriptor: a name could belong to the file of another process by now.
                    os.link(f"/proc/self/fd/{file.fileno()}", path.name, dst_dir_fd=directory)
            os.fsync(directory)
        finally:
            _unlink(partial, directory)
            os.close(directory)

    def _ensure_directory(self, directory: Path) -> None:
        if directory.is_dir():
            return
        if directory != self.root:
            self._ensure_directory(directory.parent)
        directory.mkdir(mode=0o700, parents=directory == self.root, exist_ok=True)
        fsync_path(directory.parent)


def _open_nameless(partial: str, directory: int) -> int:
    """Open a new file that disappears with its process. Where the file system has none, it has a name.

    The name depends on the target only, so that the next attempt replaces what a killed process left.
    """
    try:
        return os.open(".", _FLAGS | os.O_TMPFILE, 0o600, dir_fd=directory)
    except OSError as error:
        if error.errno not in {EOPNOTSUPP, EISDIR}:
            raise
    _unlink(partial, directory)
    return os.open(partial, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory)


def _unlink(name: str, directory: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
