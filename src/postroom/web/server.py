"""Puts the web application together and runs it, on a socket that is open, until it is told to stop."""

import asyncio
import gc
import math
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

import uvicorn
from starlette.routing import Route
from starlette.types import ASGIApp

from postroom import config, wiring
from postroom.config import Settings
from postroom.documents.sandbox.file_sandbox import Readers
from postroom.logs import Log
from postroom.model import OrganizationId
from postroom.store import backlogs
from postroom.store.database import Database
from postroom.vault import Sealer
from postroom.web import (
    api,
    api_keys,
    app,
    demo,
    documents,
    event_stream,
    ledger,
    listener,
    mail,
    mailboxes,
    pages,
    push,
    webhooks,
)
from postroom.web.api.operations import ApiContext
from postroom.web.connect import MailboxPagesContext
from postroom.web.demo import DemoContext
from postroom.web.documents import DocumentPagesContext
from postroom.web.event_stream import EventStreams
from postroom.web.ledger import LedgerPagesContext
from postroom.web.mail import MailPagesContext
from postroom.web.sessions import SiteContext
from postroom.web.webhooks import WebhookPagesContext
from postroom.wiring.documents import reviewing

log = Log()


async def serve(settings: Settings, database: Database, listening: socket.socket) -> None:
    """Answer requests until SIGTERM or SIGINT; then let those under way end, within the limit."""
    # uvicorn raises the signal again when it has ended; stopping when asked is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    url = settings.public_url or listener.get_local_url(listening)
    noting = asyncio.create_task(backlogs.keep_noting(database))
    try:
        async with application(settings, database, url) as (made, streams):
            log.info("web.started", port=listening.getsockname()[1])
            await answer(made, listening, stop_seconds=settings.stop_seconds, when_stopping=streams.close)
    finally:
        noting.cancel()
    log.info("web.stopped")


@asynccontextmanager
async def application(
    settings: Settings, database: Database, url: str
) -> AsyncGenerator[tuple[ASGIApp, EventStreams]]:
    """All that is served under `url`, and its streams, which must be closed before it can end."""
    async with (
        wiring.client(settings) as client,
        push.open_endpoints(
            database, wiring.providers(settings, client), OrganizationId(settings.organization)
        ) as routes,
        event_stream.open_streams(database) as streams,
        Readers(parallel=1) as readers,
    ):
        site = _gate(settings, database, client, url)
        desk = wiring.desk(settings, database, client, url)
        parts = ApiContext(
            desk,
            wiring.blobs(settings),
            streams,
            partial(wiring.remote, settings, database, client),
            wiring.delivering(settings, database),
            reviewing(settings),
        )
        made = app.create(
            site,
            webhooks=routes,
            routes=[
                *event_stream.routes(site, streams),
                *api.routes(site, parts, per_minute=settings.api_per_minute),
                *mail.routes(MailPagesContext(site, parts.blobs, readers)),
                *documents.routes(DocumentPagesContext(site, parts.blobs, readers, parts.reviewing)),
                *mailboxes.routes(MailboxPagesContext(desk, wiring.access_tokens(desk), site)),
                *ledger.routes(
                    LedgerPagesContext(
                        site, config.describe_settings(settings), wiring.ledger_keys(settings).check
                    )
                ),
                *webhooks.routes(WebhookPagesContext(site, parts.delivering)),
                *api_keys.routes(site),
                *_demo(settings, client, site),
            ],
            performed=frozenset(wiring.kinds(settings, database, client)),
            trusted_proxies=settings.trusted_proxies or (),
            streams=streams,
            metrics_token=settings.metrics_token,
        )
        yield made, streams


def _demo(settings: Settings, client: "wiring.Client", site: SiteContext) -> list[Route]:
    """The guided page, while a demonstration runs."""
    if settings.simulator_url is None or settings.home is None:
        return []
    pages.guided = True
    return demo.routes(DemoContext(site, wiring.simulator(client, settings.simulator_url), settings.home))


def _gate(settings: Settings, database: Database, client: "wiring.Client", url: str) -> SiteContext:
    return SiteContext(
        database,
        OrganizationId(settings.organization),
        url,
        Sealer(wiring.vault_keys(settings)),
        wiring.identities(settings, client),
        settings.session_hours * 3600,
    )


async def answer(
    made: ASGIApp,
    listening: socket.socket,
    *,
    stop_seconds: float,
    when_stopping: Callable[[], None] = lambda: None,
) -> None:
    """Serve until told to stop. Answers that never end by themselves are ended by `when_stopping`."""
    configuration = uvicorn.Config(
        made,
        log_config=None,  # everything goes through our own log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=math.ceil(stop_seconds),
    )
    # What is there by now stays, and need not be looked at by every collection; that evens the answers out.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    server = uvicorn.Server(configuration)
    stopping = asyncio.create_task(_tell_when_stopping(server, when_stopping))
    try:
        await server.serve(sockets=[listening])
    finally:
        stopping.cancel()


async def _tell_when_stopping(server: uvicorn.Server, tell: Callable[[], None]) -> None:
    while not server.should_exit:  # noqa: ASYNC110  uvicorn has a flag for it, and no event
        await asyncio.sleep(0.1)
    tell()
