"""Where bytes are kept, by their SHA-256: local disk, S3 or GCS behind one port (`ports.BlobStore`).

`wiring.blobs(settings)` chooses one. Rows are the business of `store.blobs`.

blob = await blobs.put(organization, attachment.pieces())        -> Blob(sha256, size, created)
pieces = [piece async for piece in blobs.read(organization, sha256, start=0, end=None)]
"""

from postroom.blobs.disk import DiskBlobStore

__all__ = ["DiskBlobStore"]
