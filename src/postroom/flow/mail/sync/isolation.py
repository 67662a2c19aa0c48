"""Handle messages alone if a worker may have crashed or stalled over them, and park those that do it again.

A page is fetched and committed as a whole, so a crash does not show which of its messages caused it. After
two lost leases the sync is a suspect: each message is recorded, fetched and committed alone. A message that
was being handled when two leases were lost is parked: it becomes an open failure, and the sync skips it.

A lost lease proves nothing: the machine may have been overloaded, or the worker killed. So a parked message
is retried alone, a few times with long waits. Then it waits for a person.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from postroom.errors import LeaseLost, PostroomError
from postroom.flow.mail.sync.folder_tree import fetch_with_known_folders
from postroom.flow.mail.sync.page_commit import CursorUpdates, commit_page
from postroom.flow.mail.sync.page_fetch import FetchedPage, FetchOptions, Observation
from postroom.flow.mail.sync.sync_run import SyncRun
from postroom.logs import Log
from postroom.store import failures, feed, ledger, messages, suspect_messages, work
from postroom.store.failures import Failure
from postroom.store.ledger import NewLedgerEntry
from postroom.store.suspect_messages import SuspectMessage

log = Log()

PARKED: Final = (
    "Workers crashed or stalled on this message, so the sync skips it."
    " Check the worker's log, fix the cause, then retry."
)
PARKED_WAITS: Final = (3600.0, 6 * 3600.0, 24 * 3600.0)  # after the last, it waits for a person
# What else a page of these messages needs before it is committed.
PageChange = Callable[[FetchedPage, Collection[str]], None]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page to fetch. `rewrites`: fetched content replaces the stored content of known messages."""

    observations: Sequence[Observation]
    options: FetchOptions
    rewrites: bool = False
    change: PageChange = lambda _page, _keys: None


async def park_suspects(sync_run: SyncRun, found: Sequence[SuspectMessage]) -> None:
    """Park the suspects of the mailbox that were being handled when leases were lost."""
    if not found:
        return
    async with work.fenced_transaction(sync_run.context.database, sync_run.lease) as connection:
        parked = await suspect_messages.count_lost_leases(connection, sync_run.id, sync_run.lease)
        stored = await messages.find_by_keys(connection, sync_run.id, parked)
        for key, before in parked.items():
            wait = PARKED_WAITS[before] if before < len(PARKED_WAITS) else None
            row = stored.get(key)
            scope = sync_run.find_scope(row.folder) if row is not None and row.is_mirrored else None
            await failures.record(connection, sync_run.id, [Failure("message", key, PARKED, wait, scope)])
            await failures.postpone(connection, sync_run.id, key, wait)
            message = {"provider_message_id": key}
            entry = NewLedgerEntry("MESSAGE_PARKED", "mailbox", str(sync_run.id), payload=message)
            await ledger.append_entries(connection, sync_run.organization, [entry])
            await feed.append_event(
                connection, "mailbox.message_parked", "mailbox", str(sync_run.id), message
            )
        if parked:
            await work.record_progress(connection, sync_run.lease)
        found = await suspect_messages.list_all(connection, sync_run.id)
    sync_run.parked = {each.key for each in found if each.is_parked}
    sync_run.suspects = {each.key for each in found} - sync_run.parked
    if parked:
        log.error("sync.messages_parked", mailbox=sync_run.id, count=len(parked))


def list_suspects(sync_run: SyncRun, observations: Sequence[Observation]) -> list[str]:
    """The messages of a page to handle alone, in this order.

    Those that were named by a lost lease come last, so that they delay no other. The oldest come first: a
    listing by date continues from the newest stored message.
    """
    received: dict[str, datetime] = {}
    for observation in observations:
        key = observation.change.key
        if key not in sync_run.parked and (sync_run.lease.is_suspect or key in sync_run.suspects):
            received[key] = observation.change.state.received_at or datetime.min.replace(tzinfo=UTC)
    return sorted(received, key=lambda key: (key in sync_run.suspects, received[key]))


async def fetch_page(sync_run: SyncRun, request: PageRequest) -> FetchedPage:
    """Fetch a page whose folders are known. Suspects are committed here; the page has the others."""
    alone = list_suspects(sync_run, request.observations)
    shown: list[str] = []
    for key in alone:
        shown += await _handle_alone(sync_run, key, request)
    if alone:
        async with work.fenced_transaction(sync_run.context.database, sync_run.lease) as connection:
            await suspect_messages.finish(connection, sync_run.id)
        sync_run.suspects -= set(alone)
    handled = set(alone)
    others = [each for each in request.observations if each.change.key not in handled]
    fetched_page = await fetch_with_known_folders(sync_run, others, request.options)
    request.change(fetched_page, {each.change.key for each in others})
    fetched_page.shown += shown
    return fetched_page


async def _handle_alone(sync_run: SyncRun, key: str, request: PageRequest) -> Sequence[str]:
    """Record, fetch and commit one message; the keys that the provider showed."""
    async with work.fenced_transaction(sync_run.context.database, sync_run.lease) as connection:
        await suspect_messages.start(connection, sync_run.id, sync_run.lease, key)
    try:
        observations = [each for each in request.observations if each.change.key == key]
        fetched_page = await fetch_with_known_folders(sync_run, observations, request.options)
        request.change(fetched_page, {key})
        await commit_page(sync_run, fetched_page, CursorUpdates(), rewrites=request.rewrites)
    except LeaseLost:
        raise  # it may have stalled
    except Exception:
        with suppress(PostroomError):  # an error is not a crash
            async with work.fenced_transaction(sync_run.context.database, sync_run.lease) as connection:
                await suspect_messages.finish(connection, sync_run.id)
        raise
    return fetched_page.shown
