"""Purge a person: the mail they sent, and their name in arrivals of documents and in the ledger.

Mail that others sent to them belongs to the others and stays. The ledger counts what was removed, without a
name. Their address is recorded first, so that syncs skip mail of theirs that is still at the provider. A
whole mailbox is purged by `mailboxes.lifecycle.disconnect`.
"""

from typing import Final

from postroom.model import OrganizationId, WorkKind
from postroom.store import ledger, purge, purged_people, work
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.purge import AddressOccurrences

BATCH: Final = 500


async def find_traces(database: Database, organization: OrganizationId, address: str) -> AddressOccurrences:
    """Count what a purge would remove, without changing anything."""
    async with database.transaction(organization) as connection:
        return await purge.count_occurrences(connection, address)


async def purge_person(
    database: Database, organization: OrganizationId, address: str, *, actor_id: str | None = None
) -> AddressOccurrences:
    """Purge a person in batches, safe to repeat after a crash; what was there before."""
    before = await find_traces(database, organization, address)
    async with database.transaction(organization) as connection:
        await work.block_commits_of_kind(
            connection, WorkKind.SYNC
        )  # wait for syncs that have not seen the purge yet
        await purged_people.add(connection, address)
    while True:
        async with database.transaction(organization) as connection:
            ids = await purge.list_sent_by(connection, address, limit=BATCH)
            await purge.delete_messages(connection, ids)
        if len(ids) < BATCH:
            break
    async with database.transaction(organization) as connection:
        await purge.erase_sender(connection, address)
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
