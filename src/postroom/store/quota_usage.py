"""The table `quota_uses`: how near each mailbox came to its provider's limit, by the minute, for a day."""

from typing import Final

from postroom.model import MailboxId
from postroom.store.database import Connection

KEPT_HOURS: Final = 24
# Less is no news: a sync of a few calls leaves no row behind.
MINIMUM_SHARE: Final = 0.01


async def record_share(connection: Connection, mailbox: MailboxId, share: float) -> None:
    """So much of what its window allows is used now; of a minute the most is kept."""
    if share < MINIMUM_SHARE:
        return
    await connection.execute(
        """
        WITH old AS (
            DELETE FROM quota_uses
            WHERE mailbox_id = %(mailbox)s AND minute < postroom_now() - %(hours)s * interval '1 hour'
        )
        INSERT INTO quota_uses AS kept (organization_id, mailbox_id, minute, share)
        VALUES (current_organization(), %(mailbox)s, date_trunc('minute', postroom_now()), %(share)s)
        ON CONFLICT (organization_id, mailbox_id, minute)
            DO UPDATE SET share = greatest(kept.share, excluded.share)
        """,
        {"mailbox": mailbox, "hours": KEPT_HOURS, "share": share},
    )
