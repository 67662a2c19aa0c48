"""The archive on the local disk: files by path, never overwritten, each beside its metadata file.

The caller passes the paths, which come from `documents.archive_path`.
"""

import asyncio
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from postroom.blobs.disk import disk_errors, fsync_path
from postroom.errors import NotFound


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
                raise NotFound("the archive has no such file") from None

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
        """Create the complete file or nothing; an existing file stays as it is."""
        self._ensure_directory(path.parent)
        temporary = path.parent / f".{secrets.token_hex(8)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, path)
            except FileExistsError:
                return
        finally:
            temporary.unlink(missing_ok=True)
        fsync_path(path.parent)

    def _ensure_directory(self, directory: Path) -> None:
        if directory.is_dir():
            return
        if directory != self.root:
            self._ensure_directory(directory.parent)
        directory.mkdir(mode=0o700, parents=directory == self.root, exist_ok=True)
        fsync_path(directory.parent)
