"""Y3: after the database may have lost commits, each organization syncs and audits its mailboxes."""

import pytest

from postroom.flow.storage import database_recovery
from postroom.model import WorkKind
from postroom.store import number_source, work
from postroom.store.work import WorkRequest


@pytest.fixture
async def lease(database, organization):
    """The work that follows a recovery of the database."""
    async with database.engine() as connection:
        await number_source.move_ahead(connection)
        claim = await work.claim(connection, [WorkKind.RECOVER], batch=10, lease_seconds=60)
    [lease] = [lease for lease in claim.leases if lease.organization == organization]
    return lease


async def test_recovery_syncs_every_connected_mailbox_and_audits_it_within_an_hour(
    database, owner, organization, make_mailbox, lease
):
    mailbox, gone = [await make_mailbox(organization, address=f"{name}@example.org") for name in ("a", "b")]
    await owner.execute("UPDATE mailboxes SET disconnected_at = postroom_now() WHERE id = %s", [gone])
    await work.enqueue(owner, [WorkRequest(organization, WorkKind.SYNC, str(mailbox), 86_400)])

    await database_recovery.run(database, lease)

    cursor = await owner.execute(
        """
        SELECT kind, subject, due_at <= postroom_now() + CASE kind
            WHEN 'audit' THEN interval '1 hour' ELSE interval '0' END
        FROM work WHERE kind IN ('audit', 'recover', 'sync') ORDER BY kind
        """
    )
    assert await cursor.fetchall() == [("audit", str(mailbox), True), ("sync", str(mailbox), True)]
    cursor = await owner.execute("SELECT payload FROM ledger WHERE event_type = 'DATABASE_RECOVERED'")
    assert await cursor.fetchall() == [({"mailboxes": 1},)]
