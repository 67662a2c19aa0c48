"""The blob store on the local disk, readable by the owner only.

A blob is written to a temporary file, synced, linked to its final name, and the directory is synced: a file
under its final name is always complete. Puts that arrive during a write form the next group, whose files and
directories are synced concurrently: a sync costs milliseconds, and the file system merges concurrent ones.
Also the translation of disk errors, which `disk_archive` shares.
"""

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import EACCES, EDQUOT, EEXIST, EIO, ENAMETOOLONG, ENOSPC, ENOTDIR, EPERM, EROFS
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Final
from uuid import UUID, uuid4

from postroom.blobs.object_names import object_name, parse_digest
from postroom.errors import NotFound, OperatorError, PermanentError, TransientError
from postroom.model import OrganizationId
from postroom.ports import Blob, Content, StoredBlob

PIECE_BYTES: Final = 1 << 18
LARGEST_GROUP: Final = 256
SYNCS_AT_ONCE: Final = 8
STALE_SECONDS: Final = 86_400  # older temporary files were left behind by killed processes
# New blobs leave this much free, or a twentieth of a small disk: the database, often on the same disk, must
# still be able to write.
RESERVED_BYTES: Final = 200_000_000
_UNUSABLE: Final = frozenset({EACCES, EDQUOT, EEXIST, EIO, ENOSPC, ENOTDIR, EPERM, EROFS})


@dataclass(slots=True)
class _StagedBlob:
    """Content before it is linked: a temporary file, or none if the store already has the content."""

    organization: OrganizationId
    sha256: bytes
    size: int
    temporary: Path | None


class DiskBlobStore:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._waiting: list[tuple[OrganizationId, bytes | _StagedBlob, asyncio.Future[Blob]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._syncing = ThreadPoolExecutor(SYNCS_AT_ONCE, thread_name_prefix="blobs")

    async def check(self) -> str:
        """Remove stale temporary files, and return the id of the directory.

        It is the same on all machines that share the directory, and different elsewhere.
        """
        with disk_errors(self.root):
            await asyncio.to_thread(self._remove_stale)
            return f"disk:{await asyncio.to_thread(self._get_id)}"

    async def put(self, organization: OrganizationId, content: Content) -> Blob:
        if isinstance(content, bytes):
            return await self._put_in_group(organization, content)
        if isinstance(content, AsyncIterable):
            staged = await self._stage_stream(organization, content)
        else:
            staged = await asyncio.to_thread(self._stage, organization, content)
        return await self._put_in_group(organization, staged)

    async def read(
        self, organization: OrganizationId, sha256: bytes, *, start: int = 0, end: int | None = None
    ) -> AsyncGenerator[bytes]:
        with disk_errors(self.root):
            try:
                file = await asyncio.to_thread(self._path(organization, sha256).open, "rb", buffering=0)
            except FileNotFoundError:
                raise NotFound("the bytes of a blob are missing on the disk") from None
            with file:
                file.seek(start)
                left = None if end is None else end - start
                while left is None or left > 0:
                    wanted = PIECE_BYTES if left is None else min(left, PIECE_BYTES)
                    piece = await asyncio.to_thread(file.read, wanted)
                    if not piece:
                        break
                    left = None if left is None else left - len(piece)
                    yield piece

    async def find(self, organization: OrganizationId, sha256: bytes) -> StoredBlob | None:
        with disk_errors(self.root):
            try:
                status = await asyncio.to_thread(self._path(organization, sha256).stat)
            except FileNotFoundError:
                return None
        return StoredBlob(sha256, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    async def delete(self, organization: OrganizationId, sha256: bytes) -> None:
        with disk_errors(self.root):
            await asyncio.to_thread(self._path(organization, sha256).unlink, missing_ok=True)

    async def list_all(self, organization: OrganizationId) -> AsyncGenerator[StoredBlob]:
        for number in range(256):
            shard = self.root / str(organization) / f"{number:02x}"
            with disk_errors(self.root):
                blobs = await asyncio.to_thread(_list_shard, shard)
            for blob in blobs:
                yield blob

    async def get_time(self) -> datetime:
        with disk_errors(self.root):
            return await asyncio.to_thread(self._get_time)

    def _path(self, organization: OrganizationId, digest: bytes) -> Path:
        return self.root / object_name(organization, digest)

    def _get_id(self) -> UUID:
        path = self.root / "place"
        with suppress(FileNotFoundError):
            return UUID(path.read_text(encoding="ascii").strip())
        new = self._temporary()
        new.write_text(f"{uuid4()}\n", encoding="ascii")
        new.chmod(0o600)
        fsync_path(new)
        with suppress(FileExistsError):  # another process was first: its id counts
            os.link(new, path)
        new.unlink()
        fsync_path(self.root)
        return UUID(path.read_text(encoding="ascii").strip())

    def _get_time(self) -> datetime:
        """The time of the file system, which may be on another machine. Needs no space on the disk."""
        self._get_id()
        path = self.root / "place"
        os.utime(path)
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)

    def _temporary(self) -> Path:
        directory = self.root / "new"
        if not directory.is_dir():
            with disk_errors(self.root):
                self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
                directory.mkdir(mode=0o700, exist_ok=True)
                fsync_path(self.root.parent)
        self._require_space(directory)
        return directory / secrets.token_hex(16)

    def _require_space(self, directory: Path) -> None:
        with disk_errors(self.root):
            usage = shutil.disk_usage(directory)
        reserved = min(RESERVED_BYTES, usage.total // 20)
        if usage.free < reserved:
            raise OperatorError(
                f"The disk of {self.root} has {usage.free / 1e6:,.0f} MB left; {reserved / 1e6:,.0f} MB are"
                " reserved for the database. New files wait, and nothing is lost."
                " Free some space, or move POSTROOM_HOME to a larger disk."
            )

    def _stage(self, organization: OrganizationId, pieces: Iterable[bytes]) -> _StagedBlob:
        writing = _TemporaryFile(self._temporary())
        with writing:
            for piece in pieces:
                with disk_errors(self.root):  # not errors of the source of the pieces
                    writing.add(piece)
        return writing.staged(organization)

    async def _stage_stream(self, organization: OrganizationId, pieces: AsyncIterable[bytes]) -> _StagedBlob:
        writing = _TemporaryFile(self._temporary())
        with writing:
            async for piece in pieces:
                with disk_errors(self.root):
                    await asyncio.to_thread(writing.add, piece)
        return writing.staged(organization)

    async def _put_in_group(self, organization: OrganizationId, content: bytes | _StagedBlob) -> Blob:
        """Join the next group. It is written even if this caller is cancelled."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((organization, content, future))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_groups())
        return await future

    async def _write_groups(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:LARGEST_GROUP], self._waiting[LARGEST_GROUP:]
            try:
                with disk_errors(self.root):
                    blobs = await asyncio.to_thread(self._write, [entry[:2] for entry in group])
            except Exception as error:  # noqa: BLE001  # raised in all callers of the group
                for _, _, future in group:
                    if not future.done():
                        future.set_exception(error)
            else:
                for blob, (_, _, future) in zip(blobs, group, strict=True):
                    if not future.done():
                        future.set_result(blob)

    def _write(self, group: Sequence[tuple[OrganizationId, bytes | _StagedBlob]]) -> list[Blob]:
        staged: list[_StagedBlob] = []
        try:
            for organization, content in group:
                blob = self._stage_bytes(organization, content) if isinstance(content, bytes) else content
                staged.append(blob)
            list(self._syncing.map(fsync_path, [blob.temporary for blob in staged if blob.temporary]))
            changed = {self._path(blob.organization, blob.sha256).parent for blob in staged}
            for directory in changed.copy():
                changed |= _make_directories(directory)
            linked = [self._link(blob) for blob in staged]
            list(self._syncing.map(fsync_path, changed))
        finally:
            for blob in staged:
                if blob.temporary is not None:
                    blob.temporary.unlink(missing_ok=True)
        return linked

    def _stage_bytes(self, organization: OrganizationId, content: bytes) -> _StagedBlob:
        digest = sha256(content).digest()
        if self._path(organization, digest).exists():
            return _StagedBlob(organization, digest, len(content), None)
        return self._stage(organization, [content])

    def _link(self, staged: _StagedBlob) -> Blob:
        """Link the file to its final name. An existing file of that name has the same bytes."""
        if staged.temporary is None:
            return Blob(staged.sha256, staged.size, created=False)
        path = self._path(staged.organization, staged.sha256)
        try:
            os.link(staged.temporary, path)
        except FileExistsError:
            return Blob(staged.sha256, staged.size, created=False)
        return Blob(staged.sha256, staged.size, created=True)

    def _remove_stale(self) -> None:
        """Remove temporary files of killed processes."""
        with suppress(FileNotFoundError):
            for file in (self.root / "new").iterdir():
                with suppress(FileNotFoundError):
                    if file.stat().st_mtime < time() - STALE_SECONDS:
                        file.unlink()


class _TemporaryFile:
    """A temporary file that is being written; removed if that fails."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.digest = sha256()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with disk_errors(path.parent.parent):
            self.file = os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.file.close()
        if kind is not None:
            self.path.unlink(missing_ok=True)

    def add(self, piece: bytes) -> None:
        self.digest.update(piece)
        self.size += len(piece)
        rest = memoryview(piece)
        while rest:
            rest = rest[self.file.write(rest) :]

    def staged(self, organization: OrganizationId) -> _StagedBlob:
        return _StagedBlob(organization, self.digest.digest(), self.size, self.path)


def fsync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_directories(directory: Path) -> set[Path]:
    """Create a shard if it is missing; returns the directories that have a new entry."""
    changed: set[Path] = set()
    for folder in (directory.parent, directory):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
            changed.add(folder.parent)
    return changed


def _list_shard(shard: Path) -> list[StoredBlob]:
    blobs: list[StoredBlob] = []
    with suppress(FileNotFoundError), os.scandir(shard) as entries:
        for entry in entries:
            digest = parse_digest(entry.name)
            with suppress(FileNotFoundError):
                if digest is not None and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    moment = datetime.fromtimestamp(status.st_mtime, UTC)
                    blobs.append(StoredBlob(digest, status.st_size, moment))
    return blobs


@contextmanager
def disk_errors(root: Path) -> Generator[None]:
    """Translate errors of the disk: OperatorError if an operator must act, otherwise TransientError."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else type(error).__name__
        if error.errno == ENAMETOOLONG:
            raise PermanentError("the file name is too long for the disk") from error
        if error.errno not in _UNUSABLE:
            raise TransientError(f"the blob directory could not be accessed: {reason}") from error
        raise OperatorError(
            f"Blobs cannot be stored in {root}: {reason}."
            " Free some space or give this user access there, or set POSTROOM_HOME to another directory."
        ) from error
