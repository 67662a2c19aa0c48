"""The table `quota_usage`: the share of its quota that each mailbox used, by minute.

Kept for a day; `metrics` reads it too.
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


async def get_highest(connection: Connection, mailbox: MailboxId) -> tuple[float, float]:
    """The highest share of any minute, in the last hour and in the last day."""
    cursor = await connection.execute(
        """
        SELECT coalesce(max(share) FILTER (WHERE minute > postroom_now() - interval '1 hour'), 0)::float8,
            coalesce(max(share), 0)::float8
        FROM quota_usage WHERE mailbox_id = %s AND minute > postroom_now() - interval '1 day'
        """,
        [mailbox],
    )
    row = await cursor.fetchone()
    assert row is not None, "an aggregate has a row"
    return row
