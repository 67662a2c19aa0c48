"""The webhooks page: the state of each outgoing webhook, and the buttons to add and manage them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.errors import PermanentError
from postroom.flow.outbound import webhooks as flow
from postroom.flow.outbound.deliver import DeliverContext
from postroom.model import Role, Secret, WebhookFormat
from postroom.store import feed, webhooks
from postroom.store.webhooks import Webhook
from postroom.web import forms, pages
from postroom.web.sessions import SiteContext, get_visitor, member_route

# Groups of event kinds that a webhook can select.
EVENT_GROUPS: Final = {
    "document": "Documents",
    "ledger": "Ledger",
    "mailbox": "Mailboxes",
    "message": "Messages",
    "record": "Records",
}
# How many of the latest events a replay resends.
REPLAYS: Final[Mapping[str, int | None]] = {
    "Last 100 events": 100,
    "Last 1,000 events": 1_000,
    "All stored events": None,
}


@dataclass(frozen=True)
class WebhookPagesContext:
    """Collaborators of the webhooks page."""

    site: SiteContext
    deliver: DeliverContext


@dataclass(frozen=True, slots=True)
class WebhookActionResult:
    """The outcome of an action; for a new webhook with its secret, which is shown only once."""

    message: str
    succeeded: bool = True
    secret: Secret | None = None
    url: str = ""


def routes(context: WebhookPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/webhooks", partial(page, context)),
        member_route(site, "/deliveries", redirect_old_path),
        member_route(site, "/webhooks/add", partial(add, context), Role.ADMIN, methods=["POST"]),
        member_route(
            site, "/webhooks/{webhook:uuid}/{action}", partial(act, context), Role.ADMIN, methods=["POST"]
        ),
    ]


async def page(
    context: WebhookPagesContext, request: Request, result: WebhookActionResult | None = None
) -> Response:
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        registered = await webhooks.list_all(connection)
    return pages.render_page(
        request,
        "webhooks.html",
        400 if result and not result.succeeded else 200,
        # The query string may hold a credential of the receiver.
        webhooks=[(webhook.url.partition("?")[0], webhook) for webhook in registered],
        event_groups=EVENT_GROUPS,
        replays=REPLAYS,
        result=result,
        now=datetime.now(UTC),
    )


async def redirect_old_path(_request: Request) -> Response:
    """Redirect from the page's former path."""
    return RedirectResponse("/webhooks", 301)


async def add(context: WebhookPagesContext, request: Request) -> Response:
    form, visitor = await forms.read(request), get_visitor(request)
    url = form.get("url", "").strip()
    kinds = [f"{group}.*" for group in EVENT_GROUPS if f"about-{group}" in form]
    try:
        _, secret = await flow.add(
            context.site.database,
            context.deliver.sealer,
            visitor.organization,
            url,
            kinds,
            style=WebhookFormat.CLOUDEVENTS if "cloudevents" in form else WebhookFormat.STANDARD,
            allows_http=context.deliver.allows_http,
            actor=visitor.actor,
        )
    except PermanentError as error:
        return await page(context, request, WebhookActionResult(str(error), succeeded=False, url=url))
    return await page(
        context, request, WebhookActionResult("Webhook added. It receives events from now on.", secret=secret)
    )


async def act(context: WebhookPagesContext, request: Request) -> Response:
    """Run one of the actions on a webhook."""
    webhook_id: UUID = request.path_params["webhook"]
    action = _ACTIONS.get(request.path_params["action"])
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await webhooks.get(connection, webhook_id)
    if action is None or found is None:
        raise HTTPException(404)
    try:
        result = await action(context, request, found)
    except PermanentError as error:
        result = WebhookActionResult(str(error), succeeded=False)
    return await page(context, request, result) if result else RedirectResponse("/webhooks", 303)


async def _switch(enabled: bool, context: WebhookPagesContext, request: Request, webhook: Webhook) -> None:  # noqa: FBT001  bound below
    visitor = get_visitor(request)
    await flow.change(
        context.site.database,
        visitor.organization,
        webhook,
        url=webhook.url,
        kinds=webhook.kinds,
        enabled=enabled,
        actor=visitor.actor,
    )


async def _send_test(context: WebhookPagesContext, request: Request, webhook: Webhook) -> WebhookActionResult:
    error = await flow.send_test(context.deliver, get_visitor(request).organization, webhook)
    if error is None:
        return WebhookActionResult("Test succeeded: the receiver accepted the delivery.")
    return WebhookActionResult(f"Test failed: {error}.", succeeded=False)


async def _replay(context: WebhookPagesContext, request: Request, webhook: Webhook) -> None:
    form, visitor = await forms.read(request), get_visitor(request)
    if form.get("how") not in REPLAYS:
        raise HTTPException(400)
    count = REPLAYS[form["how"]]
    async with context.site.database.transaction(visitor.organization) as connection:
        bounds = await feed.get_bounds(connection)
    after = bounds.pruned if count is None else max(bounds.pruned, bounds.last - count)
    await flow.replay(context.site.database, visitor.organization, webhook, after=after, actor=visitor.actor)


async def _remove(context: WebhookPagesContext, request: Request, webhook: Webhook) -> None:
    visitor = get_visitor(request)
    await flow.remove(context.site.database, visitor.organization, webhook.id, actor=visitor.actor)


_ACTIONS: Final[
    Mapping[str, Callable[[WebhookPagesContext, Request, Webhook], Awaitable[WebhookActionResult | None]]]
] = {
    "on": partial(_switch, True),
    "off": partial(_switch, False),
    "test": _send_test,
    "replay": _replay,
    "remove": _remove,
}
