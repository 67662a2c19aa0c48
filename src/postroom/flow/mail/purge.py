"""Purge a person: the mail they sent, and their address in arrivals, in the ledger and in archive paths.

Mail that others sent to them belongs to the others and stays. The ledger counts what was removed, without a
name. Their address is recorded first, so that syncs skip mail of theirs that is still at the provider. The
work `archive` moves archived copies whose path names them. Afterwards every table is searched, and what is
left is reported with its reason.
"""

from dataclasses import dataclass
from typing import Final

from postroom.flow.mail import address_pattern
from postroom.model import OrganizationId, WorkKind
from postroom.store import ledger, purge, purged_people, work
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.purge import AddressOccurrences, AddressSearch
from postroom.store.work import WorkRequest

BATCH: Final = 500
_OTHERS: Final = "mail from others that names the address; it belongs to them"
_BUSINESS: Final = "the text or data of a document; documents and records are kept"
# Why a table may still contain the address after a purge.
REASONS: Final = {
    "attachments": _OTHERS,
    "message_contents": _OTHERS,
    "messages": _OTHERS,
    "threads": _OTHERS,
    "arrivals": "the subject or file name of mail from others, or the name of an uploaded file",
    "folders": "the name of a folder or label; rename it in the mailbox",
    "comments": "what a member wrote about a document",
    "corrections": _BUSINESS,
    "extractions": _BUSINESS,
    "orders": _BUSINESS,
    "records": _BUSINESS,
    "record_versions": _BUSINESS,
    "reviews": _BUSINESS,
    "transcripts": _BUSINESS,
    "archive_copies": "the path of an archived copy; a worker removes the copy, or its error says why not",
    "documents": "the path of an archived copy; a worker moves the copy, or its error says why not",
    "mailboxes": "the address of a connected mailbox; disconnect it with --purge",
    "directories": "the administrator or a pattern of a directory; change the directory",
    "directory_users": "a user of a directory; remove the user there, or the directory here",
    "organizations": "the name of the organization, or a name that its documents are addressed to",
    "api_keys": "the name of an API key; revoke it and create another one",
    "members": "a member signs in with it; remove the member",
    "notice_destinations": "notices are sent to it; change or remove the destination",
    "saved_views": "a member's saved filter contains it; the member deletes the view",
    "sessions": "a member signs in with it; remove the member",
    "webhooks": "the URL of a webhook contains it",
    "deliveries": "an event that waits for its webhook; it is removed once delivered",
    "idempotency_keys": "the response to a recent API call; it is removed within a day",
    "watched_files": "the name of a watched file; rename the file",
}
_UNEXPECTED: Final = "not expected there; please report it"


@dataclass(frozen=True, slots=True)
class RemainingRows:
    """Rows of a table that still contain an address, and why."""

    table: str
    rows: int
    reason: str


def prepare_search(address: str) -> AddressSearch:
    return AddressSearch(
        address_pattern.list_spellings(address),
        address_pattern.build_pattern(address),
        address_pattern.build_base64_pattern(address),
    )


async def find_traces(database: Database, organization: OrganizationId, address: str) -> AddressOccurrences:
    """Count what a purge would remove, without changing anything."""
    async with database.transaction(organization) as connection:
        return await purge.count_occurrences(connection, prepare_search(address))


async def list_remaining(
    database: Database, organization: OrganizationId, address: str
) -> list[RemainingRows]:
    """Search every table for an address in any encoding. Stored files are not searched."""
    wanted = prepare_search(address)
    async with database.transaction(organization) as connection:
        tables = await purge.list_searchable_tables(connection)
    found: list[RemainingRows] = []
    for table in tables:
        async with database.transaction(organization) as connection:
            rows = await purge.count_rows_with(connection, table, wanted)
        if rows:
            found.append(RemainingRows(table, rows, REASONS.get(table, _UNEXPECTED)))
    return found


async def purge_person(
    database: Database, organization: OrganizationId, address: str, *, actor_id: str | None = None
) -> AddressOccurrences:
    """Purge a person in batches, safe to repeat after a crash; what was there before."""
    wanted = prepare_search(address)
    before = await find_traces(database, organization, address)
    async with database.transaction(organization) as connection:
        await work.block_commits_of_kind(
            connection, WorkKind.SYNC
        )  # wait for syncs that have not seen the purge yet
        for spelling in wanted.spellings:
            await purged_people.add(connection, spelling)
    while True:
        async with database.transaction(organization) as connection:
            ids = await purge.list_sent_by(connection, wanted, limit=BATCH)
            await purge.delete_messages(connection, ids)
        if len(ids) < BATCH:
            break
    async with database.transaction(organization) as connection:
        await purge.erase_sender(connection, wanted)
        moved = await purge.mark_archive_paths(connection, wanted)
        requests = [WorkRequest(organization, WorkKind.ARCHIVE, str(document)) for document in moved]
        await work.enqueue(connection, requests)
        counts = {
            "messages": before.messages,
            "arrivals": before.arrivals,
            "entries": before.ledger,
            "archived": before.archived,
        }
        entry = NewLedgerEntry("PERSON_PURGED", "organization", str(organization), actor_id, counts)
        await ledger.append_entries(connection, organization, [entry])
    return before
