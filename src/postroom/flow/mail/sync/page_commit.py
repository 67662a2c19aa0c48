"""One page, one transaction: messages, threads, attachments, events, ledger, feed, failures, and the cursor
that passes over them, guarded by the lease. Before it nothing of the page exists, after it all of it does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from postroom.errors import TransientError
from postroom.flow.mail.sync import message_state
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
from postroom.store.cursors import Begin, CursorKind, Move
from postroom.store.database import Connection
from postroom.store.database_errors import is_unstorable_value
from postroom.store.failures import Failure
from postroom.store.feed import News
from postroom.store.ledger import Entry
from postroom.store.mail_events import MailEvent
from postroom.store.messages import Attached, Stored
from postroom.store.purged_people import ReceivedMessage

log = Log()

_EVENT_TYPES = {"created": "message.created", "deleted": "message.deleted"}


@dataclass(frozen=True, slots=True)
class CursorUpdates:
    """The cursors that a transaction moves, starts and ends."""

    moves: Sequence[Move] = ()
    begins: Sequence[Begin] = ()
    drops: Sequence[tuple[CursorKind, str]] = ()
    listed: Sequence[tuple[str, Sequence[str]]] = ()  # by scope: what a listing showed that will be settled
    listed_first: bool = False  # by a first listing, which shows much that is not stored

    @property
    def comes_on(self) -> bool:
        """A page of a listing is behind us, even one that held nothing new."""
        return any(each.kind is not CursorKind.LIVE for each in self.moves)


@dataclass
class _PageWrite:
    """What a page comes to, in rows."""

    new: list[tuple[ReadyMessage, MessageState]] = field(
        default_factory=list[tuple[ReadyMessage, MessageState]]
    )
    changed: dict[str, MessageState] = field(default_factory=dict[str, MessageState])
    rewritten: dict[str, ReadyMessage] = field(default_factory=dict[str, ReadyMessage])
    events: list[tuple[str, MessageEvent]] = field(default_factory=list[tuple[str, MessageEvent]])


async def commit_page(
    reading: SyncRun,
    gathered: FetchedPage,
    passing: CursorUpdates,
    *,
    rewrites: bool = False,
) -> None:
    """Write a page. `rewrites`: what was fetched of stored messages replaces what is stored.

    A message that the database refuses becomes a failure; the others of its page are written before it.
    """
    try:
        await _write_page(reading, gathered, passing, rewrites=rewrites)
    except Exception as error:
        if not is_unstorable_value(error) or not gathered.keys():
            raise
        found = await _write_in_halves(reading, gathered, gathered.keys(), error, rewrites=rewrites)
        log.info("sync.refused", mailbox=reading.id, count=len(found))
        rest = FetchedPage(failures=[*gathered.failures, *found], retried=gathered.retried)
        await _write_page(reading, rest, passing, rewrites=rewrites)


async def _write_in_halves(
    reading: SyncRun, gathered: FetchedPage, keys: Sequence[str], error: Exception, *, rewrites: bool
) -> list[Failure]:
    """Write half of it, then the other half, and so on, until what is refused stands alone."""
    if len(keys) == 1:
        words = f"The database cannot keep it ({type(error).__name__})."
        return [Failure("message", keys[0], words, get_retry_wait(gathered.attempts(keys[0])))]
    found: list[Failure] = []
    half = len(keys) // 2
    for part in (keys[:half], keys[half:]):
        try:
            await _write_page(reading, gathered.only(part), CursorUpdates(), rewrites=rewrites)
        except Exception as again:
            if not is_unstorable_value(again):
                raise
            found += await _write_in_halves(reading, gathered, part, again, rewrites=rewrites)
    return found


async def _write_page(
    reading: SyncRun, gathered: FetchedPage, passing: CursorUpdates, *, rewrites: bool
) -> None:
    """The transaction."""
    before = replace(reading.did)
    async with work.fenced(reading.parts.database, reading.lease) as connection:
        standing = await _check_mailbox_unchanged(reading, connection)
        reading.generation = standing.generation
        if standing.people_forgotten:
            gathered = await _without_purged_senders(connection, gathered)
        stored = await messages.known(connection, reading.id, gathered.keys())
        writing = _plan_write(reading, gathered, stored, rewrites=rewrites)
        try:
            await _store_rows(reading, connection, writing, stored)
            await _record_failures(reading, connection, gathered, writing)
            await _update_cursors(reading, connection, passing)
            if reading.did != before or passing.comes_on:
                await work.came_on(connection, reading.lease)
        except BaseException:
            reading.did = before
            raise
    reading.did.pages += 1
    reading.told_start = reading.told_start or reading.did.anything


async def _check_mailbox_unchanged(reading: SyncRun, connection: Connection) -> mailboxes.Standing:
    """The work row is locked, so a change of the policy waits for this page or is seen by it."""
    found = await mailboxes.standing(connection, reading.id, reading.lease.id)
    if found is None or found.policy != reading.mailbox.policy or not found.wanted:
        raise TransientError("The mailbox was changed during its sync.", retry_after=0)
    return found


async def _without_purged_senders(connection: Connection, gathered: FetchedPage) -> FetchedPage:
    """Mail of people who were purged stays out (K7)."""
    sent = [
        ReceivedMessage(each.key, each.content.from_address or "", each.state.received_at)
        for each in gathered.ready
    ]
    out = await purged_people.find_blocked_messages(connection, sent)
    return replace(gathered, ready=[each for each in gathered.ready if each.key not in out])


def _plan_write(
    reading: SyncRun, gathered: FetchedPage, stored: dict[str, Stored], *, rewrites: bool
) -> _PageWrite:
    writing = _PageWrite()
    for told in gathered.changes:
        if (row := stored.get(told.change.key)) is not None:
            _apply_observation(reading, writing, row, told)
    for ready in gathered.ready:
        row = stored.get(ready.key)
        if row is None:
            if reading.mirrors(ready.state.folder):
                standing = message_state.create_state(ready.version, ready.state)
                writing.new.append((ready, standing))
                writing.events.append(
                    (ready.key, MessageEvent("created", ready.version, to_folder=standing.folder))
                )
            continue
        if rewrites or row.is_draft or row.deleted:
            writing.rewritten[ready.key] = ready
        if ready.version < row.version and not row.deleted:
            continue  # a page that was fetched beside this one knows more
        told = Observation(
            MessageChange(ready.key, Presence.PRESENT, ready.version, ready.state), certain=True
        )
        _apply_observation(reading, writing, row, told)
    for key in gathered.gone:
        if (row := stored.get(key)) is not None:
            _apply_observation(
                reading, writing, row, Observation(MessageChange(key, Presence.DELETED), certain=True)
            )
    return writing


def _apply_observation(reading: SyncRun, writing: _PageWrite, row: Stored, told: Observation) -> None:
    """What lies in a folder that is not mirrored has left the mailbox."""
    before = writing.changed.get(row.key) or message_state.from_row(row)
    change = told.change
    if not told.certain and not message_state.is_newer(before, change):
        return
    if change.presence is Presence.PRESENT and not reading.mirrors(change.state.folder):
        change = MessageChange(change.key, Presence.DELETED, change.version)
    after, events = message_state.merge_change(before, change)
    if after != before:
        writing.changed[row.key] = after
        writing.events += [(row.key, event) for event in events]


async def _store_rows(
    reading: SyncRun,
    connection: Connection,
    writing: _PageWrite,
    stored: dict[str, Stored],
) -> None:
    written = [*(ready for ready, _ in writing.new), *writing.rewritten.values()]
    made = await threads.provide(connection, reading.id, {_thread_key(ready) for ready in written})
    ids = await messages.add(
        connection,
        reading.id,
        [
            _to_new_row(reading, ready, standing, made[_thread_key(ready)].id)
            for ready, standing in writing.new
        ],
    )
    ids |= {key: row.id for key, row in stored.items()}
    await messages.change(
        connection, [_to_state_row(reading, ids[key], standing) for key, standing in writing.changed.items()]
    )
    await messages.replace(connection, [(ids[key], each.content) for key, each in writing.rewritten.items()])
    threaded = {stored[key].id: made[_thread_key(each)].id for key, each in writing.rewritten.items()}
    await messages.thread(connection, threaded)
    attached = await _store_attachments(reading, connection, writing, ids)
    await mail_events.add(
        connection, reading.id, [_to_mail_event(reading, ids[key], event) for key, event in writing.events]
    )
    grown = {made[_thread_key(ready)].id for ready, _ in writing.new}
    summed = await threads.add_up(
        connection, grown | set(threaded.values()) | _find_changed_threads(writing, stored)
    )
    told = [each for each in summed if each.id in grown]
    reading.did.threads += len(told)
    reading.did.messages += len(writing.new)
    reading.did.events += len(writing.events)
    reading.did.deleted += sum(event.kind == "deleted" for _, event in writing.events)
    await _record_changes(reading, connection, writing, ids, made, told, attached)
    if reading.parts.take_in is not None:
        await reading.parts.take_in(connection, reading.organization, _list_messages_to_screen(writing, ids))


def _find_changed_threads(writing: _PageWrite, stored: dict[str, Stored]) -> set[int]:
    """The threads that no longer add up to what they did; flags do not count there."""
    found = {stored[key].thread for key in writing.rewritten}
    for key, standing in writing.changed.items():
        row = stored[key]
        if (row.labels, row.deleted, row.received_at) != (
            standing.labels,
            standing.deleted,
            standing.received_at,
        ):
            found.add(row.thread)
    return found


def _list_messages_to_screen(writing: _PageWrite, ids: dict[str, int]) -> list[int]:
    """New messages with attachments, and those that stand elsewhere now: a pipeline may want them."""
    written = [ready for ready, _ in writing.new] + list(writing.rewritten.values())
    keys = {ready.key for ready in written if ready.attachments}
    keys |= {key for key, event in writing.events if event.kind in {"moved", "labels_changed"}}
    return sorted(ids[key] for key in keys)


async def _store_attachments(
    reading: SyncRun, connection: Connection, writing: _PageWrite, ids: dict[str, int]
) -> list[tuple[str, Attached]]:
    written = [ready for ready, _ in writing.new] + list(writing.rewritten.values())
    await blobs.record(connection, reading.organization, [blob for ready in written for blob in ready.blobs])
    detected = {sha256: what for ready in written for sha256, what in ready.detected.items()}
    await blobs.note_detected(connection, detected)
    attached = [
        (ready.key, Attached(ids[ready.key], enclosure, sha256))
        for ready in written
        for enclosure, sha256 in ready.attachments
    ]
    await messages.attach(
        connection, [row for _, row in attached], anew=[ids[key] for key in writing.rewritten]
    )
    reading.did.attachments += sum(row.sha256 is not None for _, row in attached)
    return attached


async def _record_failures(
    reading: SyncRun, connection: Connection, gathered: FetchedPage, writing: _PageWrite
) -> None:
    """Those of this page, those that a further attempt ended, and those of messages that are deleted."""
    await failures.record(connection, reading.id, gathered.failures)
    reading.did.errors += len(gathered.failures)
    if gathered.retried:
        failed = {(each.kind, each.subject) for each in gathered.failures}
        solved = [each for each in gathered.retried if (each.kind, each.subject) not in failed]
        await failures.resolve(connection, reading.id, solved)
    deleted = [key for key, standing in writing.changed.items() if standing.deleted]
    await failures.resolve_of(connection, reading.id, deleted)


async def _update_cursors(reading: SyncRun, connection: Connection, passing: CursorUpdates) -> None:
    for scope, keys in passing.listed:
        await cursors.note_listed(
            connection, reading.id, "resync", scope, keys, stored_only=passing.listed_first
        )
    await cursors.drop(connection, reading.id, passing.drops)
    await cursors.begin(connection, reading.id, passing.begins)
    await cursors.move(connection, reading.id, passing.moves)
    if passing.begins or passing.drops or passing.moves:
        rows = await cursors.of_mailbox(connection, reading.id)
        reading.cursors = {(row.kind, row.scope): row for row in rows}


async def _record_changes(
    reading: SyncRun,
    connection: Connection,
    writing: _PageWrite,
    ids: dict[str, int],
    made: dict[str, threads.Thread],
    summed: Sequence[threads.Summed],
    attached: Sequence[tuple[str, Attached]],
) -> None:
    """Ledger and feed."""
    mailbox = str(reading.id)
    entries = [] if reading.told_start or not reading.did.anything else [build_started_entry(reading)]
    entries += [
        Entry(
            "THREAD_INGESTED",
            "thread",
            str(each.id),
            payload={"provider_thread_id": each.key, "message_count": each.message_count},
        )
        for each in summed
    ]
    entries += [
        _build_message_entry(ready, ids[ready.key], made[_thread_key(ready)].id) for ready, _ in writing.new
    ]
    entries += [_build_attachment_entry(row) for _, row in attached if row.sha256 is not None]
    entries += [
        Entry("MESSAGE_DELETED", "message", str(ids[key]), payload={"provider_message_id": key})
        for key, event in writing.events
        if event.kind == "deleted"
    ]
    await ledger.append(connection, reading.organization, entries)
    await feed.tell_all(
        connection,
        [
            News(
                _EVENT_TYPES.get(event.kind, "message.changed"),
                "message",
                str(ids[key]),
                {"mailbox_id": mailbox, "change": event.kind},
            )
            for key, event in writing.events
        ],
    )


def build_started_entry(reading: SyncRun) -> Entry:
    sync_type = "backfill" if reading.listings() else "incremental"
    return Entry("SYNC_STARTED", "mailbox", str(reading.id), payload={"sync_type": sync_type})


def _build_message_entry(ready: ReadyMessage, id_: int, thread: int) -> Entry:
    return Entry(
        "MESSAGE_INGESTED",
        "message",
        str(id_),
        payload={"provider_message_id": ready.key, "thread_id": thread},
        personal={"from_email": ready.content.from_address},
    )


def _build_attachment_entry(row: Attached) -> Entry:
    assert row.sha256 is not None
    return Entry(
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


def _thread_key(ready: ReadyMessage) -> str:
    """A message that belongs to no thread is one."""
    return ready.state.thread or ready.key


def _folder_id(reading: SyncRun, key: str | None) -> int | None:
    folder = reading.folders.get(key) if key else None
    return folder.id if folder else None


def _to_new_row(reading: SyncRun, ready: ReadyMessage, standing: MessageState, thread: int) -> messages.New:
    return messages.New(
        ready.key,
        thread,
        standing.version,
        _folder_id(reading, standing.folder),
        standing.labels,
        standing.categories,
        standing.is_read,
        standing.is_flagged,
        standing.is_draft,
        standing.importance,
        standing.received_at,
        ready.content,
    )


def _to_state_row(reading: SyncRun, id_: int, standing: MessageState) -> messages.Standing:
    return messages.Standing(
        id_,
        standing.version,
        _folder_id(reading, standing.folder),
        standing.labels,
        standing.categories,
        standing.is_read,
        standing.is_flagged,
        standing.is_draft,
        standing.importance,
        standing.received_at,
        standing.deleted,
    )


def _to_mail_event(reading: SyncRun, id_: int, event: MessageEvent) -> MailEvent:
    return MailEvent(
        id_,
        event.kind,
        event.version,
        _folder_id(reading, event.from_folder),
        _folder_id(reading, event.to_folder),
        event.labels_added,
        event.labels_removed,
        event.changed,
    )
