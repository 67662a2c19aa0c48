"""Add, change, replay, test and remove outgoing webhooks. All changes are recorded in the ledger.

`send_test` sends one delivery at once; all others are made in `deliver`.
"""

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from secrets import token_bytes
from uuid import UUID, uuid4

from postroom.errors import PermanentError
from postroom.flow.outbound import deliver
from postroom.flow.outbound.deliver import SECRET_PREFIX, DeliverContext, build_headers, secret_context
from postroom.flow.outbound.event_bodies import EventContent, build_body
from postroom.flow.outbound.webhook_urls import check_url
from postroom.model import OrganizationId, Secret, WebhookFormat, WorkKind
from postroom.store import feed, ledger, organizations, webhooks, work
from postroom.store.connection import Connection
from postroom.store.database import Database
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.notice_conditions import DISABLED_BY_HAND
from postroom.store.webhooks import Webhook
from postroom.store.work import WorkRequest
from postroom.vault import Sealer


async def add(
    database: Database,
    sealer: Sealer,
    organization: OrganizationId,
    url: str,
    kinds: Sequence[str],
    *,
    style: WebhookFormat = WebhookFormat.STANDARD,
    allows_http: bool = False,
    actor: str | None = None,
) -> tuple[Webhook, Secret]:
    """Add a webhook and return its secret, which is shown only this once.

    `allows_http`: POSTROOM_WEBHOOK_NETWORKS names networks for which plain http is allowed.
    """
    check_url(url, allows_http=allows_http)
    _check_kinds(kinds)
    webhook = uuid4()
    secret = Secret(SECRET_PREFIX + b64encode(token_bytes(32)).decode())
    async with database.transaction(organization) as connection:
        await organizations.ensure(connection, organization)
        while await feed.assign_positions(connection) == feed.BATCH:
            pass
        sealed = sealer.seal(secret_context(organization, webhook), secret)
        await webhooks.add(connection, webhook, url, kinds, sealed, style)
        await _record_event(connection, organization, "WEBHOOK_ADDED", webhook, actor)
        added = await webhooks.get(connection, webhook)
    assert added is not None, "added in this transaction"
    return added, secret


async def remove(
    database: Database, organization: OrganizationId, webhook: UUID, *, actor: str | None = None
) -> bool:
    async with database.transaction(organization) as connection:
        await work.delete_by_subject(connection, str(webhook))
        gone = await webhooks.remove(connection, webhook)
        if gone:
            await _record_event(connection, organization, "WEBHOOK_REMOVED", webhook, actor)
    return gone


async def change(
    database: Database,
    organization: OrganizationId,
    webhook: Webhook,
    *,
    url: str,
    kinds: Sequence[str],
    enabled: bool | None,
    allows_http: bool = False,
    actor: str | None = None,
) -> None:
    if url != webhook.url:
        check_url(url, allows_http=allows_http)
    if kinds != webhook.kinds:
        _check_kinds(kinds)
    async with database.transaction(organization) as connection:
        await _restart(connection, organization, webhook.id)
        await webhooks.update(connection, webhook.id, url=url, kinds=kinds)
        if enabled is False:
            await webhooks.disable(connection, webhook.id, DISABLED_BY_HAND)
        elif enabled and webhook.disabled_at is not None:
            await webhooks.enable(connection, webhook.id)
        await _record_event(connection, organization, "WEBHOOK_CHANGED", webhook.id, actor)


async def replay(
    database: Database,
    organization: OrganizationId,
    webhook: Webhook,
    *,
    after: int,
    actor: str | None = None,
) -> None:
    """Deliver everything after a position of the feed again, including what was given up."""
    async with database.transaction(organization) as connection:
        bounds = await feed.get_bounds(connection)
        if not bounds.pruned <= after <= bounds.last:
            raise PermanentError(
                f"Position {after} is not in the feed. Choose one from {bounds.pruned} to {bounds.last}."
            )
        await _restart(connection, organization, webhook.id)
        await webhooks.replay(connection, webhook.id, after)
        await webhooks.enable(connection, webhook.id)
        await _record_event(connection, organization, "WEBHOOK_REPLAYED", webhook.id, actor, after=after)


async def send_test(context: DeliverContext, organization: OrganizationId, webhook: Webhook) -> str | None:
    """Send one test delivery now; why it was not accepted, or None."""
    async with context.database.transaction(organization) as connection:
        sealed = await webhooks.get_secret(connection, webhook.id)
    if sealed is None:
        raise PermanentError("There is no such webhook.")
    secret = context.sealer.open(secret_context(organization, webhook.id), sealed)
    test_id = f"test_{uuid4()}"
    content = EventContent(test_id, "webhook.test", None, datetime.now(UTC), {})
    body = build_body(webhook.format, organization, content)
    headers = build_headers(secret, f"msg_{test_id}", webhook.format, body)
    posted = await context.post(webhook.url, headers, body.encode())
    return posted.failure


async def _restart(connection: Connection, organization: OrganizationId, webhook: UUID) -> None:
    """Make deliveries due. Before the webhook is changed: a worker locks the two rows in this order."""
    await work.restart(connection, [WorkRequest(organization, WorkKind.DELIVER, str(webhook))])


def _check_kinds(kinds: Sequence[str]) -> None:
    """Reject a filter that matches no event: it is a typo."""
    for pattern in kinds:
        if not any(deliver.matches_filter([pattern], kind) for kind in feed.EVENT_KINDS):
            raise PermanentError(
                f"No event has the kind {pattern}. Kinds: {', '.join(feed.EVENT_KINDS)};"
                " `document.*` matches all events about documents."
            )


async def _record_event(
    connection: Connection,
    organization: OrganizationId,
    event: str,
    webhook: UUID,
    actor: str | None,
    **payload: JsonValue,
) -> None:
    entry = NewLedgerEntry(event, "webhook", str(webhook), actor, payload)
    await ledger.append_entries(connection, organization, [entry])
