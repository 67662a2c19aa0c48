"""Read a whole blob into memory, for steps and pages that need all bytes of a file."""

from postroom.model import OrganizationId
from postroom.ports import BlobStore


async def read_blob(blobs: BlobStore, organization: OrganizationId, sha256: bytes) -> bytes:
    """Return the bytes of a blob. Raises NotFound if there is no such blob."""
    return b"".join([piece async for piece in blobs.read(organization, sha256)])
