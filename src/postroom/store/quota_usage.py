"""Writes to the table `quota_usage`: the share of its quota that each mailbox used, by minute.

Kept for a day; `metrics` reads it.
"""

from typing import Final

from postroom.model import MailboxId
from postroom.store.database import Connection

KEPT_HOURS: Final = 24
# Smaller shares are not stored, so a sync of a few requests leaves no row.
MINIMUM_SHARE: Final = 0.01


async def record_share(connection: Connection, mailbox: MailboxId, share: float) -> None:
    """Record the share used now. A minute keeps its highest share."""
    if share < MINIMUM_SHARE:
        return
    await connection.execute(
        """
        WITH old AS (
            DELETE FROM quota_usage
            WHERE mailbox_id = %(mailbox)s AND minute < postroom_now() - %(hours)s * interval '1 hour'
        )
        INSERT INTO quota_usage AS stored (organization_id, mailbox_id, minute, share)
        VALUES (current_organization(), %(mailbox)s, date_trunc('minute', postroom_now()), %(share)s)
        ON CONFLICT (organization_id, mailbox_id, minute)
            DO UPDATE SET share = greatest(stored.share, excluded.share)
        """,
        {"mailbox": mailbox, "hours": KEPT_HOURS, "share": share},
    )
