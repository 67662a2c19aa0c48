"""The API over outgoing webhooks."""

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
from postroom.model import Scope
from postroom.store import webhooks as stored
from postroom.store.views import admin
from postroom.web.api import paging
from postroom.web.api.operations import ApiCall, NoParameters, Operation, PageQuery, not_found, require_found


class WebhookPath(msgspec.Struct, frozen=True):
    webhook: UUID


async def list_webhooks(call: ApiCall[NoParameters, NoParameters, None]) -> ResultPage[WebhookResource]:
    """List the outgoing webhooks."""
    async with call.transaction() as connection:
        return ResultPage([_to_resource(each) for each in await stored.every(connection)], None)


async def get_webhook(call: ApiCall[WebhookPath, NoParameters, None]) -> WebhookResource:
    """One webhook and how its deliveries go."""
    return _to_resource(await _get_webhook(call))


async def add_webhook(call: ApiCall[NoParameters, NoParameters, NewWebhook]) -> WebhookWithSecret:
    """Add a webhook: it is told of everything from now on that passes its filter."""
    made, secret = await flow.add(
        call.context.desk.database,
        call.context.desk.sealer,
        call.caller.organization,
        call.body.url,
        call.body.kinds,
        allows_http=call.context.delivering.allows_http,
        actor=call.caller.actor,
    )
    return WebhookWithSecret(_to_resource(made), secret.reveal())


async def change_webhook(call: ApiCall[WebhookPath, NoParameters, WebhookChange]) -> WebhookResource:
    """Change where a webhook goes, what it tells, or switch it off and on again."""
    found = await _get_webhook(call)
    await flow.change(
        call.context.desk.database,
        call.caller.organization,
        found,
        url=call.body.url or found.url,
        kinds=found.kinds if call.body.kinds is None else call.body.kinds,
        enabled=call.body.enabled,
        allows_http=call.context.delivering.allows_http,
        actor=call.caller.actor,
    )
    return _to_resource(await _get_webhook(call))


async def remove_webhook(call: ApiCall[WebhookPath, NoParameters, None]) -> None:
    """Remove a webhook, and what waited for it."""
    database = call.context.desk.database
    if not await flow.remove(database, call.caller.organization, call.path.webhook, actor=call.caller.actor):
        raise not_found("webhook")


async def replay_webhook(call: ApiCall[WebhookPath, NoParameters, ReplayRequest]) -> WebhookResource:
    """Tell everything after a position once more, and try again what was given up."""
    found = await _get_webhook(call)
    await flow.replay(
        call.context.desk.database,
        call.caller.organization,
        found,
        after=call.body.after,
        actor=call.caller.actor,
    )
    return _to_resource(await _get_webhook(call))


async def try_webhook(call: ApiCall[WebhookPath, NoParameters, None]) -> WebhookTestResult:
    """Send a delivery of the type `webhook.test` now."""
    error = await flow.send_test(call.context.delivering, call.caller.organization, await _get_webhook(call))
    return WebhookTestResult(error is None, error)


async def list_deliveries(call: ApiCall[WebhookPath, PageQuery, None]) -> ResultPage[DeliveryResource]:
    """List what waits to be delivered, or was given up, the newest first."""
    below = paging.parse_number_cursor(call.query)
    found = await _get_webhook(call)
    async with call.transaction() as connection:
        rows = await admin.deliveries(connection, found.id, below=below, limit=call.query.limit + 1)
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
    Operation("POST", "/webhooks/{webhook}/test", try_webhook, Scope.WEBHOOKS, "Webhooks"),
    Operation("GET", "/webhooks/{webhook}/deliveries", list_deliveries, Scope.WEBHOOKS, "Webhooks"),
]
