"""Forgets a person (K7): the mail they sent, and their name in what is told of documents and in the ledger.

Mail that others sent to them is the others' and stays. What was removed is counted in the ledger, without
a name. Where their mail is still at a provider, syncs leave it there: first it is noted whose mail that is.
"""

from typing import Final

from postroom.model import OrganizationId, WorkKind
from postroom.store import ledger, purge, purged_people, work
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.purge import Traces

BATCH: Final = 500


async def find_traces(database: Database, organization: OrganizationId, address: str) -> Traces:
    """What forgetting would remove; nothing is changed."""
    async with database.transaction(organization) as connection:
        return await purge.traces(connection, address)


async def purge_person(
    database: Database, organization: OrganizationId, address: str, *, actor_id: str | None = None
) -> Traces:
    """Forget, in batches that may be repeated after a crash; what was there before."""
    before = await find_traces(database, organization, address)
    async with database.transaction(organization) as connection:
        await work.block_commits_of_kind(
            connection, WorkKind.SYNC
        )  # no page is being committed by somebody who does not know
        await purged_people.add(connection, address)
    while True:
        async with database.transaction(organization) as connection:
            ids = await purge.sent_by(connection, address, limit=BATCH)
            await purge.messages(connection, ids)
        if len(ids) < BATCH:
            break
    async with database.transaction(organization) as connection:
        await purge.name_of_sender(connection, address)
        await ledger.append_entries(
            connection,
            organization,
            [
                NewLedgerEntry(
                    "PERSON_PURGED",
                    "organization",
                    str(organization),
                    actor_id,
                    {"messages": before.messages, "arrivals": before.arrivals, "entries": before.ledger},
                )
            ],
        )
    return before
