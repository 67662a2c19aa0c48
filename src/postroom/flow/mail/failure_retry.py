"""Retry a failed message or attachment when a person asks for it. Syncs retry the others automatically."""

from postroom.model import OrganizationId, WorkKind
from postroom.store import failures, work
from postroom.store.connection import Connection
from postroom.store.work import WorkRequest


async def retry(connection: Connection, organization: OrganizationId, failure: int) -> bool:
    """Make a failure due and enqueue the sync of its mailbox. False if it is unknown or resolved."""
    mailbox = await failures.retry(connection, failure)
    if mailbox is None:
        return False
    await work.enqueue(connection, [WorkRequest(organization, WorkKind.SYNC, str(mailbox))])
    return True
