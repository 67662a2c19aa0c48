"""Fetch what a page of changes needs, and store its attachment bytes, before the page is committed.

Every observation changes a stored message, or needs a lookup (only that shows where a message went), or needs
a fetch (a new message, or an edited draft), or is nothing new. Also how long failures wait for their retry.
No row is written here: `page_commit` does.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from postroom.errors import InvalidGrant, PermanentError, SenderQuotaReached, TokenRejected, TransientError
from postroom.flow.documents import screen
from postroom.flow.mail.sync import content_filter
from postroom.flow.mail.sync.message_state import from_row, is_newer
from postroom.flow.mail.sync.sync_run import SyncRun
from postroom.model import (
    ContentPolicy,
    FetchedMessage,
    FetchFailure,
    MessageChange,
    ObservedState,
    Presence,
    RemoteAttachment,
)
from postroom.ports import Blob
from postroom.store import messages
from postroom.store.failures import DueFailure, Failure, attachment_subject
from postroom.store.messages import StoredContent, StoredMessage

# The waits between retries of one message. After the last, it waits for a person.
RETRY_WAITS: Final = (30.0, 120.0, 600.0, 3600.0, 6 * 3600.0, 24 * 3600.0)
NEXT_PAGE_SHARE: Final = 0.3  # start fetching the next page when no more than this share is missing
# A provider may name a message before it can be read: usually for seconds, so the first retries come soon.
UNREADABLE_WAITS: Final = (2.0, 8.0, *RETRY_WAITS)
UNREADABLE: Final = "The provider names this message, but does not return it."


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of a message.

    A certain one comes from a lookup, a retry or a refill and is applied whatever its version. The others
    come from a change feed, a listing or a push, and are applied only if they are newer.
    """

    change: MessageChange
    scope: str | None = None  # whose feed or listing named the message; None: a push, a date, our own row
    certain: bool = False


@dataclass(frozen=True, slots=True)
class ReadyMessage:
    """A message ready to commit: its bytes are stored and its content is what the policy allows."""

    key: str
    version: str
    state: ObservedState
    content: StoredContent
    attachments: tuple[tuple[RemoteAttachment, bytes | None], ...]
    blobs: tuple[Blob, ...]
    detected: dict[bytes, str]  # by digest: the file type that the first bytes show


@dataclass
class FetchedPage:
    """Everything that a page needs to be committed.

    A 404 does not mean that a message is gone: it may not be readable yet. It becomes a failure, unless the
    change feed or a complete listing says that it is gone.
    """

    changes: list[Observation] = field(default_factory=list[Observation])
    ready: list[ReadyMessage] = field(default_factory=list[ReadyMessage])
    failures: list[Failure] = field(default_factory=list[Failure])
    unreadable: set[str] = field(default_factory=set[str])  # keys that the provider does not return
    listed: dict[str, str] = field(default_factory=dict[str, str])  # by key: the scope that names it
    left: dict[str, str] = field(default_factory=dict[str, str])  # by key: the scope that it left
    scopes: dict[str, str] = field(default_factory=dict[str, str])  # by key: where it is, if known
    shown: list[str] = field(default_factory=list[str])  # keys that exist at the provider
    retried: list[DueFailure] = field(default_factory=list[DueFailure])  # failures that were retried

    def keys(self) -> list[str]:
        changed = (observation.change.key for observation in self.changes)
        return list(dict.fromkeys((*changed, *(message.key for message in self.ready))))

    def only(self, keys: Collection[str]) -> "FetchedPage":
        """Return only what concerns these messages."""
        return FetchedPage(
            changes=[each for each in self.changes if each.change.key in keys],
            ready=[each for each in self.ready if each.key in keys],
        )

    def without_messages(self) -> "FetchedPage":
        """Return what is left to write once its messages are written or rejected."""
        return replace(self, changes=[], ready=[])

    def attempts(self, key: str) -> int:
        """How often this message has failed before."""
        return max((each.attempts for each in self.retried if each.message == key), default=0)

    def folders(self) -> set[str]:
        observed = [observation.change.state.folder for observation in self.changes]
        return {key for key in (*observed, *(message.state.folder for message in self.ready)) if key}

    def labels(self) -> set[str]:
        added = [observation.change.labels_added for observation in self.changes]
        states = [observation.change.state for observation in self.changes]
        states += [message.state for message in self.ready]
        return set[str]().union(*added, *(state.labels for state in states if state.labels))


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How to fetch a page.

    A listing may return bare keys, without any state. If such a message is not stored, it is fetched or left
    to another listing (`fetch_unknown_bare_keys`). If it is stored, it is looked up or assumed unchanged
    (`look_up_known_bare_keys`).
    """

    since: datetime | None
    fetch_unknown_bare_keys: bool = True
    look_up_known_bare_keys: bool = False
    refetch_known: bool = False


@dataclass(frozen=True, slots=True)
class FetchTurn:
    """The turn of one page among concurrently fetched ones: it waits for most of the previous page."""

    mostly_fetched: asyncio.Event = field(default_factory=asyncio.Event)
    previous: asyncio.Event | None = None

    async def wait(self) -> None:
        if self.previous is not None:
            await self.previous.wait()


@dataclass
class _FetchPlan:
    changes: list[Observation] = field(default_factory=list[Observation])
    lookups: dict[str, Observation] = field(default_factory=dict[str, Observation])
    fetch: dict[str, MessageChange] = field(default_factory=dict[str, MessageChange])


async def fetch_page(
    sync_run: SyncRun,
    observations: Sequence[Observation],
    options: FetchOptions,
    turn: FetchTurn | None = None,
) -> FetchedPage:
    turn = turn or FetchTurn()
    await turn.wait()
    try:
        return await _fetch_page(sync_run, observations, options, turn)
    finally:
        turn.mostly_fetched.set()


async def _fetch_page(
    sync_run: SyncRun, observations: Sequence[Observation], options: FetchOptions, turn: FetchTurn
) -> FetchedPage:
    known = await _load_stored(sync_run, {each.change.key for each in observations})
    found = _start_page(sync_run, observations, known)
    handled = [each for each in observations if not _is_passed(sync_run, each)]
    plan = _plan_fetches(sync_run, handled, known, options)
    for key in found.left:
        plan.fetch.pop(key, None)
    if plan.lookups:
        looked = await look_up(sync_run, list(plan.lookups), found)
        for observation in looked:
            if _contradicts(observation, plan.lookups):
                _add_unreadable(found, plan.lookups[observation.change.key], known)
        looked = [each for each in looked if not _contradicts(each, plan.lookups)]
        found.shown += [each.change.key for each in looked if each.change.presence is Presence.PRESENT]
        lookup_plan = _plan_fetches(sync_run, looked, known, options)
        plan.changes = [each for each in plan.changes if each.change.key not in plan.lookups]
        plan.changes += lookup_plan.changes
        plan.fetch.update(lookup_plan.fetch)
    for key in sync_run.parked:
        plan.fetch.pop(key, None)
    found.changes = plan.changes
    await _fetch_messages(sync_run, found, list(plan.fetch.values()), options, turn)
    return found


def _is_passed(sync_run: SyncRun, observation: Observation) -> bool:
    """Whether the message is parked. Only that it is gone may be recorded."""
    change = observation.change
    return change.key in sync_run.parked and change.presence is Presence.PRESENT


def _start_page(
    sync_run: SyncRun, observations: Sequence[Observation], known: dict[str, StoredMessage]
) -> FetchedPage:
    """Start a page with what its feeds and listings name, and what left their scopes."""
    found = FetchedPage()
    scopes: dict[str, dict[str, None]] = {}  # by key: those that name it, the last one at the end
    left: dict[str, str] = {}
    for observation in observations:
        key, scope, row = observation.change.key, observation.scope, known.get(observation.change.key)
        if observation.change.presence is not Presence.PRESENT:
            if scope is not None and not observation.certain:
                scopes.get(key, {}).pop(scope, None)
                left[key] = scope
            continue
        found.shown.append(key)
        if scope is None and observation.change.state.folder is not None:
            scope = sync_run.find_scope(observation.change.state.folder)
        if scope is not None and not observation.certain:
            scopes[key] = {other: None for other in scopes.get(key, ()) if other != scope} | {scope: None}
        elif row is not None and row.is_mirrored and (stored := sync_run.find_scope(row.folder)) is not None:
            found.scopes[key] = stored
    found.listed = {key: list(named)[-1] for key, named in scopes.items() if named}
    found.left = {key: scope for key, scope in left.items() if key not in found.listed}
    found.scopes |= found.listed
    return found


def _contradicts(looked: Observation, causes: Mapping[str, Observation]) -> bool:
    """Whether a lookup found nothing although the message was reported as present."""
    reported = causes[looked.change.key].change.presence
    return looked.change.presence is not Presence.PRESENT and reported is Presence.PRESENT


def _add_unreadable(found: FetchedPage, report: Observation, known: Mapping[str, StoredMessage]) -> None:
    """Add the failure of a stored message that was reported as present and that a lookup did not find.

    If a push named it, its folder's feed decides. If the report may be older than its deletion, the failure
    names no scope, so a few attempts settle it.
    """
    key = report.change.key
    if key not in found.listed:
        return
    if not known[key].is_mirrored and report.change.version <= known[key].version:
        del found.listed[key], found.scopes[key]
    _add_failure(found, FetchFailure(key, gone=True, reason=UNREADABLE))


async def look_up(sync_run: SyncRun, keys: Sequence[str], found: FetchedPage) -> list[Observation]:
    """Look up messages. A failed lookup becomes a failure, and its retry fetches the message."""
    observations: list[Observation] = []
    for result in await sync_run.remote.look_up(keys):
        if isinstance(result, FetchFailure):
            _add_failure(found, result)
        else:
            observations.append(Observation(result, certain=True))
    return observations


async def _load_stored(sync_run: SyncRun, keys: set[str]) -> dict[str, StoredMessage]:
    if not keys:
        return {}
    async with sync_run.context.database.transaction(sync_run.organization) as connection:
        return await messages.find_by_keys(connection, sync_run.id, keys)


def _plan_fetches(
    sync_run: SyncRun,
    observations: Sequence[Observation],
    known: dict[str, StoredMessage],
    options: FetchOptions,
) -> _FetchPlan:
    found = _FetchPlan()
    here = {each.change.key for each in observations if each.change.presence is Presence.PRESENT}
    for observation in observations:
        row = known.get(observation.change.key)
        if row is None:
            _plan_unknown(observation.change, options, found)
        else:
            _plan_known(sync_run, observation, row, options, found, elsewhere=observation.change.key in here)
    return found


def _plan_unknown(change: MessageChange, options: FetchOptions, found: _FetchPlan) -> None:
    """Plan for a message that is not stored: new, or too old to be mirrored.

    A change of labels alone does not bring an old message in.
    """
    if change.presence is Presence.DELETED:
        found.fetch.pop(change.key, None)
    if change.presence is not Presence.PRESENT:  # it may have been reported by the folder it moved to
        return
    received = change.state.received_at
    if change.state.thread is None and change.labels_added | change.labels_removed:
        return
    if _is_bare(change) and not options.fetch_unknown_bare_keys:
        return
    if received is None or options.since is None or received >= options.since:
        found.fetch[change.key] = change


def _plan_known(
    sync_run: SyncRun,
    observation: Observation,
    row: StoredMessage,
    options: FetchOptions,
    found: _FetchPlan,
    *,
    elsewhere: bool,
) -> None:
    change = observation.change
    if observation.certain:
        _plan_certain(sync_run, observation, row, options, found)
        return
    if change.presence is Presence.LEFT:
        if row.is_mirrored and not elsewhere and sync_run.find_scope(row.folder) == observation.scope:
            found.lookups[change.key] = observation
        return
    if change.presence is Presence.PRESENT and not row.is_mirrored:  # an old report, or it is back unchanged
        found.lookups[change.key] = observation
        return
    if not is_newer(from_row(row), change):
        return
    if change.presence is Presence.PRESENT and _is_bare(change):
        if options.look_up_known_bare_keys:
            found.lookups[change.key] = observation
        return
    found.changes.append(observation)
    if row.is_draft and change.presence is Presence.PRESENT and change.version:
        found.fetch[change.key] = change


def _plan_certain(
    sync_run: SyncRun, observation: Observation, row: StoredMessage, options: FetchOptions, found: _FetchPlan
) -> None:
    """Plan for a looked-up message.

    A restored one is fetched in full: its failures were not retried while it was deleted.
    """
    change = observation.change
    here = change.presence is Presence.PRESENT
    if not here or not _is_bare(change):
        found.changes.append(observation)
    is_edited_draft = row.is_draft and change.version > row.version
    is_restored = here and not row.is_mirrored and sync_run.mirrors(change.state.folder)
    if options.refetch_known or is_edited_draft or is_restored:
        found.fetch[change.key] = change


def _is_bare(change: MessageChange) -> bool:
    if change.version or change.labels_added or change.labels_removed:
        return False
    return change.state == ObservedState(thread=change.state.thread)


async def _fetch_messages(
    sync_run: SyncRun,
    found: FetchedPage,
    wanted: Sequence[MessageChange],
    options: FetchOptions,
    turn: FetchTurn,
) -> None:
    """Fetch messages in groups. The bytes of one group are stored while the next is fetched."""
    if not wanted:
        return
    missing = len(wanted)
    preparing: asyncio.Task[None] | None = None
    try:
        async for group in sync_run.remote.fetch(wanted, sync_run.mailbox.policy):
            missing -= len(group)
            if missing <= NEXT_PAGE_SHARE * len(wanted):
                turn.mostly_fetched.set()
            if preparing is not None:
                await preparing
            preparing = asyncio.create_task(_prepare_group(sync_run, found, group, options))
        if preparing is not None:
            await preparing
    finally:
        if preparing is not None:
            preparing.cancel()
            await asyncio.gather(preparing, return_exceptions=True)


async def _prepare_group(
    sync_run: SyncRun,
    found: FetchedPage,
    group: Sequence[FetchedMessage | FetchFailure],
    options: FetchOptions,
) -> None:
    fetched = [each for each in group if isinstance(each, FetchedMessage) and not _is_too_old(each, options)]
    for ready, failures in await asyncio.gather(*(_prepare_message(sync_run, each) for each in fetched)):
        found.ready.append(ready)
        found.failures += [
            replace(failure, scope=sync_run.find_scope(ready.state.folder)) for failure in failures
        ]
    for result in group:
        if isinstance(result, FetchFailure):
            _add_failure(found, result)


def _is_too_old(fetched: FetchedMessage, options: FetchOptions) -> bool:
    received = fetched.state.received_at
    return options.since is not None and received is not None and received < options.since


def _add_failure(found: FetchedPage, unfetched: FetchFailure) -> None:
    key, reason, wait = unfetched.key, unfetched.reason, max(unfetched.retry_after or 0, RETRY_WAITS[0])
    if unfetched.gone:
        found.unreadable.add(key)
        reason, wait = UNREADABLE, UNREADABLE_WAITS[0]
    found.failures.append(Failure("message", key, reason, wait, found.scopes.get(key)))


async def _prepare_message(sync_run: SyncRun, fetched: FetchedMessage) -> tuple[ReadyMessage, list[Failure]]:
    """Store the bytes of its attachments, so that only small values are left to commit."""
    policy = sync_run.mailbox.policy
    kept = sync_run.context.filter_attachments(sync_run.mailbox, fetched.content)
    attachments: list[tuple[RemoteAttachment, bytes | None]] = []
    blobs: list[Blob] = []
    detected: dict[bytes, str] = {}
    failures: list[Failure] = []
    for attachment in kept:
        sha256 = None
        if attachment.kind != "reference":
            try:
                if not await _is_allowed(sync_run, fetched.key, attachment):
                    continue
                use = await sync_run.context.measure_sender(sync_run.mailbox, fetched, attachment)
                blob, head = await _store_bytes(sync_run, fetched.key, attachment)
                use.add(blob)
                blobs.append(blob)
                sha256 = blob.sha256
                detected[sha256] = screen.detect_type(head)
            except (InvalidGrant, TokenRejected):
                raise
            except (PermanentError, TransientError) as error:
                subject = attachment_subject(fetched.key, attachment.part)
                wait = None if isinstance(error, SenderQuotaReached) else RETRY_WAITS[0]
                failures.append(Failure("attachment", subject, str(error), wait))
        attachments.append((replace(attachment, content=None), sha256))
    written = content_filter.add_file_names(
        content_filter.filter_content(fetched.content, policy), [attachment for attachment, _ in attachments]
    )
    ready = ReadyMessage(
        fetched.key, fetched.version, fetched.state, written, tuple(attachments), tuple(blobs), detected
    )
    return ready, failures


async def _is_allowed(sync_run: SyncRun, key: str, attachment: RemoteAttachment) -> bool:
    """Whether the policy stores an attachment whose name does not show it, judged by its first bytes."""
    if sync_run.mailbox.policy is not ContentPolicy.DOCUMENTS:
        return True
    if not content_filter.needs_first_bytes(attachment):
        return True
    head = bytearray()
    async with aclosing(sync_run.remote.fetch_attachment(key, attachment)) as pieces:
        async for piece in pieces:
            head.extend(piece)
            if len(head) >= screen.HEAD_BYTES:
                break
    detected = screen.detect_type(bytes(head[: screen.HEAD_BYTES]))
    return content_filter.accepts_attachment(attachment, detected, is_covered=True)


async def _store_bytes(sync_run: SyncRun, key: str, attachment: RemoteAttachment) -> tuple[Blob, bytes]:
    """Store the bytes of an attachment; also return the first of them."""
    blobs, organization = sync_run.context.blobs, sync_run.organization
    if attachment.content is not None:
        return await blobs.put(organization, attachment.content), attachment.content[: screen.HEAD_BYTES]
    head = bytearray()

    async def pieces() -> AsyncIterator[bytes]:
        async for piece in sync_run.remote.fetch_attachment(key, attachment):
            head.extend(piece[: screen.HEAD_BYTES - len(head)])
            yield piece

    return await blobs.put(organization, pieces()), bytes(head)


def get_retry_wait(tried: int) -> float | None:
    """The wait after this many attempts; None: wait for a person."""
    return RETRY_WAITS[tried] if tried < len(RETRY_WAITS) else None


def get_unreadable_wait(tried: int) -> float | None:
    """The wait after this many attempts to fetch a message that the provider does not return."""
    return UNREADABLE_WAITS[tried] if tried < len(UNREADABLE_WAITS) else None


def to_observations(changes: Iterable[MessageChange], scope: str | None) -> list[Observation]:
    return [Observation(change, scope) for change in changes]


def to_certain_observations(changes: Iterable[MessageChange]) -> list[Observation]:
    return [Observation(change, certain=True) for change in changes]
