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
from postroom.web import pages, places
from postroom.web.sessions import Gate, guarded, visitor_of

PAGE: Final = 50
# Of a longer thread the newest are shown, the earlier ones a page before them.
MESSAGES: Final = 50


def routes(gate: Gate) -> list[Route]:
    return [guarded(gate, "/threads/{thread:int}", partial(thread_page, gate))]


async def listing(
    connection: Connection, mailbox: UUID, *, folder: int | None, before: str | None
) -> tuple[list[threads.Listed], str | None]:
    """A page of a mailbox's threads, and the address of the next."""
    found, end = await threads.page(connection, mailbox, folder=folder, below=_dated(before), limit=PAGE)
    return found, places.written(*end) if end else None


async def thread_page(gate: Gate, request: Request) -> Response:
    id_: int = request.path_params["thread"]
    before = request.query_params.get("before")
    async with gate.database.transaction(visitor_of(request).organization) as connection:
        thread = await mail.thread(connection, id_)
        if thread is None:
            raise HTTPException(404)
        mailbox = await mail.mailbox(connection, thread.mailbox_id)
        messages = await threads.messages(connection, id_, below=_dated(before), limit=MESSAGES + 1)
        shown = messages[-MESSAGES:]
        readable = await threads.with_text(connection, [each.id for each in shown])
    first = shown[0] if len(messages) > MESSAGES else None
    return pages.page(
        "thread.html",
        thread=thread,
        mailbox=mailbox,
        subject=thread.subject or next((each.subject for each in shown if each.subject), None),
        messages=shown,
        readable=readable,
        earlier=places.written(first.received_at, first.id) if first and first.received_at else None,
        is_newest=_dated(before) is None,
        now=datetime.now(UTC),
    )


def _dated(given: str | None) -> threads.Place | None:
    moment, number = places.read(given) or (None, 0)
    return (moment, number) if moment else None
