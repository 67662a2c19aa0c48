"""Record in a mailbox's health and in the ledger that its provider denies access."""

from collections.abc import Mapping
from typing import Final

from postroom.errors import PermanentError
from postroom.model import MailboxHealth
from postroom.store import ledger, mailboxes
from postroom.store.connection import Connection
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mailboxes import Mailbox

EVENTS: Final[Mapping[MailboxHealth, str]] = {
    MailboxHealth.TOKEN_REFRESH_FAILED: "TOKEN_REFRESH_FAILED",
    MailboxHealth.PROVIDER_ERROR: "MAILBOX_REFUSED",
}


async def record_failure(
    connection: Connection, mailbox: Mailbox, health: MailboxHealth, error: PermanentError
) -> None:
    """Set the health and append a ledger entry, unless the mailbox was reconnected in the meantime.

    Works in the caller's transaction.
    """
    message = str(error)
    if await mailboxes.set_health(connection, mailbox.id, health, error=message, since=mailbox.connected_at):
        entry = NewLedgerEntry(EVENTS[health], "mailbox", str(mailbox.id), payload={"error": message})
        await ledger.append_entries(connection, mailbox.organization, [entry])
