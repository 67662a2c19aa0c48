"""Blobs whose bytes were changed are fetched again from the provider."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from postroom.blobs import DiskBlobStore
from postroom.flow.storage import blob_verification


@dataclass
class SlowRemoval:
    """A blob store in which much happens before an object is removed."""

    store: DiskBlobStore
    meanwhile: Callable[[], Awaitable[None]]

    async def delete(self, organization, sha256):
        await self.meanwhile()
        await self.store.delete(organization, sha256)


async def test_a_sync_during_the_removal_of_changed_bytes_does_not_lose_them(labels, tmp_path):
    labels.blobs = store = DiskBlobStore(tmp_path / "blobs")
    labels.remote.deliver(files=[("a.pdf", "application/pdf", b"%PDF-a")])
    await labels.settle()
    [path] = tmp_path.glob("blobs/*/??/*")
    path.write_bytes(b"changed")
    given = labels.database, store, labels.organization
    [fault] = (await blob_verification.verify(*given, checked=lambda _: None)).faults
    slow = SlowRemoval(store, labels.settle)
    assert await blob_verification.refetch(labels.database, slow, labels.organization, [fault]) == 1
    await labels.settle()
    assert path.read_bytes() == b"%PDF-a"
    assert (await blob_verification.verify(*given, checked=lambda _: None)).faults == []
