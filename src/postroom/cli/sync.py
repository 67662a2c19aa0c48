"""`postroom sync` and `postroom mailboxes backfill`: ask for a sync, see it done, tell the result."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from postroom.cli.exits import Exit
from postroom.cli.mailboxes import At, Json, Named, find, group, run

if TYPE_CHECKING:
    from postroom.store.database import Connection
    from postroom.store.mailboxes import Mailbox
    from postroom.store.syncs import Progress

EXAMPLES = """\b
Examples:
  postroom sync ann@example.org
  postroom sync 5f0c --full"""
LOOK_SECONDS = 0.1


def sync(
    named: Named,
    *,
    full: Annotated[
        bool, typer.Option("--full", help="List everything anew, and settle what is no longer there.")
    ] = False,
    json: Json = False,
) -> Exit:
    """Sync a mailbox now, and tell what was done. Workers that run already may be the ones to do it."""

    async def ask(at: At, mailbox: "Mailbox", connection: "Connection") -> bool:
        from postroom.flow.mail.sync import asked

        await asked.ask(connection, at.organization, mailbox.id, full=full)
        return True

    return run(lambda at: _followed(at, named, ask, json=json))


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
) -> Exit:
    """Fetch more of a mailbox's past. Interrupted, it goes on wherever a worker runs."""

    async def ask(at: At, mailbox: "Mailbox", connection: "Connection") -> bool:
        from postroom.flow.mail.sync import asked

        return await asked.reach_back(connection, at.organization, mailbox.id, days=days)

    return run(lambda at: _followed(at, named, ask, json=json))


async def _followed(
    at: At, named: str, ask: "Callable[[At, Mailbox, Connection], Awaitable[bool]]", *, json: bool
) -> Exit:
    """Ask, work until it is done, and say what came of it."""
    from postroom.cli import output
    from postroom.errors import PermanentError
    from postroom.store import subscriptions, syncs

    mailbox = await find(at, named)
    if mailbox.paused_at or mailbox.disconnected_at:
        raise PermanentError("This mailbox is paused or disconnected. Resume or connect it first.")
    async with at.desk.database.transaction(at.organization) as connection:
        began = await subscriptions.now(connection)
        asked = await ask(at, mailbox, connection)
    if asked:
        async with working(at):
            found = await watch(at, mailbox)
    else:
        found = await _progress(at, mailbox)
    async with at.desk.database.transaction(at.organization) as connection:
        done = await syncs.done_since(connection, mailbox.id, began)
    if json:
        output.as_json({"mailbox": mailbox.id, **asdict(done), "error": found.error})
    else:
        _tell(done, found, asked=asked)
    return Exit.FAILED if found.error else Exit.OK


def _tell(done: object, found: "Progress", *, asked: bool) -> None:
    from postroom.cli import output
    from postroom.store.syncs import Done

    assert isinstance(done, Done)
    if not asked:
        typer.echo("It reaches back so far already.")
        return
    names = ("threads", "messages", "attachments", "events", "errors")
    output.table(("WHAT", "COUNT"), [(name, getattr(done, name)) for name in names])
    if found.error:
        typer.echo(f"It did not end well: {found.error}", err=True)


async def watch(at: At, mailbox: "Mailbox") -> "Progress":
    """A bar of how much was listed, of how much the provider lets expect."""
    from postroom.cli import opening, progress

    found = await _progress(at, mailbox)
    with opening.busy("Syncing"):
        while _goes_on(found) and not found.expected:
            await asyncio.sleep(LOOK_SECONDS)
            found = await _progress(at, mailbox)
    total, shown = found.expected, 0
    with progress.bar("Listing", total) as advance:
        while _goes_on(found):
            share = found.listed * total // max(found.expected, 1)
            advance(max(share - shown, 0))
            shown = max(share, shown)
            await asyncio.sleep(LOOK_SECONDS)
            found = await _progress(at, mailbox)
    return found


def _goes_on(found: "Progress") -> bool:
    """A sync that failed backs off: that is an end here, and workers try again."""
    return not found.settled


async def _progress(at: At, mailbox: "Mailbox") -> "Progress":
    from postroom.flow.mail.sync import KIND
    from postroom.store import syncs

    async with at.desk.database.transaction(at.organization) as connection:
        return await syncs.progress(connection, mailbox.id, KIND)


@asynccontextmanager
async def working(at: At) -> AsyncGenerator[None]:
    """A worker for syncs alone, while the block runs. Others may be quicker; leases keep them apart."""
    from functools import partial

    from postroom import wiring, worker
    from postroom.flow.mail import sync as flow

    stop = asyncio.Event()
    parts = wiring.syncing(at.settings, at.desk.database, at.remote)
    kinds = {flow.KIND: wiring.Kind(partial(flow.run, parts), None)}
    running = asyncio.create_task(worker.run(at.desk.database, kinds, worker.limits(at.settings), stop))
    try:
        yield
    finally:
        stop.set()
        await running
