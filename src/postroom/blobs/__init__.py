"""Stores for bytes by their SHA-256 (local disk, S3, GCS), the archive on disk, and watched folders.

`wiring.storage.build_blob_store(settings)` chooses one. The rows that refer to blobs are in `store.blobs`.

blob = await blobs.put(organization, attachment.pieces())        -> Blob(sha256, size, created)
pieces = [piece async for piece in blobs.read(organization, sha256, start=0, end=None)]
"""

from postroom.blobs.disk import DiskBlobStore

__all__ = ["DiskBlobStore"]
