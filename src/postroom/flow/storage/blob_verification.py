"""Verify that every blob exists and is unchanged, by recomputing its digest. Changes nothing.

Also counts objects without a row; garbage collection removes those once they are old enough.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from postroom.errors import NotFound
from postroom.model import OrganizationId
from postroom.ports import BlobStore
from postroom.store import blobs
from postroom.store.blobs import BlobReferences, BlobRow
from postroom.store.database import Database

BATCH: Final = 200


@dataclass(frozen=True, slots=True)
class BlobFault:
    """A missing or changed blob, and what refers to it."""

    sha256: bytes
    problem: str
    referrers: BlobReferences


@dataclass
class BlobVerification:
    """The result of a verification."""

    checked: int = 0
    size: int = 0
    faults: list[BlobFault] = field(default_factory=list[BlobFault])
    unknown: int = 0  # objects without a row


async def verify(
    database: Database, store: BlobStore, organization: OrganizationId, *, checked: Callable[[int], None]
) -> BlobVerification:
    """Verify all blobs of one organization. Calls `checked` with the size of each."""
    result = BlobVerification()
    after = b""
    while True:
        async with database.transaction(organization) as connection:
            rows = await blobs.list_page(connection, after=after, limit=BATCH)
        if not rows:
            break
        for row in rows:
            await _check_blob(database, store, organization, row, result)
            checked(row.size)
        after = rows[-1].sha256
    await _count_unknown(database, store, organization, result)
    return result


async def _check_blob(
    database: Database,
    store: BlobStore,
    organization: OrganizationId,
    row: BlobRow,
    result: BlobVerification,
) -> None:
    digest, size = sha256(), 0
    result.checked += 1
    try:
        async for piece in store.read(organization, row.sha256):
            digest.update(piece)
            size += len(piece)
    except NotFound:
        what = "missing"
    else:
        result.size += size
        if digest.digest() == row.sha256 and size == row.size:
            return
        what = "changed"
    async with database.transaction(organization) as connection:
        if row.sha256 in await blobs.find_existing(
            connection, [row.sha256]
        ):  # not removed by garbage collection meanwhile
            result.faults.append(
                BlobFault(row.sha256, what, await blobs.list_references(connection, row.sha256))
            )


async def _count_unknown(
    database: Database, store: BlobStore, organization: OrganizationId, result: BlobVerification
) -> None:
    group: list[bytes] = []
    async for each in store.list_all(organization):
        group.append(each.sha256)
        if len(group) == BATCH:
            result.unknown += await _count_missing_rows(database, organization, group)
            group = []
    if group:
        result.unknown += await _count_missing_rows(database, organization, group)


async def _count_missing_rows(database: Database, organization: OrganizationId, group: list[bytes]) -> int:
    async with database.transaction(organization) as connection:
        return len(set(group) - await blobs.find_existing(connection, group))
