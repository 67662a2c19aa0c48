"""The page of outgoing webhooks: how telling them goes, and what an admin does about it."""

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
from postroom.model import Role, Secret
from postroom.store import feed, webhooks
from postroom.store.webhooks import Webhook
from postroom.web import forms, pages
from postroom.web.sessions import SiteContext, get_visitor, member_route

# What an application may want to hear of.
EVENT_GROUPS: Final = {"document": "documents", "mailbox": "mailboxes", "message": "messages"}
# How far back a replay goes, in events of the feed.
REPLAYS: Final[Mapping[str, int | None]] = {
    "The last 100 events": 100,
    "The last 1,000 events": 1_000,
    "Everything that is kept": None,
}


@dataclass(frozen=True)
class WebhookPagesContext:
    """What the page needs."""

    site: SiteContext
    delivering: DeliverContext


@dataclass(frozen=True, slots=True)
class WebhookActionResult:
    """What came of a button, in words; of a new webhook also its secret, this once."""

    words: str
    good: bool = True
    secret: Secret | None = None
    url: str = ""


def routes(context: WebhookPagesContext) -> list[Route]:
    site = context.site
    return [
        member_route(site, "/deliveries", partial(page, context)),
        member_route(site, "/deliveries/add", partial(add, context), Role.ADMIN, methods=["POST"]),
        member_route(
            site, "/deliveries/{webhook:uuid}/{action}", partial(act, context), Role.ADMIN, methods=["POST"]
        ),
    ]


async def page(
    context: WebhookPagesContext, request: Request, said: WebhookActionResult | None = None
) -> Response:
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await webhooks.every(connection)
    return pages.render_page(
        "deliveries.html",
        400 if said and not said.good else 200,
        # What stands behind a question mark may be a key of who is told.
        webhooks=[(each.url.partition("?")[0], each) for each in found],
        about=EVENT_GROUPS,
        replays=REPLAYS,
        said=said,
        now=datetime.now(UTC),
    )


async def add(context: WebhookPagesContext, request: Request) -> Response:
    given, visitor = await forms.read(request), get_visitor(request)
    url = given.get("url", "").strip()
    kinds = [f"{each}.*" for each in EVENT_GROUPS if f"about-{each}" in given]
    try:
        _, secret = await flow.add(
            context.site.database,
            context.delivering.sealer,
            visitor.organization,
            url,
            kinds,
            allows_http=context.delivering.allows_http,
            actor=visitor.actor,
        )
    except PermanentError as error:
        return await page(context, request, WebhookActionResult(str(error), good=False, url=url))
    return await page(
        context, request, WebhookActionResult("Added. It is told of what happens from now on.", secret=secret)
    )


async def act(context: WebhookPagesContext, request: Request) -> Response:
    """One button."""
    wanted: UUID = request.path_params["webhook"]
    action = _ACTIONS.get(request.path_params["action"])
    async with context.site.database.transaction(get_visitor(request).organization) as connection:
        found = await webhooks.get(connection, wanted)
    if action is None or found is None:
        raise HTTPException(404)
    try:
        said = await action(context, request, found)
    except PermanentError as error:
        said = WebhookActionResult(str(error), good=False)
    return await page(context, request, said) if said else RedirectResponse("/deliveries", 303)


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
    fault = await flow.send_test(context.delivering, get_visitor(request).organization, webhook)
    if fault is None:
        return WebhookActionResult("Accepted: a delivery of the type webhook.test went out and was taken.")
    return WebhookActionResult(f"Not accepted: the address {fault}.", good=False)


async def _replay(context: WebhookPagesContext, request: Request, webhook: Webhook) -> None:
    given, visitor = await forms.read(request), get_visitor(request)
    if given.get("how") not in REPLAYS:
        raise HTTPException(400)
    count = REPLAYS[given["how"]]
    async with context.site.database.transaction(visitor.organization) as connection:
        bounds = await feed.bounds(connection)
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
