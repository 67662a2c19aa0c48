"""Buffers content in memory or in a temporary file and hashes it, before a bucket uploads it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import IO, Final, Protocol

from postroom.ports import Content

IN_MEMORY_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class SpooledContent:
    """Content with its digest: in `file`, at its beginning, or in `content`."""

    sha256: bytes
    size: int
    file: IO[bytes] | None
    content: bytes | None


@asynccontextmanager
async def spool(content: Content) -> AsyncGenerator[SpooledContent]:
    """Read all of the content before it is uploaded: an object is named by its digest."""
    if isinstance(content, bytes):
        digest = await asyncio.to_thread(sha256, content)
        yield SpooledContent(digest.digest(), len(content), None, content)
        return
    with SpooledTemporaryFile[bytes](IN_MEMORY_BYTES) as file:
        digest = sha256()
        if isinstance(content, AsyncIterable):
            async for piece in content:
                await asyncio.to_thread(_append, file, digest, [piece])
        else:
            await asyncio.to_thread(_append, file, digest, content)
        size = file.tell()
        file.seek(0)
        small = file.read() if size <= IN_MEMORY_BYTES else None
        yield SpooledContent(digest.digest(), size, None if small is not None else file, small)


class _HashObject(Protocol):
    def update(self, data: bytes, /) -> None: ...


def _append(file: IO[bytes], digest: _HashObject, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        digest.update(piece)
        file.write(piece)
