"""The API over outgoing webhooks."""

from typing import Any
from uuid import UUID

import msgspec

from postroom.flow.outbound import webhooks as flow
from postroom.model import Scope
from postroom.shapes import Delivery, MadeWebhook, NewWebhook, Page, Replay, Tried, Webhook, WebhookChange
from postroom.store import webhooks as stored
from postroom.store.views import upkeep
from postroom.web.api import cursors
from postroom.web.api.operations import Call, Nothing, Operation, Paged, not_found, there


class WebhookPath(msgspec.Struct, frozen=True):
    webhook: UUID


async def list_webhooks(call: Call[Nothing, Nothing, None]) -> Page[Webhook]:
    """List the outgoing webhooks."""
    async with call.transaction() as connection:
        return Page([_shown(each) for each in await stored.every(connection)], None)


async def get_webhook(call: Call[WebhookPath, Nothing, None]) -> Webhook:
    """One webhook and how its deliveries go."""
    return _shown(await _found(call))


async def add_webhook(call: Call[Nothing, Nothing, NewWebhook]) -> MadeWebhook:
    """Add a webhook: it is told of everything from now on that passes its filter."""
    made, secret = await flow.add(
        call.parts.desk.database,
        call.parts.desk.sealer,
        call.caller.organization,
        call.body.url,
        call.body.kinds,
        allows_http=call.parts.delivering.allows_http,
        actor=call.caller.actor,
    )
    return MadeWebhook(_shown(made), secret.reveal())


async def change_webhook(call: Call[WebhookPath, Nothing, WebhookChange]) -> Webhook:
    """Change where a webhook goes, what it tells, or switch it off and on again."""
    found = await _found(call)
    await flow.change(
        call.parts.desk.database,
        call.caller.organization,
        found,
        url=call.body.url or found.url,
        kinds=found.kinds if call.body.kinds is None else call.body.kinds,
        enabled=call.body.enabled,
        allows_http=call.parts.delivering.allows_http,
        actor=call.caller.actor,
    )
    return _shown(await _found(call))


async def remove_webhook(call: Call[WebhookPath, Nothing, None]) -> None:
    """Remove a webhook, and what waited for it."""
    database = call.parts.desk.database
    if not await flow.remove(database, call.caller.organization, call.path.webhook, actor=call.caller.actor):
        raise not_found("webhook")


async def replay_webhook(call: Call[WebhookPath, Nothing, Replay]) -> Webhook:
    """Tell everything after a position once more, and try again what was given up."""
    found = await _found(call)
    await flow.replay(
        call.parts.desk.database,
        call.caller.organization,
        found,
        after=call.body.after,
        actor=call.caller.actor,
    )
    return _shown(await _found(call))


async def try_webhook(call: Call[WebhookPath, Nothing, None]) -> Tried:
    """Send a delivery of the type `webhook.test` now."""
    error = await flow.test(call.parts.delivering, call.caller.organization, await _found(call))
    return Tried(error is None, error)


async def list_deliveries(call: Call[WebhookPath, Paged, None]) -> Page[Delivery]:
    """List what waits to be delivered, or was given up, the newest first."""
    below = cursors.number_of(call.query)
    found = await _found(call)
    async with call.transaction() as connection:
        rows = await upkeep.deliveries(connection, found.id, below=below, limit=call.query.limit + 1)
    return cursors.page(rows, call.query, lambda row: row.id)


async def _found(call: Call[WebhookPath, Any, Any]) -> stored.Webhook:
    async with call.transaction() as connection:
        return there(await stored.get(connection, call.path.webhook), "webhook")


def _shown(webhook: stored.Webhook) -> Webhook:
    return Webhook(**{name: getattr(webhook, name) for name in Webhook.__struct_fields__})


OPERATIONS = [
    Operation("GET", "/webhooks", list_webhooks, Scope.WEBHOOKS, "Webhooks"),
    Operation("POST", "/webhooks", add_webhook, Scope.WEBHOOKS, "Webhooks", 201),
    Operation("GET", "/webhooks/{webhook}", get_webhook, Scope.WEBHOOKS, "Webhooks"),
    Operation("PATCH", "/webhooks/{webhook}", change_webhook, Scope.WEBHOOKS, "Webhooks"),
    Operation("DELETE", "/webhooks/{webhook}", remove_webhook, Scope.WEBHOOKS, "Webhooks"),
    Operation("POST", "/webhooks/{webhook}/replay", replay_webhook, Scope.WEBHOOKS, "Webhooks", 202),
    Operation("POST", "/webhooks/{webhook}/test", try_webhook, Scope.WEBHOOKS, "Webhooks"),
    Operation("GET", "/webhooks/{webhook}/deliveries", list_deliveries, Scope.WEBHOOKS, "Webhooks"),
]
