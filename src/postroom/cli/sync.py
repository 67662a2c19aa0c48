"""`postroom sync` and `postroom mailboxes backfill`: ask for a sync, see it done, tell the result."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.exit_codes import ExitCode
from postroom.cli.mailboxes import Json, MailboxCommandContext, Named, find_mailbox, group, run_command
from postroom.model import WorkKind

if TYPE_CHECKING:
    from postroom.store.database import Connection
    from postroom.store.mailboxes import Mailbox
    from postroom.store.sync_progress import SyncProgress

EXAMPLES = """\b
Examples:
  postroom sync ann@example.org
  postroom sync 5f0c --full"""
POLL_SECONDS = 0.1


def sync(
    named: Named,
    *,
    full: Annotated[
        bool, typer.Option("--full", help="List everything anew, and settle what is no longer there.")
    ] = False,
    json: Json = False,
) -> ExitCode:
    """Sync a mailbox now, and tell what was done. Workers that run already may be the ones to do it."""

    async def ask(at: MailboxCommandContext, mailbox: "Mailbox", connection: "Connection") -> bool:
        from postroom.flow.mail.sync import sync_requests

        await sync_requests.request_sync(connection, at.organization, mailbox.id, full=full)
        return True

    return run_command(lambda at: _request_and_follow(at, named, ask, json=json))


@group.command(
    epilog="""\b
Examples:
  postroom mailboxes backfill ann@example.org --days 365"""
)
def backfill(
    named: Named,
    days: Annotated[float, typer.Option(min=0, max=36500, help="How many days back from now.")],
    *,
    json: Json = False,
) -> ExitCode:
    """Fetch more of a mailbox's past. Interrupted, it goes on wherever a worker runs."""

    async def ask(at: MailboxCommandContext, mailbox: "Mailbox", connection: "Connection") -> bool:
        from postroom.flow.mail.sync import sync_requests

        return await sync_requests.extend_backfill(connection, at.organization, mailbox.id, days=days)

    return run_command(lambda at: _request_and_follow(at, named, ask, json=json))


async def _request_and_follow(
    at: MailboxCommandContext,
    named: str,
    ask: "Callable[[MailboxCommandContext, Mailbox, Connection], Awaitable[bool]]",
    *,
    json: bool,
) -> ExitCode:
    """Ask, work until it is done, and say what came of it."""
    from postroom.cli import output
    from postroom.errors import PermanentError
    from postroom.store import subscriptions, sync_progress

    mailbox = await find_mailbox(at, named)
    if mailbox.paused_at or mailbox.disconnected_at:
        raise PermanentError("This mailbox is paused or disconnected. Resume or connect it first.")
    async with at.engine.database.transaction(at.organization) as connection:
        began = await subscriptions.read_clock(connection)
        asked = await ask(at, mailbox, connection)
    if asked:
        async with run_sync_worker(at):
            found = await follow_progress(at, mailbox)
    else:
        found = await _read_progress(at, mailbox)
    async with at.engine.database.transaction(at.organization) as connection:
        done = await sync_progress.sum_since(connection, mailbox.id, began)
    if json:
        output.print_json({"mailbox": mailbox.id, **asdict(done), "error": found.error})
    else:
        _print_result(done, found, asked=asked)
    return ExitCode.FAILED if found.error else ExitCode.OK


def _print_result(done: object, found: "SyncProgress", *, asked: bool) -> None:
    from postroom.cli import output
    from postroom.store.sync_progress import SyncTotals

    assert isinstance(done, SyncTotals)
    if not asked:
        typer.echo("It reaches back so far already.")
        return
    names = ("threads", "messages", "attachments", "events", "errors")
    output.print_table(("WHAT", "COUNT"), [(name, getattr(done, name)) for name in names])
    if found.error:
        typer.echo(f"It did not end well: {found.error}", err=True)


async def follow_progress(at: MailboxCommandContext, mailbox: "Mailbox") -> "SyncProgress":
    """A bar of how much was listed, of how much the provider lets expect."""
    from postroom.cli import progress

    found = await _read_progress(at, mailbox)
    with progress.spinner("Syncing"):
        while _goes_on(found) and not found.expected:
            await asyncio.sleep(POLL_SECONDS)
            found = await _read_progress(at, mailbox)
    total, shown = found.expected, 0
    with progress.bar("Listing", total) as advance:
        while _goes_on(found):
            share = found.listed * total // max(found.expected, 1)
            advance(max(share - shown, 0))
            shown = max(share, shown)
            await asyncio.sleep(POLL_SECONDS)
            found = await _read_progress(at, mailbox)
    return found


def _goes_on(found: "SyncProgress") -> bool:
    """A sync that failed backs off: that is an end here, and workers try again."""
    return not found.settled


async def _read_progress(at: MailboxCommandContext, mailbox: "Mailbox") -> "SyncProgress":
    from postroom.store import sync_progress

    async with at.engine.database.transaction(at.organization) as connection:
        return await sync_progress.get_progress(connection, mailbox.id, WorkKind.SYNC)


@asynccontextmanager
async def run_sync_worker(at: MailboxCommandContext) -> AsyncGenerator[None]:
    """A worker for syncs alone, while the block runs. Others may be quicker; leases keep them apart."""
    from postroom import worker

    stop = asyncio.Event()
    handlers = {WorkKind.SYNC: at.engine.handlers[WorkKind.SYNC]}
    limits = worker.worker_limits(at.engine.settings)
    running = asyncio.create_task(worker.run(at.engine.database, handlers, limits, stop))
    try:
        yield
    finally:
        stop.set()
        await running
