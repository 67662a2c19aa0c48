"""A limit on the bytes that an organization stores, so that one cannot fill the space of all.

The use is measured at most once a minute and counted in between. Processes that store at the same time may
exceed the limit by what they store in that minute.
"""

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from postroom.errors import OperatorError
from postroom.model import OrganizationId
from postroom.ports import Blob, BlobStore, Content, StoredBlob
from postroom.store import blobs, organizations
from postroom.store.database import Database

MEASURE_SECONDS: Final = 60.0
REMEDY: Final = "Raise POSTROOM_ORGANIZATION_STORAGE_GB, shorten the retention, or lower content policies."


@dataclass(slots=True)
class StorageUse:
    """Bytes as measured, plus what this process has stored since."""

    used_bytes: int = 0
    measured_at: float = field(default_factory=time.monotonic)

    @property
    def is_outdated(self) -> bool:
        return time.monotonic() - self.measured_at > MEASURE_SECONDS

    def add(self, blob: Blob) -> None:
        if blob.created:
            self.used_bytes += blob.size


@dataclass(frozen=True)
class LimitedBlobStore:
    """A blob store that accepts new blobs only while an organization stays below the limit."""

    store: BlobStore
    database: Database
    max_bytes: int
    _uses: dict[OrganizationId, StorageUse] = field(default_factory=dict[OrganizationId, StorageUse])

    async def put(self, organization: OrganizationId, content: Content) -> Blob:
        """Raises OperatorError at the limit: syncs and uploads wait, and nothing is lost."""
        use = await self._measure(organization)
        if use.used_bytes >= self.max_bytes:
            raise OperatorError(
                f"The files of this organization use {use.used_bytes / 1e9:,.2f} GB; the limit is"
                f" {self.max_bytes / 1e9:,.2f} GB. New files wait, and nothing is lost. {REMEDY}"
            )
        blob = await self.store.put(organization, content)
        use.add(blob)
        return blob

    async def _measure(self, organization: OrganizationId) -> StorageUse:
        use = self._uses.get(organization)
        if use is None or use.is_outdated:
            async with self.database.transaction(organization) as connection:
                use = StorageUse(await blobs.sum_sizes(connection))
            self._uses[organization] = use
        return use

    async def check(self) -> str:
        return await self.store.check()

    def read(
        self, organization: OrganizationId, sha256: bytes, *, start: int = 0, end: int | None = None
    ) -> AsyncGenerator[bytes]:
        return self.store.read(organization, sha256, start=start, end=end)

    async def find(self, organization: OrganizationId, sha256: bytes) -> StoredBlob | None:
        return await self.store.find(organization, sha256)

    async def delete(self, organization: OrganizationId, sha256: bytes) -> None:
        await self.store.delete(organization, sha256)

    def list_all(self, organization: OrganizationId) -> AsyncGenerator[StoredBlob]:
        return self.store.list_all(organization)

    async def get_time(self) -> datetime:
        return await self.store.get_time()


async def list_use(database: Database) -> list[tuple[OrganizationId, int]]:
    """The bytes that each organization stores."""
    async with database.engine() as connection:
        ids = await organizations.list_ids(connection)
    used: list[tuple[OrganizationId, int]] = []
    for organization in ids:
        async with database.transaction(organization) as connection:
            used.append((organization, await blobs.sum_sizes(connection)))
    return used
