"""Proves that every stored byte is there and unchanged: reads all objects, computes their digests again.

Also finds objects that no row knows; the collection takes them away when they are old enough.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from postroom.errors import NotFound
from postroom.model import OrganizationId
from postroom.ports import BlobStore
from postroom.store import blobs
from postroom.store.blobs import Referrers, Row
from postroom.store.database import Database

BATCH: Final = 200


@dataclass(frozen=True, slots=True)
class BlobFault:
    """A blob that cannot be trusted, and what refers to it."""

    sha256: bytes
    problem: str
    referrers: Referrers


@dataclass
class BlobVerification:
    checked: int = 0
    size: int = 0
    faults: list[BlobFault] = field(default_factory=list[BlobFault])
    unknown: int = 0  # objects without a row


async def verify(
    database: Database, store: BlobStore, organization: OrganizationId, *, checked: Callable[[int], None]
) -> BlobVerification:
    """All blobs of one organization. `checked` hears after each how many bytes were read."""
    findings = BlobVerification()
    after = b""
    while True:
        async with database.transaction(organization) as connection:
            rows = await blobs.page(connection, after=after, limit=BATCH)
        if not rows:
            break
        for row in rows:
            await _check_blob(database, store, organization, row, findings)
            checked(row.size)
        after = rows[-1].sha256
    await _count_unknown(database, store, organization, findings)
    return findings


async def _check_blob(
    database: Database, store: BlobStore, organization: OrganizationId, row: Row, findings: BlobVerification
) -> None:
    digest, size = sha256(), 0
    findings.checked += 1
    try:
        async for piece in store.read(organization, row.sha256):
            digest.update(piece)
            size += len(piece)
    except NotFound:
        what = "missing"
    else:
        findings.size += size
        if digest.digest() == row.sha256 and size == row.size:
            return
        what = "changed"
    async with database.transaction(organization) as connection:
        if row.sha256 in await blobs.known(connection, [row.sha256]):  # not collected meanwhile
            findings.faults.append(BlobFault(row.sha256, what, await blobs.referrers(connection, row.sha256)))


async def _count_unknown(
    database: Database, store: BlobStore, organization: OrganizationId, findings: BlobVerification
) -> None:
    group: list[bytes] = []
    async for each in store.list_all(organization):
        group.append(each.sha256)
        if len(group) == BATCH:
            findings.unknown += await _count_missing_rows(database, organization, group)
            group = []
    if group:
        findings.unknown += await _count_missing_rows(database, organization, group)


async def _count_missing_rows(database: Database, organization: OrganizationId, group: list[bytes]) -> int:
    async with database.transaction(organization) as connection:
        return len(set(group) - await blobs.known(connection, group))
