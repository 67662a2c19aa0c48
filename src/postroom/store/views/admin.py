"""Queries of API and pages: ledger entries, subscriptions, failures and deliveries. Read only."""

from uuid import UUID

from postroom.api_types import DeliveryResource, FailureResource, LedgerEntryResource, SubscriptionResource
from postroom.store.database import Connection
from postroom.store.views import fetch_all, fetch_one

_FAILURE = """
    SELECT id, mailbox_id, kind, subject, attempts, last_error, first_failed_at, last_failed_at, due_at,
        resolved_at
    FROM failures
"""


async def list_ledger_entries(
    connection: Connection,
    *,
    entity_type: str | None,
    entity_id: str | None,
    below: int | None,
    limit: int,
) -> list[LedgerEntryResource]:
    return await fetch_all(
        connection,
        LedgerEntryResource,
        """
        SELECT id, position, event_type, entity_type, entity_id, actor_id, payload, encode(sha256, 'hex'),
            occurred_at
        FROM ledger
        WHERE (%(type)s::text IS NULL OR entity_type = %(type)s)
            AND (%(entity)s::text IS NULL OR entity_id = %(entity)s)
            AND (%(below)s::bigint IS NULL OR id < %(below)s)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"type": entity_type, "entity": entity_id, "below": below, "limit": limit},
    )


async def list_subscriptions(
    connection: Connection, *, mailbox: UUID | None, after: UUID | None, limit: int
) -> list[SubscriptionResource]:
    return await fetch_all(
        connection,
        SubscriptionResource,
        """
        SELECT id, mailbox_id, status, resource, created_at, confirmed_at, expires_at, last_renewed_at,
            last_notified_at, replaced_at
        FROM subscriptions
        WHERE (%(mailbox)s::uuid IS NULL OR mailbox_id = %(mailbox)s)
            AND (%(after)s::uuid IS NULL OR id > %(after)s)
        ORDER BY id LIMIT %(limit)s
        """,
        {"mailbox": mailbox, "after": after, "limit": limit},
    )


async def list_failures(
    connection: Connection, *, mailbox: UUID | None, unresolved: bool | None, below: int | None, limit: int
) -> list[FailureResource]:
    return await fetch_all(
        connection,
        FailureResource,
        _FAILURE
        + """
        WHERE (%(mailbox)s::uuid IS NULL OR mailbox_id = %(mailbox)s)
            AND (%(open)s::boolean IS NULL OR (resolved_at IS NULL) = %(open)s)
            AND (%(below)s::bigint IS NULL OR id < %(below)s)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"mailbox": mailbox, "open": unresolved, "below": below, "limit": limit},
    )


async def get_failure(connection: Connection, failure: int) -> FailureResource | None:
    return await fetch_one(connection, FailureResource, _FAILURE + " WHERE id = %(id)s", {"id": failure})


async def list_deliveries(
    connection: Connection, webhook: UUID, *, below: int | None, limit: int
) -> list[DeliveryResource]:
    return await fetch_all(
        connection,
        DeliveryResource,
        """
        SELECT id, webhook_id, event_id, position, entity_type, entity_id, attempts, last_error, due_at,
            created_at
        FROM deliveries WHERE webhook_id = %(webhook)s AND (%(below)s::bigint IS NULL OR id < %(below)s)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"webhook": webhook, "below": below, "limit": limit},
    )
