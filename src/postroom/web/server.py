"""Assemble the web application from the Engine, and serve it on an open socket until a signal."""

import asyncio
import gc
import math
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Network, IPv6Network
from typing import Final

import uvicorn
from starlette.routing import Route
from starlette.types import ASGIApp

from postroom import config
from postroom.config import Network
from postroom.documents.sandbox.file_sandbox import FileSandbox
from postroom.engine import Engine
from postroom.logs import Log
from postroom.store import figures, schema_migrations
from postroom.store.connection import TransactionLimits
from postroom.web import (
    api,
    api_keys,
    app,
    bulk_decisions,
    business_lists,
    demo,
    directories,
    document_files,
    document_viewer,
    documents,
    event_stream,
    failures,
    ledger,
    mail,
    mailboxes,
    members,
    notices,
    orders,
    organization,
    push,
    record_page,
    review_actions,
    subscriptions,
    suppliers,
    webhooks,
)
from postroom.web import settings as settings_page
from postroom.web.api.operations import ApiContext
from postroom.web.connect import MailboxPagesContext
from postroom.web.connection_limits import ConnectionLimits
from postroom.web.demo import DemoContext
from postroom.web.directories import DirectoryPagesContext
from postroom.web.document_context import DocumentPagesContext
from postroom.web.event_stream import EventStreams
from postroom.web.ledger import LedgerPagesContext
from postroom.web.mail import MailPagesContext
from postroom.web.notices import NoticePagesContext
from postroom.web.push_admission import PushAdmission, build_protocol
from postroom.web.sessions import SiteContext
from postroom.web.webhooks import WebhookPagesContext

# A client gets 503 after waiting for a lock for this long. Its retry finds the lock released: the server ends
# the transaction of a frozen process.
TRANSACTION_LIMITS: Final = TransactionLimits(lock_seconds=5, idle_seconds=15)
# A reverse proxy or a tunnel on this machine connects for all its clients.
_LOOPBACK: Final = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))

log = Log()


async def serve(engine: Engine, listening: socket.socket) -> None:
    """Answer requests until SIGTERM or SIGINT; then give requests in progress a limited time to end.

    Raises SchemaError after it has stopped because a newer version migrated the database.
    """
    # uvicorn raises the signal again after its shutdown; a stop on request is not a failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    recording = asyncio.create_task(figures.record_forever(engine.database))
    outdated = asyncio.create_task(schema_migrations.raise_when_newer(engine.database))
    try:
        async with open_application(engine) as (application, streams):
            log.info("web.started", port=listening.getsockname()[1])
            await run_server(
                application,
                listening,
                stop_seconds=engine.settings.stop_seconds,
                on_stop=streams.close,
                stop_after=outdated,
                trusted_proxies=engine.settings.trusted_proxies or (),
            )
            if outdated.done():
                outdated.result()
    finally:
        recording.cancel()
        outdated.cancel()
        log.info("web.stopped")


@asynccontextmanager
async def open_application(engine: Engine) -> AsyncGenerator[tuple[ASGIApp, EventStreams]]:
    """The whole application, and its event streams, which must be closed before the server can stop."""
    async with (
        push.open_endpoints(engine.database, engine.providers, engine.organization) as push_routes,
        event_stream.open_streams(engine.database) as streams,
        FileSandbox(parallel=1) as sandbox,
    ):
        site, settings = _build_site(engine), engine.settings
        document_pages = DocumentPagesContext(site, engine.blobs, sandbox, engine.review)
        application = app.create(
            site,
            push_routes=push_routes,
            routes=[
                *event_stream.routes(site, streams),
                *api.routes(
                    site, _build_api_context(engine, streams, sandbox), per_minute=settings.api_per_minute
                ),
                *mail.routes(MailPagesContext(site, engine.blobs, sandbox)),
                *document_files.routes(document_pages),
                *document_viewer.routes(document_pages),
                *review_actions.routes(document_pages),
                *business_lists.routes(document_pages),
                *bulk_decisions.routes(document_pages),
                *documents.routes(document_pages),
                *record_page.routes(document_pages),
                *orders.routes(document_pages),
                *suppliers.routes(document_pages),
                *mailboxes.routes(MailboxPagesContext(engine.connect, engine.tokens, site)),
                *ledger.routes(LedgerPagesContext(site, engine.ledger_keys.check, engine.ledger_heads)),
                *directories.routes(DirectoryPagesContext(site, engine.directories)),
                *subscriptions.routes(site),
                *failures.routes(site),
                *settings_page.routes(site, config.describe_settings(settings)),
                *webhooks.routes(WebhookPagesContext(site, engine.deliver)),
                *notices.routes(NoticePagesContext(site, engine.notices)),
                *api_keys.routes(site),
                *members.routes(site),
                *organization.routes(site),
                *_build_demo_routes(engine, site),
            ],
            trusted_proxies=settings.trusted_proxies or (),
            streams=streams,
            metrics_token=settings.metrics_token,
        )
        yield application, streams


def _build_site(engine: Engine) -> SiteContext:
    return SiteContext(
        engine.database,
        engine.organization,
        engine.url,
        engine.sealer,
        engine.identities,
        engine.settings.session_hours * 3600,
        has_demo=_is_demo(engine),
    )


def _build_api_context(engine: Engine, streams: EventStreams, sandbox: FileSandbox) -> ApiContext:
    return ApiContext(
        engine.connect,
        engine.blobs,
        streams,
        engine.remote,
        engine.deliver,
        engine.review,
        sandbox,
        engine.directories,
        engine.notices,
    )


def _is_demo(engine: Engine) -> bool:
    return engine.simulator is not None and engine.settings.home is not None


def _build_demo_routes(engine: Engine, site: SiteContext) -> list[Route]:
    if engine.simulator is None or engine.settings.home is None:
        return []
    return demo.routes(DemoContext(site, engine.simulator, engine.settings.home))


async def run_server(
    application: ASGIApp,
    listening: socket.socket,
    *,
    stop_seconds: float,
    on_stop: Callable[[], None] = lambda: None,
    stop_after: asyncio.Task[None] | None = None,
    trusted_proxies: Sequence[Network] = (),
) -> None:
    """Serve until a signal, or the end of `stop_after`, stops the server.

    `on_stop` ends responses that would never end by themselves.
    """
    configuration = uvicorn.Config(
        application,
        http=build_protocol(PushAdmission(), ConnectionLimits((*_LOOPBACK, *trusted_proxies))),
        log_config=None,  # Postroom writes its own log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=math.ceil(stop_seconds),
    )
    # Objects that exist by now live as long as the process: freezing them keeps garbage collections short.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    server = uvicorn.Server(configuration)
    if stop_after is not None:
        stop_after.add_done_callback(lambda _: setattr(server, "should_exit", True))
    stopping = asyncio.create_task(_call_on_stop(server, on_stop))
    try:
        await server.serve(sockets=[listening])
    finally:
        stopping.cancel()


async def _call_on_stop(server: uvicorn.Server, on_stop: Callable[[], None]) -> None:
    while not server.should_exit:  # noqa: ASYNC110  uvicorn has a flag and no event
        await asyncio.sleep(0.1)
    on_stop()
