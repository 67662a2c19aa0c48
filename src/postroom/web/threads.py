"""Threads on the pages: the list that a mailbox's page shows, and one thread with its messages in order."""

from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.store.database import Connection
from postroom.store.views import mail, threads
from postroom.web import pages, paging
from postroom.web.sessions import SiteContext, get_visitor, member_route

PAGE_SIZE: Final = 50
# Of a longer thread the newest are shown, the earlier ones a page before them.
MESSAGES_SHOWN: Final = 50


def routes(site: SiteContext) -> list[Route]:
    return [member_route(site, "/threads/{thread:int}", partial(thread_page, site))]


async def load_threads(
    connection: Connection, mailbox: UUID, *, folder: int | None, before: str | None
) -> tuple[list[threads.Listed], str | None]:
    """A page of a mailbox's threads, and the address of the next."""
    found, end = await threads.page(
        connection, mailbox, folder=folder, below=_parse_thread_position(before), limit=PAGE_SIZE
    )
    return found, paging.format_position(*end) if end else None


async def thread_page(site: SiteContext, request: Request) -> Response:
    id_: int = request.path_params["thread"]
    before = request.query_params.get("before")
    async with site.database.transaction(get_visitor(request).organization) as connection:
        thread = await mail.thread(connection, id_)
        if thread is None:
            raise HTTPException(404)
        mailbox = await mail.mailbox(connection, thread.mailbox_id)
        messages = await threads.messages(
            connection, id_, below=_parse_thread_position(before), limit=MESSAGES_SHOWN + 1
        )
        shown = messages[-MESSAGES_SHOWN:]
        readable = await threads.with_text(connection, [each.id for each in shown])
    first = shown[0] if len(messages) > MESSAGES_SHOWN else None
    return pages.render_page(
        "thread.html",
        thread=thread,
        mailbox=mailbox,
        subject=thread.subject or next((each.subject for each in shown if each.subject), None),
        messages=shown,
        readable=readable,
        earlier=paging.format_position(first.received_at, first.id) if first and first.received_at else None,
        is_newest=_parse_thread_position(before) is None,
        now=datetime.now(UTC),
    )


def _parse_thread_position(given: str | None) -> threads.Place | None:
    moment, number = paging.parse_position(given) or (None, 0)
    return (moment, number) if moment else None
