"""The subscriptions page: each mailbox's push subscription, its expiry and its last notification."""

from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.store import mailboxes
from postroom.store.mailboxes import Mailbox
from postroom.store.views import admin
from postroom.web import pages
from postroom.web.sessions import SiteContext, get_visitor, member_route


def routes(site: SiteContext) -> list[Route]:
    return [member_route(site, "/subscriptions", partial(subscriptions_page, site))]


async def subscriptions_page(site: SiteContext, request: Request) -> Response:
    async with site.database.transaction(get_visitor(request).organization) as connection:
        subscriptions = await admin.list_subscriptions(connection, mailbox=None, after=None, limit=1000)
        by_id: dict[UUID, Mailbox] = {mailbox.id: mailbox for mailbox in await mailboxes.list_all(connection)}
    current = [subscription for subscription in subscriptions if subscription.replaced_at is None]
    return pages.render_page(
        request,
        "subscriptions.html",
        subscriptions=[
            (by_id[subscription.mailbox_id], subscription)
            for subscription in current
            if subscription.mailbox_id in by_id
        ],
        replaced=len(subscriptions) - len(current),
        now=datetime.now(UTC),
    )
