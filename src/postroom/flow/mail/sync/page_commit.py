"""Commit one page: messages, threads, attachments, events, ledger, failures and the cursor.

It is one transaction under the lease: before it nothing of the page exists, after it everything does. A page
with values that the database rejects is committed in halves, so that only those messages fail. No provider
calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from postroom.errors import TransientError
from postroom.flow.mail.sync import message_state, page_rows
from postroom.flow.mail.sync.message_state import MessageEvent, MessageState
from postroom.flow.mail.sync.page_fetch import FetchedPage, Observation, ReadyMessage, get_retry_wait
from postroom.flow.mail.sync.sync_run import SyncRun
from postroom.logs import Log
from postroom.model import MessageChange, Presence
from postroom.store import (
    blobs,
    cursors,
    failures,
    feed,
    ledger,
    mail_events,
    mailboxes,
    messages,
    purged_people,
    threads,
    work,
)
from postroom.store.connection import Connection
from postroom.store.cursors import Cursor, CursorAdvance, CursorKind, CursorStart
from postroom.store.database_errors import is_unstorable_value
from postroom.store.failures import Failure
from postroom.store.feed import NewEvent
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mail_events import MailEvent
from postroom.store.messages import NewAttachment, StoredMessage
from postroom.store.purged_people import ReceivedMessage

log = Log()

_EVENT_TYPES = {"created": "message.created", "left": "message.left", "deleted": "message.deleted"}
_LEDGER_TYPES = {"left": "MESSAGE_LEFT_SCOPE", "deleted": "MESSAGE_DELETED"}


@dataclass(frozen=True, slots=True)
class CursorUpdates:
    """The cursors that a transaction advances, starts and deletes."""

    advances: Sequence[CursorAdvance] = ()
    starts: Sequence[CursorStart] = ()
    deletes: Sequence[tuple[CursorKind, str]] = ()
    listed: Sequence[
        tuple[str, Sequence[str]]
    ] = ()  # by scope: keys that a listing returned, for settling later
    only_relevant_keys: bool = False  # a first listing records only keys that are stored or have failed
    completed: Sequence[
        tuple[str, datetime]
    ] = ()  # by scope: a listing of it is complete, and when it started
    listing: Cursor | None = None  # the page is one of this listing

    @property
    def makes_progress(self) -> bool:
        """Whether a page of a listing is done, even one without anything new."""
        return any(each.kind is not CursorKind.LIVE for each in self.advances)


@dataclass
class _PageWrite:
    """The rows to write for a page."""

    new: list[tuple[ReadyMessage, MessageState]] = field(
        default_factory=list[tuple[ReadyMessage, MessageState]]
    )
    changed: dict[str, MessageState] = field(default_factory=dict[str, MessageState])
    rewritten: dict[str, ReadyMessage] = field(default_factory=dict[str, ReadyMessage])
    events_by_key: dict[str, list[MessageEvent]] = field(default_factory=dict[str, list[MessageEvent]])

    def record(self, key: str, events: Sequence[MessageEvent]) -> None:
        self.events_by_key.setdefault(key, []).extend(events)

    @property
    def events(self) -> list[tuple[str, MessageEvent]]:
        """The events by message, those of one message in the order in which they happened."""
        return [(key, event) for key, events in self.events_by_key.items() for event in events]


async def commit_page(
    sync_run: SyncRun,
    fetched_page: FetchedPage,
    cursor_updates: CursorUpdates,
    *,
    rewrites: bool = False,
) -> None:
    """Commit a page. `rewrites`: fetched content replaces the stored content of known messages.

    A message that the database rejects becomes a failure; the other messages of the page are committed.
    """
    try:
        await _write_page(sync_run, fetched_page, cursor_updates, rewrites=rewrites)
    except Exception as error:
        if not is_unstorable_value(error) or not fetched_page.keys():
            raise
        found = await _write_in_halves(sync_run, fetched_page, fetched_page.keys(), error, rewrites=rewrites)
        log.info("sync.messages_rejected", mailbox=sync_run.id, count=len(found))
        rest = fetched_page.without_messages()
        rest.failures = [*rest.failures, *found]
        await _write_page(sync_run, rest, cursor_updates, rewrites=rewrites)


async def _write_in_halves(
    sync_run: SyncRun, fetched_page: FetchedPage, keys: Sequence[str], error: Exception, *, rewrites: bool
) -> list[Failure]:
    """Bisect the page: commit each half, down to the single messages that the database rejects."""
    if len(keys) == 1:
        message = f"The database rejects this message ({type(error).__name__})."
        wait = get_retry_wait(fetched_page.attempts(keys[0]))
        return [Failure("message", keys[0], message, wait, fetched_page.scopes.get(keys[0]))]
    found: list[Failure] = []
    half = len(keys) // 2
    for part in (keys[:half], keys[half:]):
        try:
            await _write_page(sync_run, fetched_page.only(part), CursorUpdates(), rewrites=rewrites)
        except Exception as again:
            if not is_unstorable_value(again):
                raise
            found += await _write_in_halves(sync_run, fetched_page, part, again, rewrites=rewrites)
    return found


async def _write_page(
    sync_run: SyncRun, fetched_page: FetchedPage, cursor_updates: CursorUpdates, *, rewrites: bool
) -> None:
    """Run the transaction of a page."""
    before = replace(sync_run.counts)
    async with work.fenced_transaction(sync_run.context.database, sync_run.lease) as connection:
        state = await _check_mailbox_unchanged(sync_run, connection)
        sync_run.generation = state.generation
        if state.has_purged_people:
            fetched_page = await _without_purged_senders(connection, fetched_page)
        stored = await messages.find_by_keys(connection, sync_run.id, fetched_page.keys())
        page_write = _plan_write(sync_run, fetched_page, stored, rewrites=rewrites)
        try:
            sync_run.counts.errors += len(fetched_page.failures)
            await _store_rows(sync_run, connection, page_write, stored)
            if state.has_open_failures:
                await _settle_failures(sync_run, connection, fetched_page)
            await _record_failures(sync_run, connection, fetched_page, page_write)
            await _update_cursors(sync_run, connection, cursor_updates)
            if sync_run.counts != before or cursor_updates.makes_progress:
                await work.record_progress(connection, sync_run.lease)
        except BaseException:
            sync_run.counts = before
            raise
    sync_run.unwritten = []
    sync_run.counts.pages += 1
    if not cursor_updates.makes_progress:
        sync_run.new_messages |= {ready.key: state.received_at for ready, state in page_write.new}
    sync_run.start_recorded = sync_run.start_recorded or sync_run.counts.has_changes


async def _check_mailbox_unchanged(sync_run: SyncRun, connection: Connection) -> mailboxes.SyncPreconditions:
    """Raise if the mailbox was paused, disconnected or got another policy.

    The work row is locked, so a change of the policy waits for this page or is seen here.
    """
    found = await mailboxes.get_sync_preconditions(connection, sync_run.id, sync_run.lease.id)
    if found is None or found.policy != sync_run.mailbox.policy or not found.is_active:
        raise TransientError("The mailbox changed during its sync.", retry_after=0)
    return found


async def _without_purged_senders(connection: Connection, fetched_page: FetchedPage) -> FetchedPage:
    """Drop mail of people who were purged."""
    sent = [
        ReceivedMessage(each.key, each.content.from_address or "", each.state.received_at)
        for each in fetched_page.ready
    ]
    out = await purged_people.find_blocked_messages(connection, sent)
    return replace(fetched_page, ready=[each for each in fetched_page.ready if each.key not in out])


def _plan_write(
    sync_run: SyncRun, fetched_page: FetchedPage, stored: dict[str, StoredMessage], *, rewrites: bool
) -> _PageWrite:
    page_write = _PageWrite()
    for observation in fetched_page.changes:
        if (row := stored.get(observation.change.key)) is not None:
            _apply_observation(sync_run, page_write, row, observation)
    for ready in fetched_page.ready:
        row = stored.get(ready.key)
        if row is None:
            if sync_run.mirrors(ready.state.folder):
                state = message_state.create_state(ready.version, ready.state)
                page_write.new.append((ready, state))
                page_write.record(ready.key, [message_state.build_created_event(state, ready.version)])
            continue
        if rewrites or row.is_draft or not row.is_mirrored:
            page_write.rewritten[ready.key] = ready
        if ready.version < row.version and row.is_mirrored:
            continue  # a page fetched concurrently has a newer version
        observation = Observation(
            MessageChange(ready.key, Presence.PRESENT, ready.version, ready.state), certain=True
        )
        _apply_observation(sync_run, page_write, row, observation)
    return page_write


def _apply_observation(
    sync_run: SyncRun, page_write: _PageWrite, row: StoredMessage, observation: Observation
) -> None:
    """Apply one observation. A message in a folder that is not mirrored has left the scope, or is deleted."""
    before = page_write.changed.get(row.key) or message_state.from_row(row)
    change = observation.change
    if not observation.certain and not message_state.is_newer(before, change):
        return
    if change.presence is Presence.PRESENT and not sync_run.mirrors(change.state.folder):
        where = Presence.LEFT if sync_run.leaves_scope(change.state.folder) else Presence.DELETED
        change = replace(change, presence=where)
    after, events = message_state.merge_change(before, change)
    if after != before:
        page_write.changed[row.key] = after
        page_write.record(row.key, events)


async def _store_rows(
    sync_run: SyncRun,
    connection: Connection,
    page_write: _PageWrite,
    stored: dict[str, StoredMessage],
) -> None:
    written = [*(ready for ready, _ in page_write.new), *page_write.rewritten.values()]
    made = await threads.insert_missing_threads(
        connection, sync_run.id, {page_rows.get_thread_key(ready) for ready in written}
    )
    ids = await messages.add(
        connection,
        sync_run.id,
        [
            page_rows.to_new_row(sync_run, ready, state, made[page_rows.get_thread_key(ready)].id)
            for ready, state in page_write.new
        ],
    )
    ids |= {key: row.id for key, row in stored.items()}
    await messages.update_states(
        connection,
        [page_rows.to_state_row(sync_run, ids[key], state) for key, state in page_write.changed.items()],
    )
    threaded = {
        stored[key].id: made[page_rows.get_thread_key(each)].id for key, each in page_write.rewritten.items()
    }
    digests = await messages.digest_contents(connection, _find_edited(page_write, stored))
    await messages.replace_contents(
        connection, [(ids[key], each.content) for key, each in page_write.rewritten.items()]
    )
    await messages.move_to_threads(connection, threaded)
    attached = await _store_attachments(sync_run, connection, page_write, ids)
    await _record_new_contents(connection, page_write, ids, digests)
    events = page_rows.list_mail_events(sync_run, page_write.events_by_key, ids, stored)
    await mail_events.add(connection, sync_run.id, events)
    grown = {made[page_rows.get_thread_key(ready)].id for ready, _ in page_write.new}
    summed = await threads.sum_threads(
        connection, grown | set(threaded.values()) | _find_changed_threads(page_write, stored)
    )
    grown_threads = [thread for thread in summed if thread.id in grown]
    _count_changes(sync_run, page_write, len(grown_threads))
    await _record_changes(sync_run, connection, page_write, ids, made, grown_threads, attached, events)
    if sync_run.context.intake is not None:
        await sync_run.context.intake(
            connection, sync_run.organization, _list_messages_to_screen(page_write, ids)
        )


def _count_changes(sync_run: SyncRun, page_write: _PageWrite, grown_threads: int) -> None:
    sync_run.counts.threads += grown_threads
    sync_run.counts.messages += len(page_write.new)
    sync_run.counts.events += len(page_write.events)
    sync_run.counts.deleted += sum(event.kind == "deleted" for _, event in page_write.events)


def _find_edited(page_write: _PageWrite, stored: dict[str, StoredMessage]) -> set[int]:
    """Find the rewritten messages whose content the provider may have changed: no others can be edited."""
    rows = [(stored[key], ready.version) for key, ready in page_write.rewritten.items()]
    return {
        row.id for row, version in rows if (row.is_draft or not row.is_mirrored) and version > row.version
    }


async def _record_new_contents(
    connection: Connection, page_write: _PageWrite, ids: dict[str, int], digests: dict[int, bytes]
) -> None:
    """Give rewritten messages whose content differs from before a new content revision, with its event."""
    after = await messages.digest_contents(connection, digests)
    changed = [id_ for id_, digest in after.items() if digest != digests[id_]]
    revisions = await messages.raise_content_revisions(connection, changed)
    for key, ready in page_write.rewritten.items():
        if (revision := revisions.get(ids[key])) is not None:
            events = page_write.events_by_key.get(key, [])
            page_write.events_by_key[key] = message_state.add_content_revision(
                events, ready.version, revision
            )


def _find_changed_threads(page_write: _PageWrite, stored: dict[str, StoredMessage]) -> set[int]:
    """Find the threads whose totals change. Flags are not part of the totals."""
    found = {stored[key].thread for key in page_write.rewritten}
    for key, state in page_write.changed.items():
        row = stored[key]
        if (row.labels, row.deleted, row.received_at) != (
            state.labels,
            state.deleted,
            state.received_at,
        ):
            found.add(row.thread)
    return found


def _list_messages_to_screen(page_write: _PageWrite, ids: dict[str, int]) -> list[int]:
    """List new messages with attachments, and moved or relabeled ones: a pipeline may accept them."""
    written = [ready for ready, _ in page_write.new] + list(page_write.rewritten.values())
    keys = {ready.key for ready in written if ready.attachments}
    keys |= {key for key, event in page_write.events if event.kind in {"moved", "labels_changed"}}
    return sorted(ids[key] for key in keys)


async def _store_attachments(
    sync_run: SyncRun, connection: Connection, page_write: _PageWrite, ids: dict[str, int]
) -> list[tuple[str, NewAttachment]]:
    written = [ready for ready, _ in page_write.new] + list(page_write.rewritten.values())
    await blobs.record(connection, sync_run.organization, [blob for ready in written for blob in ready.blobs])
    detected = {sha256: what for ready in written for sha256, what in ready.detected.items()}
    await blobs.record_detected_types(connection, detected)
    attached = [
        (ready.key, NewAttachment(ids[ready.key], attachment, sha256))
        for ready in written
        for attachment, sha256 in ready.attachments
    ]
    await messages.write_attachments(
        connection, [row for _, row in attached], replaced_messages=[ids[key] for key in page_write.rewritten]
    )
    sync_run.counts.attachments += sum(row.sha256 is not None for _, row in attached)
    return attached


async def _settle_failures(sync_run: SyncRun, connection: Connection, fetched_page: FetchedPage) -> None:
    """Update the open failures of messages that left a scope, that a scope names, or that were fetched."""
    await failures.settle_left(connection, sync_run.id, fetched_page.left)
    await failures.record_listed(connection, sync_run.id, fetched_page.listed)
    await failures.resolve_by_messages(
        connection,
        sync_run.id,
        [ready.key for ready in fetched_page.ready],
        still_failing=[failure.subject for failure in fetched_page.failures],
    )


async def _record_failures(
    sync_run: SyncRun, connection: Connection, fetched_page: FetchedPage, page_write: _PageWrite
) -> None:
    """Record this page's failures; resolve retried ones and those of deleted messages."""
    await failures.record(connection, sync_run.id, fetched_page.failures)
    if fetched_page.retried:
        failed = {(each.kind, each.subject) for each in fetched_page.failures}
        solved = [each for each in fetched_page.retried if (each.kind, each.subject) not in failed]
        await failures.resolve(connection, sync_run.id, solved)
    gone = [key for key, state in page_write.changed.items() if not state.is_mirrored]
    await failures.resolve_by_messages(connection, sync_run.id, gone)


async def _update_cursors(sync_run: SyncRun, connection: Connection, cursor_updates: CursorUpdates) -> None:
    listing = cursor_updates.listing
    if listing is not None and await cursors.is_restarted(connection, sync_run.id, listing):
        raise TransientError("The listing was started again during its sync.", retry_after=0)
    for scope, started_at in cursor_updates.completed:
        await failures.settle_unlisted(connection, sync_run.id, scope, listed_before=started_at)
    for scope, keys in cursor_updates.listed:
        await cursors.record_listed(
            connection, sync_run.id, "resync", scope, keys, only_relevant=cursor_updates.only_relevant_keys
        )
    await cursors.advance(connection, sync_run.id, sync_run.unwritten)
    await cursors.delete(connection, sync_run.id, cursor_updates.deletes)
    await cursors.start(connection, sync_run.id, cursor_updates.starts)
    await cursors.advance(connection, sync_run.id, cursor_updates.advances)
    if cursor_updates.starts or cursor_updates.deletes or cursor_updates.advances:
        rows = await cursors.list_by_mailbox(connection, sync_run.id)
        sync_run.cursors = {(row.kind, row.scope): row for row in rows}


async def _record_changes(
    sync_run: SyncRun,
    connection: Connection,
    page_write: _PageWrite,
    ids: dict[str, int],
    made: dict[str, threads.Thread],
    summed: Sequence[threads.ThreadTotals],
    attached: Sequence[tuple[str, NewAttachment]],
    events: Sequence[MailEvent],
) -> None:
    """Append ledger entries and feed events."""
    mailbox = str(sync_run.id)
    entries = (
        [] if sync_run.start_recorded or not sync_run.counts.has_changes else [build_started_entry(sync_run)]
    )
    entries += [
        NewLedgerEntry(
            "THREAD_INGESTED",
            "thread",
            str(each.id),
            payload={"provider_thread_id": each.key, "message_count": each.message_count},
        )
        for each in summed
    ]
    entries += [
        _build_message_entry(ready, ids[ready.key], made[page_rows.get_thread_key(ready)].id)
        for ready, _ in page_write.new
    ]
    entries += [_build_attachment_entry(row) for _, row in attached if row.sha256 is not None]
    entries += [
        NewLedgerEntry(
            _LEDGER_TYPES[event.kind], "message", str(ids[key]), payload={"provider_message_id": key}
        )
        for key, event in page_write.events
        if event.kind in _LEDGER_TYPES
    ]
    await ledger.append_entries(connection, sync_run.organization, entries)
    await feed.append_events(
        connection,
        [
            NewEvent(
                _EVENT_TYPES.get(event.kind, "message.changed"),
                "message",
                str(event.message),
                {"mailbox_id": mailbox, "change": event.kind, "revision": event.revision},
            )
            for event in events
        ],
    )


def build_started_entry(sync_run: SyncRun) -> NewLedgerEntry:
    sync_type = "backfill" if sync_run.listings() else "incremental"
    return NewLedgerEntry("SYNC_STARTED", "mailbox", str(sync_run.id), payload={"sync_type": sync_type})


def _build_message_entry(ready: ReadyMessage, id_: int, thread: int) -> NewLedgerEntry:
    return NewLedgerEntry(
        "MESSAGE_INGESTED",
        "message",
        str(id_),
        payload={"provider_message_id": ready.key, "thread_id": thread},
        personal={"from_email": ready.content.from_address},
    )


def _build_attachment_entry(row: NewAttachment) -> NewLedgerEntry:
    assert row.sha256 is not None
    return NewLedgerEntry(
        "ATTACHMENT_SAVED",
        "attachment",
        f"{row.message}/{row.attachment.part}",
        payload={
            "message_id": row.message,
            "sha256": row.sha256.hex(),
            "size_bytes": row.attachment.size,
        },
        personal={"filename": row.attachment.file_name},
    )
