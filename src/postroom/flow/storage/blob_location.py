"""The check that every process of an installation stores its blobs in the same place."""

from typing import Final

from postroom.errors import OperatorError
from postroom.ports import BlobStore
from postroom.store import blobs as blob_rows
from postroom.store.database import Database

MISMATCH: Final = "This process uses a different blob location than the one recorded in the database"
MISMATCH_REMEDY: Final = (
    "If workers run on several machines, set POSTROOM_BLOBS to the same bucket on all of them, or share the"
    " directory. After moving the blobs, run `postroom blobs adopt`."
)


async def require_same_location(database: Database, blobs: BlobStore) -> None:
    """Refuse to run beside blobs on another machine's disk or in another bucket.

    The first process of an installation decides where the blobs are.
    """
    own = await blobs.check()
    async with database.engine() as connection:
        installed = await blob_rows.claim_location(connection, own)
    if installed != own:
        raise OperatorError(f"{MISMATCH} ({installed}, not {own}). {MISMATCH_REMEDY}")
