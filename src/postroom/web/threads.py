"""The page of one thread, and the loading of the list of threads for the mailbox page in `mail`."""

from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postroom.store.connection import Connection
from postroom.store.views import mail, threads
from postroom.web import pages, paging
from postroom.web.sessions import SiteContext, get_visitor, member_route

PAGE_SIZE: Final = 50
# A longer thread shows its newest messages, with a link to earlier ones.
MESSAGES_SHOWN: Final = 50


def routes(site: SiteContext) -> list[Route]:
    return [member_route(site, "/threads/{thread:int}", partial(thread_page, site))]


async def load_threads(
    connection: Connection, mailbox: UUID, *, folder: int | None, before: str | None
) -> tuple[list[threads.ThreadSummary], str | None]:
    """Load a page of a mailbox's threads, and the position of the next page."""
    found, end = await threads.list_page(
        connection, mailbox, folder=folder, below=_parse_thread_position(before), limit=PAGE_SIZE
    )
    return found, paging.format_position(*end) if end else None


async def thread_page(site: SiteContext, request: Request) -> Response:
    id_: int = request.path_params["thread"]
    before = request.query_params.get("before")
    async with site.database.transaction(get_visitor(request).organization) as connection:
        thread = await mail.get_thread(connection, id_)
        if thread is None:
            raise HTTPException(404)
        mailbox = await mail.get_mailbox(connection, thread.mailbox_id)
        messages = await threads.list_messages(
            connection, id_, below=_parse_thread_position(before), limit=MESSAGES_SHOWN + 1
        )
        shown = messages[-MESSAGES_SHOWN:]
        readable = await threads.find_messages_with_text(connection, [message.id for message in shown])
    first = shown[0] if len(messages) > MESSAGES_SHOWN else None
    return pages.render_page(
        request,
        "thread.html",
        thread=thread,
        mailbox=mailbox,
        subject=thread.subject or next((message.subject for message in shown if message.subject), None),
        messages=shown,
        readable=readable,
        earlier=paging.format_position(first.received_at, first.id) if first and first.received_at else None,
        is_newest=_parse_thread_position(before) is None,
        now=datetime.now(UTC),
    )


def _parse_thread_position(given: str | None) -> threads.MessagePosition | None:
    moment, number = paging.parse_position(given) or (None, 0)
    return (moment, number) if moment else None
