"""`postroom sync` and `postroom mailboxes backfill`: request a sync, run it, follow its progress.

The sync itself is in `flow.mail.sync`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.command_worker import run_worker
from postroom.cli.exit_codes import ExitCode
from postroom.cli.mailboxes import (
    MailboxCommandContext,
    find_mailbox,
    group,
    run_command,
)
from postroom.cli.options import JsonOption, MailboxArgument
from postroom.model import WorkKind

if TYPE_CHECKING:
    from postroom.store.database import Connection
    from postroom.store.mailboxes import Mailbox
    from postroom.store.sync_progress import SyncProgress, SyncTotals

EXAMPLES = """\b
Examples:
  postroom sync ann@example.org
  postroom sync 5f0c --full"""
POLL_SECONDS = 0.1


def sync(
    mailbox_name: MailboxArgument,
    *,
    full: Annotated[
        bool,
        typer.Option("--full", help="List the whole mailbox again, and mark missing messages as deleted."),
    ] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Sync a mailbox now, and print what changed.

    If a worker is running, it may run the sync.
    """

    async def request(context: MailboxCommandContext, mailbox: "Mailbox", connection: "Connection") -> bool:
        from postroom.flow.mail.sync import sync_requests

        await sync_requests.request_sync(connection, context.organization, mailbox.id, full=full)
        return True

    return run_command(lambda context: _request_and_follow(context, mailbox_name, request, json=json))


@group.command(
    epilog="""\b
Examples:
  postroom mailboxes backfill ann@example.org --days 365"""
)
def backfill(
    mailbox_name: MailboxArgument,
    days: Annotated[
        float, typer.Option(min=0, max=36500, metavar="DAYS", help="Number of days back from now.")
    ],
    *,
    json: JsonOption = False,
) -> ExitCode:
    """Fetch older mail of a mailbox. If interrupted, a worker continues."""

    async def request(context: MailboxCommandContext, mailbox: "Mailbox", connection: "Connection") -> bool:
        from postroom.flow.mail.sync import sync_requests

        return await sync_requests.extend_backfill(connection, context.organization, mailbox.id, days=days)

    return run_command(lambda context: _request_and_follow(context, mailbox_name, request, json=json))


async def _request_and_follow(
    context: MailboxCommandContext,
    mailbox_name: str,
    request: "Callable[[MailboxCommandContext, Mailbox, Connection], Awaitable[bool]]",
    *,
    json: bool,
) -> ExitCode:
    """Request a sync, run it to its end, and print the result."""
    from postroom.cli import output
    from postroom.errors import PermanentError
    from postroom.store import subscriptions, sync_progress

    mailbox = await find_mailbox(context, mailbox_name)
    if mailbox.paused_at or mailbox.disconnected_at:
        raise PermanentError("The mailbox is paused or disconnected. Resume or connect it first.")
    async with context.engine.database.transaction(context.organization) as connection:
        started_at = await subscriptions.read_clock(connection)
        is_due = await request(context, mailbox, connection)
    if is_due:
        async with run_worker(context.engine, WorkKind.SYNC):
            state = await follow_progress(context, mailbox)
    else:
        state = await _read_progress(context, mailbox)
    async with context.engine.database.transaction(context.organization) as connection:
        totals = await sync_progress.sum_since(connection, mailbox.id, started_at)
    if json:
        output.print_json({"mailbox": mailbox.id, **asdict(totals), "error": state.error})
    elif not is_due:
        typer.echo("The mailbox is already mirrored that far back.")
    else:
        _print_result(totals, state.error)
    return ExitCode.FAILED if state.error else ExitCode.OK


def _print_result(totals: "SyncTotals", error: str | None) -> None:
    from postroom.cli import output

    names = ("threads", "messages", "attachments", "events", "errors")
    output.print_table(("ITEM", "COUNT"), [(name, getattr(totals, name)) for name in names])
    if error:
        typer.echo(f"The sync failed: {error}", err=True)


async def follow_progress(context: MailboxCommandContext, mailbox: "Mailbox") -> "SyncProgress":
    """Show the progress of a sync until it has ended, and return its last state.

    A failed sync has ended for this command although workers will retry it. The bar measures listed messages
    against the provider's estimate, which may change meanwhile; it never moves back.
    """
    from postroom.cli import progress

    state = await _read_progress(context, mailbox)
    with progress.spinner("Syncing"):
        while not state.settled and not state.expected:
            await asyncio.sleep(POLL_SECONDS)
            state = await _read_progress(context, mailbox)
    total, shown = state.expected, 0
    with progress.bar("Listing", total) as advance:
        while not state.settled:
            share = state.listed * total // max(state.expected, 1)
            advance(max(share - shown, 0))
            shown = max(share, shown)
            await asyncio.sleep(POLL_SECONDS)
            state = await _read_progress(context, mailbox)
    return state


async def _read_progress(context: MailboxCommandContext, mailbox: "Mailbox") -> "SyncProgress":
    from postroom.store import sync_progress

    async with context.engine.database.transaction(context.organization) as connection:
        return await sync_progress.get_progress(connection, mailbox.id, WorkKind.SYNC)
