"""Query of a mailbox's timeline: the ledger entries about it and its subscriptions that people need to see.

Subscriptions are deleted a week after they were replaced. Their entries then leave the timeline, but not the
ledger.
"""

from uuid import UUID

from postroom.api_types import LedgerEntryResource
from postroom.store.connection import Connection
from postroom.store.views import fetch_all


async def list_entries(
    connection: Connection, mailbox: UUID, *, below: int | None, limit: int
) -> list[LedgerEntryResource]:
    """Newest first. Leaves out renewals, and syncs without errors: most entries are about those."""
    # MATERIALIZED makes the planner look up the entities. The index by id would read the whole ledger.
    return await fetch_all(
        connection,
        LedgerEntryResource,
        """
        WITH found AS MATERIALIZED (
            SELECT ledger.* FROM ledger
            WHERE (entity_type, entity_id) IN (
                SELECT 'mailbox', %(mailbox)s::text UNION ALL
                SELECT 'subscription', id::text FROM subscriptions WHERE mailbox_id = %(mailbox)s)
        )
        SELECT id, position, event_type, entity_type, entity_id, actor_id, payload, encode(sha256, 'hex'),
            occurred_at
        FROM found
        WHERE (%(below)s::bigint IS NULL OR id < %(below)s)
            AND event_type NOT IN ('SYNC_STARTED', 'SUBSCRIPTION_RENEWED')
            AND NOT (event_type = 'SYNC_COMPLETED' AND coalesce((payload ->> 'errors')::int8, 0) = 0)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"mailbox": mailbox, "below": below, "limit": limit},
    )
