"""Content on its way to a bucket: small in memory, large in a temporary file, hashed as it passes."""

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
    """What is to be stored, under its digest. The file is at its beginning."""

    sha256: bytes
    size: int
    file: IO[bytes] | None
    content: bytes | None


@asynccontextmanager
async def spool(content: Content) -> AsyncGenerator[SpooledContent]:
    """The name of an object is its digest, so all of it must have passed before any of it can be sent."""
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
