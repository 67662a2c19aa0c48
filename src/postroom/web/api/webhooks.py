"""API operations on outgoing webhooks (list, add, change, remove, replay, test) and their deliveries."""

from typing import Any
from uuid import UUID

import msgspec

from postroom.api_types import (
    DeliveryResource,
    NewWebhook,
    ReplayRequest,
    ResultPage,
    WebhookChange,
    WebhookResource,
    WebhookTestResult,
    WebhookWithSecret,
)
from postroom.flow.outbound import webhooks as flow
from postroom.model import Scope, WebhookFormat
from postroom.store import webhooks as stored
from postroom.store.views import admin
from postroom.web.api import paging
from postroom.web.api.operations import ApiCall, NoParameters, Operation, PageQuery, not_found, require_found


class WebhookPath(msgspec.Struct, frozen=True):
    webhook: UUID


async def list_webhooks(call: ApiCall[NoParameters, NoParameters, None]) -> ResultPage[WebhookResource]:
    """List webhooks."""
    async with call.transaction() as connection:
        return ResultPage([_to_resource(webhook) for webhook in await stored.list_all(connection)], None)


async def get_webhook(call: ApiCall[WebhookPath, NoParameters, None]) -> WebhookResource:
    """Get a webhook with the state of its deliveries."""
    return _to_resource(await _get_webhook(call))


async def add_webhook(call: ApiCall[NoParameters, NoParameters, NewWebhook]) -> WebhookWithSecret:
    """Add a webhook. It receives the selected events from now on."""
    webhook, secret = await flow.add(
        call.context.connect.database,
        call.context.connect.sealer,
        call.caller.organization,
        call.body.url,
        call.body.kinds,
        style=WebhookFormat(call.body.format),
        allows_http=call.context.deliver.allows_http,
        actor=call.caller.actor,
    )
    return WebhookWithSecret(_to_resource(webhook), secret.reveal())


async def change_webhook(call: ApiCall[WebhookPath, NoParameters, WebhookChange]) -> WebhookResource:
    """Change the URL or the event filter of a webhook, or enable or disable it."""
    webhook = await _get_webhook(call)
    await flow.change(
        call.context.connect.database,
        call.caller.organization,
        webhook,
        url=call.body.url or webhook.url,
        kinds=webhook.kinds if call.body.kinds is None else call.body.kinds,
        enabled=call.body.enabled,
        allows_http=call.context.deliver.allows_http,
        actor=call.caller.actor,
    )
    return _to_resource(await _get_webhook(call))


async def remove_webhook(call: ApiCall[WebhookPath, NoParameters, None]) -> None:
    """Remove a webhook and its pending deliveries."""
    database = call.context.connect.database
    if not await flow.remove(database, call.caller.organization, call.path.webhook, actor=call.caller.actor):
        raise not_found("webhook")


async def replay_webhook(call: ApiCall[WebhookPath, NoParameters, ReplayRequest]) -> WebhookResource:
    """Resend all events after a position, and retry deliveries that were given up."""
    webhook = await _get_webhook(call)
    await flow.replay(
        call.context.connect.database,
        call.caller.organization,
        webhook,
        after=call.body.after,
        actor=call.caller.actor,
    )
    return _to_resource(await _get_webhook(call))


async def test_webhook(call: ApiCall[WebhookPath, NoParameters, None]) -> WebhookTestResult:
    """Send a `webhook.test` event now."""
    error = await flow.send_test(call.context.deliver, call.caller.organization, await _get_webhook(call))
    return WebhookTestResult(error is None, error)


async def list_deliveries(call: ApiCall[WebhookPath, PageQuery, None]) -> ResultPage[DeliveryResource]:
    """List deliveries that are pending or were given up, newest first."""
    below = paging.parse_number_cursor(call.query)
    webhook = await _get_webhook(call)
    async with call.transaction() as connection:
        rows = await admin.list_deliveries(connection, webhook.id, below=below, limit=call.query.limit + 1)
    return paging.build_page(rows, call.query, lambda row: row.id)


async def _get_webhook(call: ApiCall[WebhookPath, Any, Any]) -> stored.Webhook:
    async with call.transaction() as connection:
        return require_found(await stored.get(connection, call.path.webhook), "webhook")


def _to_resource(webhook: stored.Webhook) -> WebhookResource:
    return WebhookResource(**{name: getattr(webhook, name) for name in WebhookResource.__struct_fields__})


OPERATIONS = [
    Operation("GET", "/webhooks", list_webhooks, Scope.WEBHOOKS, "Webhooks"),
    Operation("POST", "/webhooks", add_webhook, Scope.WEBHOOKS, "Webhooks", 201),
    Operation("GET", "/webhooks/{webhook}", get_webhook, Scope.WEBHOOKS, "Webhooks"),
    Operation("PATCH", "/webhooks/{webhook}", change_webhook, Scope.WEBHOOKS, "Webhooks"),
    Operation("DELETE", "/webhooks/{webhook}", remove_webhook, Scope.WEBHOOKS, "Webhooks"),
    Operation("POST", "/webhooks/{webhook}/replay", replay_webhook, Scope.WEBHOOKS, "Webhooks", 202),
    Operation("POST", "/webhooks/{webhook}/test", test_webhook, Scope.WEBHOOKS, "Webhooks"),
    Operation("GET", "/webhooks/{webhook}/deliveries", list_deliveries, Scope.WEBHOOKS, "Webhooks"),
]
