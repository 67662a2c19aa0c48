"""The work `index_file_names`: make the attachments stored before an upgrade searchable by name.

A migration enqueues it. Each batch is a short transaction; a repetition skips what is indexed.
"""

from typing import Final

from postroom.model import StepResult
from postroom.store import search, work
from postroom.store.database import Database
from postroom.store.work import Lease

BATCH: Final = 200


async def run(database: Database, lease: Lease, *, batch: int = BATCH) -> StepResult:
    last: int | None = 0
    while last is not None:
        async with work.fenced_transaction(database, lease) as connection:
            last = await search.index_file_names(connection, after=last, limit=batch)
    return StepResult()
