"""The work `recover`: what an organization needs after the database may have lost its last commits.

`store.number_source` enqueues it. Cursors are as old as the rest of the database, so syncs fetch the lost
changes again; the audits show that nothing else is missing.
"""

import random
from typing import Final

from postroom.logs import Log
from postroom.model import WorkKind
from postroom.store import ledger, mailboxes, work
from postroom.store.database import Database
from postroom.store.ledger import NewLedgerEntry
from postroom.store.work import FinishedWork, Lease, WorkRequest

# Audits of many mailboxes would otherwise use up the quotas of their providers at once.
SPREAD_SECONDS: Final = 3600.0

log = Log()


async def run(database: Database, lease: Lease) -> None:
    """Record the recovery, make every mailbox sync now, and audit each within an hour."""
    organization = lease.organization
    async with work.fenced_transaction(database, lease) as connection:
        connected = [
            str(mailbox.id)
            for mailbox in await mailboxes.list_all(connection)
            if mailbox.disconnected_at is None
        ]
        entry = NewLedgerEntry(
            "DATABASE_RECOVERED", "organization", str(organization), payload={"mailboxes": len(connected)}
        )
        await ledger.append_entries(connection, organization, [entry])
        await work.make_due(connection, WorkKind.SYNC, connected)
        await work.enqueue(
            connection,
            [
                WorkRequest(organization, WorkKind.AUDIT, mailbox, random.uniform(0, SPREAD_SECONDS))
                for mailbox in connected
            ],
        )
        await work.finish(connection, [FinishedWork(lease)])
    log.warning("database.recovered", organization=organization, count=len(connected))
