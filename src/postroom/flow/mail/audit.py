"""The work `audit`: list a mailbox at its provider and compare it with the store.

    listed ──▶ stored and equal: fine            stored, not listed ──lookup──▶ exists: fine
          ├──▶ not stored ──lookup──▶ missing                         └───────▶ gone: extra
          └──▶ stored differently or incompletely ──lookup──▶ different

An audit neither reads nor advances the cursors of the sync, and changes no message. A repair hands its
findings to the sync as failures that are due; the sync looks up and fetches them one by one, and marks as
deleted only what the provider does not return again. Scheduled audits repair, unless the operator forbids it.
"""

import random
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final
from uuid import UUID

from postroom.errors import PermanentError
from postroom.flow.mail.sync import SyncContext, content_filter, message_state
from postroom.flow.mail.sync.sync_run import get_earliest_since, get_latest
from postroom.logs import Log
from postroom.model import (
    ContentPolicy,
    FetchedMessage,
    MailboxId,
    MessageChange,
    ObservedState,
    OrganizationId,
    Presence,
    WorkKind,
)
from postroom.ports import RemoteMailbox
from postroom.store import (
    audits,
    cursors,
    failures,
    feed,
    folders,
    ledger,
    mailboxes,
    messages,
    purged_people,
    subscriptions,
    suspect_messages,
    work,
)
from postroom.store.audits import AuditedMessage
from postroom.store.connection import Connection
from postroom.store.cursors import CursorKind
from postroom.store.database import Database, repeat_hourly
from postroom.store.failures import Failure
from postroom.store.ledger import JsonValue, NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.messages import StoredContent, StoredMessage
from postroom.store.purged_people import ReceivedMessage
from postroom.store.work import FinishedWork, Lease, WorkRequest

log = Log()

PAGE: Final = 100
# Messages this new may not have been synced yet.
IN_FLIGHT: Final = timedelta(minutes=10)
SCHEDULE_SECONDS: Final = 3600.0
SAMPLED_SHARE: Final = 0.1
RECHECK_SECONDS: Final = 3600.0  # until the audit that shows whether a repair worked


class AuditDepth(Enum):
    """How thoroughly to compare. Gmail lists only ids: a message's state costs as much as the message."""

    SAMPLED = "sampled"  # look up a random share of the messages that are listed without their state
    STATES = "states"  # look up all of them
    CONTENTS = "contents"  # fetch every message again and compare it with what is stored


@dataclass(frozen=True, slots=True)
class _ObservedMessage:
    """A message at the provider, with its content if it was fetched."""

    change: MessageChange
    content: StoredContent | None = None
    parts: Collection[str] = ()


@dataclass
class AuditFindings:
    """The result of an audit: provider ids of messages."""

    started_at: datetime
    listed: int = 0
    missing: list[str] = field(default_factory=list[str])
    extra: list[str] = field(default_factory=list[str])
    different: list[str] = field(default_factory=list[str])
    scopes: dict[str, str] = field(
        default_factory=dict[str, str]
    )  # by key: the scopes of missing and different messages
    absent: list[str] = field(default_factory=list[str])  # failures of messages that were not listed

    @property
    def counts(self) -> dict[str, JsonValue]:
        return {
            "missing": len(self.missing),
            "extra": len(self.extra),
            "different": len(self.different),
        }

    @property
    def all_keys(self) -> list[str]:
        return [*self.missing, *self.extra, *self.different]

    @property
    def needs_repair(self) -> bool:
        return bool(self.all_keys or self.absent)


async def run(context: SyncContext, interval_seconds: float, lease: Lease, *, repairs: bool) -> None:
    """Audit one mailbox. One whose first sync is running, or that cannot be read, is audited later.

    A repair is followed by another audit soon, once.
    """
    async with context.database.transaction(lease.organization) as connection:
        mailbox = await mailboxes.get(connection, MailboxId(UUID(lease.subject)))
        previous = await audits.get_latest(connection, mailbox.id) if mailbox else None
    if mailbox is None or mailbox.disconnected_at is not None:
        async with work.fenced_transaction(context.database, lease) as connection:
            await work.finish(connection, [FinishedWork(lease)])
        return
    found: AuditFindings | None = None
    again = interval_seconds * random.uniform(0.9, 1)
    if mailbox.can_sync:
        try:
            found = await audit_mailbox(context, mailbox, AuditDepth.SAMPLED)
        except PermanentError:  # the sync records what is wrong with the mailbox
            again = min(again, SCHEDULE_SECONDS)
    async with work.fenced_transaction(context.database, lease) as connection:
        if repairs and found is not None and found.needs_repair:
            await repair(connection, mailbox.organization, mailbox.id, found)
            if found.all_keys and (previous is None or previous.is_clean):
                again = min(again, RECHECK_SECONDS)
        await work.finish(connection, [FinishedWork(lease, again)])


async def audit_mailbox(context: SyncContext, mailbox: Mailbox, depth: AuditDepth) -> AuditFindings:
    """Compare a mailbox with the store, and store the result."""
    return await _AuditRun(context, mailbox, context.remote(mailbox), depth).run()


async def repair(
    connection: Connection, organization: OrganizationId, mailbox: MailboxId, found: AuditFindings
) -> None:
    """Have the next sync look up and fetch what the audit found, and record that in ledger and feed."""
    await work.block_commits(connection, WorkKind.SYNC, str(mailbox))
    await failures.resolve_by_messages(connection, mailbox, found.absent)
    # A parked message that the provider no longer has is looked up: the 404 settles its failure.
    left_out = await suspect_messages.list_parked(connection, mailbox) - set(found.extra)
    left_out |= await _find_outdated(connection, mailbox, found)
    keys = [key for key in found.all_keys if key not in left_out]
    if not keys:
        return
    error = "An audit found this message missing or different."
    rows = [Failure("message", key, error, 0, found.scopes.get(key)) for key in keys]
    await failures.record(connection, mailbox, rows)
    await failures.record_unlisted(connection, mailbox, set(found.extra) & set(keys))
    await audits.record_repair(connection, mailbox, started_at=found.started_at)
    entry = NewLedgerEntry("AUDIT_REPAIR_STARTED", "mailbox", str(mailbox), payload=found.counts)
    await ledger.append_entries(connection, organization, [entry])
    await feed.append_event(connection, "mailbox.repair_started", "mailbox", str(mailbox), found.counts)
    await work.restart(connection, [WorkRequest(organization, WorkKind.SYNC, str(mailbox))])
    log.warning("audit.repair_started", mailbox=mailbox, count=len(rows))


async def _find_outdated(connection: Connection, mailbox: MailboxId, found: AuditFindings) -> set[str]:
    """Find messages that a sync settled since the audit started: extra but seen again, different but gone."""
    judged = {*found.extra, *found.different}
    written = await audits.list_written_since(connection, mailbox, judged, found.started_at)
    return {key for key, is_mirrored in written.items() if is_mirrored == (key in found.extra)}


async def request_audit(
    connection: Connection, organization: OrganizationId, mailbox: MailboxId, *, actor: str
) -> None:
    """Make the mailbox's next audit due now. It repairs what it finds, like every scheduled one."""
    entry = NewLedgerEntry("AUDIT_REQUESTED", "mailbox", str(mailbox), actor)
    await ledger.append_entries(connection, organization, [entry])
    await work.restart(connection, [WorkRequest(organization, WorkKind.AUDIT, str(mailbox))])


async def keep_scheduled(database: Database, interval_seconds: float) -> None:
    """Every hour, enqueue an audit for each mailbox without one, at a random time in the interval."""

    async def schedule() -> None:
        async with database.engine() as connection:
            found = await subscriptions.list_mailboxes_without_work(connection, WorkKind.AUDIT)
            delays = [random.uniform(0, interval_seconds) for _ in found]
            requests = [
                WorkRequest(organization, WorkKind.AUDIT, str(mailbox), delay)
                for (organization, mailbox), delay in zip(found, delays, strict=True)
            ]
            await work.enqueue(connection, requests)

    await repeat_hourly(schedule)


@dataclass(frozen=True)
class _AuditRun:
    """One audit of one mailbox."""

    context: SyncContext
    mailbox: Mailbox
    remote: RemoteMailbox
    depth: AuditDepth

    async def run(self) -> AuditFindings:
        async with self.context.database.transaction(self.mailbox.organization) as connection:
            found = AuditFindings(await subscriptions.read_clock(connection))
            rows = await cursors.list_by_mailbox(connection, self.mailbox.id)
            tree = await folders.list_all(connection, self.mailbox.id)
            await cursors.delete_listed(connection, self.mailbox.id, "audit", [""])
        backfills = [row for row in rows if row.kind is CursorKind.BACKFILL]
        if not backfills or any(row.completed_at is None for row in backfills):
            raise PermanentError(
                "The first sync of this mailbox is still running. Audit it when that is done."
            )
        oldest = self.context.oldest_kept(self.mailbox.policy, found.started_at)
        since = get_latest(get_earliest_since(backfills), oldest)
        mirrored = {
            folder.key: folder.scope for folder in tree if folder.scope is not None and not folder.deleted
        }
        async for changes in self._list_messages([row.scope for row in backfills], since):
            await self._compare(changes, since, mirrored, found)
        await self._find_extra(since, mirrored, found)
        found.missing = await self._without_purged_senders(await self._recheck_missing(mirrored, found))
        found.different = await self._recheck_different(mirrored, found)
        await self._store_findings(found)
        return found

    async def _list_messages(
        self, scopes: Collection[str], since: datetime | None
    ) -> AsyncIterator[Sequence[MessageChange]]:
        """List everything since, without touching the change feeds that syncs follow."""
        if since is not None and any(
            [await self.remote.get_current_cursor(scope) is None for scope in scopes]
        ):
            async for changes in self.remote.list_recent(since, drafts=True):
                yield changes
            return
        for scope in scopes:
            cursor: str | None = None
            more = True
            while more:
                page = await self.remote.list_messages(scope, cursor=cursor, since=since)
                cursor, more = page.cursor, page.has_more
                yield page.changes

    async def _compare(
        self,
        changes: Sequence[MessageChange],
        since: datetime | None,
        mirrored: Mapping[str, str],
        found: AuditFindings,
    ) -> None:
        keys = [change.key for change in changes]
        async with self.context.database.transaction(self.mailbox.organization) as connection:
            await cursors.record_listed(connection, self.mailbox.id, "audit", "", keys)
        seen = await self._observe(changes)
        found.listed += len(seen)
        wanted = [each for each in seen if _is_mirrored(each.change.state, since, mirrored)]
        missing, different = await self._find_missing_and_different(wanted)
        found.missing += missing
        found.different += different

    async def _observe(self, changes: Sequence[MessageChange]) -> Sequence[_ObservedMessage]:
        """Observe the listed messages as thoroughly as the depth requires."""
        if self.depth is AuditDepth.CONTENTS:
            return await self._fetch(changes)
        bare = any(not change.version for change in changes)
        if bare and (self.depth is AuditDepth.STATES or random.random() < SAMPLED_SHARE):
            looked = await self._look_up([change.key for change in changes])
            changes = [each for each in looked if each.presence is Presence.PRESENT]
        return [_ObservedMessage(change) for change in changes]

    async def _look_up(self, keys: Sequence[str]) -> list[MessageChange]:
        """Look up messages. Those whose lookup fails are left out: they cannot be judged."""
        return [each for each in await self.remote.look_up(keys) if isinstance(each, MessageChange)]

    async def _fetch(self, changes: Sequence[MessageChange]) -> Sequence[_ObservedMessage]:
        """Fetch messages exactly as a sync does, so that they compare equal.

        Messages that cannot be fetched are left out; the sync records those as failures.
        """
        policy = self.mailbox.policy
        return [
            _ObservedMessage(
                MessageChange(each.key, Presence.PRESENT, each.version, each.state),
                content_filter.filter_content(each.content, policy),
                {part.part for part in self.context.filter_attachments(self.mailbox, each.content)},
            )
            async for group in self.remote.fetch(changes, policy)
            for each in group
            if isinstance(each, FetchedMessage)
        ]

    async def _find_missing_and_different(
        self, seen: Sequence[_ObservedMessage]
    ) -> tuple[list[str], list[str]]:
        """Return the keys that are not stored, and those that are stored differently."""
        keys = [each.change.key for each in seen]
        async with self.context.database.transaction(self.mailbox.organization) as connection:
            rows = await messages.find_by_keys(connection, self.mailbox.id, keys)
            kept = await audits.find_messages(connection, self.mailbox.id, keys)
        here = {key for key, row in rows.items() if row.is_mirrored}
        return (
            [key for key in keys if key not in here],
            [
                each.change.key
                for each in seen
                if each.change.key in here and self._differs(rows[each.change.key], kept, each)
            ],
        )

    def _differs(
        self, row: StoredMessage, kept: Mapping[str, AuditedMessage], seen: _ObservedMessage
    ) -> bool:
        """Whether the store differs from what the provider reports, or lacks a part of it."""
        ours, change = kept[row.key], seen.change
        before = message_state.from_row(row)
        after, _ = message_state.merge_change(before, change)
        return (
            bool(message_state.diff_states(before, after, change.version))
            or ours.lacks_content
            or (ours.lacks_bytes and self.mailbox.policy is ContentPolicy.FULL)
            or change.state.thread not in {None, ours.thread}
            or (seen.content is not None and not _is_same_content(ours, seen.content, seen.parts))
        )

    async def _find_extra(
        self, since: datetime | None, mirrored: Mapping[str, str], found: AuditFindings
    ) -> None:
        """Look up what was stored before the audit but not listed: it may have moved, or have no date.

        What was stored since is left out: it may be newer than the listing, and not readable yet. A message
        in a folder that is not mirrored is extra: it left the scope.
        """
        while True:
            async with self.context.database.transaction(self.mailbox.organization) as connection:
                keys = await cursors.list_unlisted(
                    connection,
                    self.mailbox.id,
                    "audit",
                    "",
                    folders=None,
                    limit=PAGE,
                    since=since,
                    written_before=found.started_at,
                )
                await cursors.record_listed(connection, self.mailbox.id, "audit", "", keys)
            if not keys:
                return
            looked = await self._look_up(keys)
            here = [each for each in looked if each.presence is Presence.PRESENT]
            here = [each for each in here if _is_mirrored(each.state, None, mirrored)]
            found.extra += [each.key for each in looked if each not in here]
            found.different += (
                await self._find_missing_and_different([_ObservedMessage(each) for each in here])
            )[1]

    async def _recheck_missing(self, mirrored: Mapping[str, str], found: AuditFindings) -> list[str]:
        """Keep those that still exist at the provider, are still not stored, and are not brand new."""
        missing: list[str] = []
        for start in range(0, len(found.missing), PAGE):
            looked = await self._look_up(found.missing[start : start + PAGE])
            late = found.started_at - IN_FLIGHT
            there = [
                each
                for each in looked
                if each.presence is Presence.PRESENT
                and (each.state.received_at is None or each.state.received_at < late)
            ]
            found.scopes |= _find_scopes(there, mirrored)
            keys = [each.key for each in there]
            async with self.context.database.transaction(self.mailbox.organization) as connection:
                stored = await messages.find_by_keys(connection, self.mailbox.id, keys)
            missing += [key for key in keys if key not in stored or not stored[key].is_mirrored]
        return missing

    async def _without_purged_senders(self, missing: list[str]) -> list[str]:
        """Leave out the mail of purged people: it is not stored on purpose."""
        async with self.context.database.transaction(self.mailbox.organization) as connection:
            if not missing or not await purged_people.has_any(connection):
                return missing
        wanted = [MessageChange(key, Presence.PRESENT) for key in missing]
        sent = [
            ReceivedMessage(each.key, each.content.sender.address, each.state.received_at)
            async for group in self.remote.fetch(wanted, ContentPolicy.METADATA)
            for each in group
            if isinstance(each, FetchedMessage) and each.content.sender is not None
        ]
        async with self.context.database.transaction(self.mailbox.organization) as connection:
            out = await purged_people.find_blocked_messages(connection, sent)
        return [key for key in missing if key not in out]

    async def _recheck_different(self, mirrored: Mapping[str, str], found: AuditFindings) -> list[str]:
        """Compare again: the message may have changed between the listing and the comparison."""
        different: list[str] = []
        for start in range(0, len(found.different), PAGE):
            looked = await self._look_up(found.different[start : start + PAGE])
            here = [each for each in looked if each.presence is Presence.PRESENT]
            found.scopes |= _find_scopes(here, mirrored)
            deep = self.depth is AuditDepth.CONTENTS
            seen = await self._fetch(here) if deep else [_ObservedMessage(each) for each in here]
            different += (await self._find_missing_and_different(seen))[1]
        return different

    async def _store_findings(self, found: AuditFindings) -> None:
        organization, mailbox = self.mailbox.organization, self.mailbox.id
        counts = {"listed": found.listed, **found.counts}
        async with self.context.database.transaction(organization) as connection:
            found.absent = await audits.list_absent_failures(
                connection, mailbox, listed_before=found.started_at
            )
            await cursors.delete_listed(connection, mailbox, "audit", [""])
            await audits.add(
                connection,
                mailbox,
                started_at=found.started_at,
                listed=found.listed,
                missing=found.missing,
                extra=found.extra,
                different=found.different,
            )
            entry = NewLedgerEntry("AUDIT_COMPLETED", "mailbox", str(mailbox), payload=counts)
            await ledger.append_entries(connection, organization, [entry])
        log.info("audit.completed", mailbox=mailbox, count=len(found.all_keys))


def _is_mirrored(state: ObservedState, since: datetime | None, mirrored: Mapping[str, str]) -> bool:
    if since is not None and state.received_at is not None and state.received_at < since:
        return False
    return state.folder is None or state.folder in mirrored


def _find_scopes(here: Sequence[MessageChange], mirrored: Mapping[str, str]) -> dict[str, str]:
    """The scopes of these messages. A repair that cannot read one leaves it to the feed of its scope."""
    scopes = {each.key: mirrored.get(each.state.folder) if each.state.folder else "" for each in here}
    return {key: scope for key, scope in scopes.items() if scope is not None}


def _is_same_content(ours: AuditedMessage, theirs: StoredContent, parts: Collection[str]) -> bool:
    """Compare the raw bytes, if both are known, and the values that people would notice."""
    if ours.raw_sha256 is not None and theirs.raw_sha256 is not None and ours.raw_sha256 != theirs.raw_sha256:
        return False
    return (ours.subject, ours.from_address, ours.internet_message_id, ours.parts) == (
        theirs.subject,
        theirs.from_address,
        theirs.internet_message_id,
        set(parts),
    )
