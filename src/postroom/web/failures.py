"""The failures page: messages that failed, parked work, and the buttons that retry them."""

from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from postroom.flow.mail import failure_retry
from postroom.model import Role
from postroom.store import mailboxes, parked_work
from postroom.store.views import admin
from postroom.web import forms, pages
from postroom.web.sessions import SiteContext, get_visitor, member_route

PAGE_SIZE: Final = 100


def routes(site: SiteContext) -> list[Route]:
    return [
        member_route(site, "/failures", partial(failures_page, site)),
        member_route(site, "/failures/retry", partial(retry, site), Role.ADMIN, methods=["POST"]),
    ]


async def failures_page(site: SiteContext, request: Request) -> Response:
    async with site.database.transaction(get_visitor(request).organization) as connection:
        rows = await admin.list_failures(
            connection, mailbox=None, unresolved=True, below=None, limit=PAGE_SIZE
        )
        parked = await parked_work.list_parked(connection)
        names: dict[UUID, str] = {
            mailbox.id: mailbox.address for mailbox in await mailboxes.list_all(connection)
        }
    return pages.render_page(
        request, "failures.html", failures=rows, parked=parked, names=names, now=datetime.now(UTC)
    )


async def retry(site: SiteContext, request: Request) -> Response:
    """Retry one failed message, or one parked work item."""
    form = await forms.read(request)
    organization = get_visitor(request).organization
    async with site.database.transaction(organization) as connection:
        if failure := forms.parse_number(form.get("failure")):
            await failure_retry.retry(connection, organization, failure)
        elif form.get("kind") and form.get("subject"):
            await parked_work.unpark(connection, form["kind"], form["subject"])
        else:
            raise HTTPException(400)
    return RedirectResponse("/failures", 303)
