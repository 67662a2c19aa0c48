"""A mailbox that its provider no longer opens: its health says so, and the ledger does."""

from collections.abc import Mapping
from typing import Final

from postroom.errors import PermanentError
from postroom.model import MailboxHealth
from postroom.store import ledger, mailboxes
from postroom.store.database import Connection
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mailboxes import Mailbox

EVENTS: Final[Mapping[MailboxHealth, str]] = {
    MailboxHealth.TOKEN_REFRESH_FAILED: "TOKEN_REFRESH_FAILED",
    MailboxHealth.PROVIDER_ERROR: "MAILBOX_REFUSED",
}


async def record_failure(
    connection: Connection, mailbox: Mailbox, health: MailboxHealth, error: PermanentError
) -> None:
    """In the caller's transaction. Nothing is told of a mailbox that was connected again meanwhile."""
    words = str(error)
    if await mailboxes.set_health(connection, mailbox.id, health, error=words, since=mailbox.connected_at):
        entry = NewLedgerEntry(EVENTS[health], "mailbox", str(mailbox.id), payload={"error": words})
        await ledger.append_entries(connection, mailbox.organization, [entry])
