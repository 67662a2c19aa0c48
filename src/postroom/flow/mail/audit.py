"""The proof: a mailbox is listed at its provider and compared with the store; no cursor is asked or moved.

    listed ──▶ stored, whole and alike: well   stored, not listed ──look──▶ still there: well
          ├──▶ not stored ──look──▶ missing                        └──────▶ gone: extra
          └──▶ stored otherwise, or not all of it ──look──▶ different

Repairing is the sync's business: what was found is handed to it as failures that are due, which it looks at,
fetches and settles one by one.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final
from uuid import UUID

from postroom.errors import DatabaseUnavailable, PermanentError, TransientError
from postroom.flow.mail.sync import SyncContext, content_filter, message_state
from postroom.flow.mail.sync.sync_run import get_earliest_since, get_latest
from postroom.logs import Log
from postroom.model import (
    ContentPolicy,
    FetchedMessage,
    MailboxHealth,
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
    folders,
    ledger,
    mailboxes,
    messages,
    purged_people,
    subscriptions,
    work,
)
from postroom.store.audits import Kept
from postroom.store.cursors import CursorKind
from postroom.store.database import Connection, Database
from postroom.store.failures import Failure
from postroom.store.ledger import NewLedgerEntry
from postroom.store.mailboxes import Mailbox
from postroom.store.messages import Content, Stored
from postroom.store.purged_people import ReceivedMessage
from postroom.store.work import FinishedWork, Lease, WorkRequest

log = Log()

PAGE: Final = 100
# What arrived so lately may be on its way here.
IN_FLIGHT: Final = timedelta(minutes=10)
SCHEDULE_SECONDS: Final = 3600.0
SAMPLED_SHARE: Final = 0.1


class AuditDepth(Enum):
    """How closely is looked. Gmail lists ids only: a message's state costs there what the message does."""

    SAMPLED = "sampled"  # of what is listed without its state, a share is looked at, another one each time
    STATES = "states"  # all of it is
    CONTENTS = "contents"  # every message is fetched again, and held against what is stored


@dataclass(frozen=True, slots=True)
class _ObservedMessage:
    """A message at the provider; its content where it was fetched."""

    change: MessageChange
    content: Content | None = None
    parts: Collection[str] = ()


@dataclass
class AuditFindings:
    """Provider's ids of messages."""

    started_at: datetime
    listed: int = 0
    missing: list[str] = field(default_factory=list[str])
    extra: list[str] = field(default_factory=list[str])
    different: list[str] = field(default_factory=list[str])

    @property
    def all_keys(self) -> list[str]:
        return [*self.missing, *self.extra, *self.different]


async def run(context: SyncContext, every_seconds: float, lease: Lease) -> None:
    """The audit of one mailbox, as work that is due. One whose syncs go on or fail is audited later."""
    async with context.database.transaction(lease.organization) as connection:
        mailbox = await mailboxes.get(connection, MailboxId(UUID(lease.subject)))
    if mailbox is None or mailbox.disconnected_at is not None:
        async with work.fenced_transaction(context.database, lease) as connection:
            await work.finish(connection, [FinishedWork(lease)])
        return
    again = every_seconds * random.uniform(0.9, 1)
    if mailbox.paused_at is None and mailbox.health is not MailboxHealth.TOKEN_REFRESH_FAILED:
        try:
            await audit_mailbox(context, mailbox, AuditDepth.SAMPLED)
        except PermanentError:  # the sync tells of what is wrong with the mailbox
            again = min(again, SCHEDULE_SECONDS)
    async with work.fenced_transaction(context.database, lease) as connection:
        await work.finish(connection, [FinishedWork(lease, again)])


async def audit_mailbox(context: SyncContext, mailbox: Mailbox, depth: AuditDepth) -> AuditFindings:
    """Compare, and keep the result."""
    return await _AuditRun(context, mailbox, context.remote(mailbox), depth).run()


async def repair(
    connection: Connection, organization: OrganizationId, mailbox: MailboxId, found: AuditFindings
) -> None:
    """Have the next sync look at and fetch what was found."""
    rows = [Failure("message", key, "An audit found it missing or different.", 0) for key in found.all_keys]
    await failures.record(connection, mailbox, rows)
    await work.restart(connection, [WorkRequest(organization, WorkKind.SYNC, str(mailbox))])


async def keep_scheduled(database: Database, every_seconds: float) -> None:
    """Every hour: each mailbox that no audit waits for gets one, at some time of the interval."""
    while True:
        with suppress(DatabaseUnavailable, TransientError):
            async with database.engine() as connection:
                found = await subscriptions.list_mailboxes_without_work(connection, WorkKind.AUDIT)
                delays = [random.uniform(0, every_seconds) for _ in found]
                wakes = [
                    WorkRequest(organization, WorkKind.AUDIT, str(mailbox), delay)
                    for (organization, mailbox), delay in zip(found, delays, strict=True)
                ]
                await work.enqueue(connection, wakes)
        await asyncio.sleep(SCHEDULE_SECONDS)


@dataclass(frozen=True)
class _AuditRun:
    parts: SyncContext
    mailbox: Mailbox
    remote: RemoteMailbox
    depth: AuditDepth

    async def run(self) -> AuditFindings:
        async with self.context.database.transaction(self.mailbox.organization) as connection:
            found = AuditFindings(await subscriptions.read_clock(connection))
            rows = await cursors.of_mailbox(connection, self.mailbox.id)
            tree = await folders.every(connection, self.mailbox.id)
            await cursors.forget_listed(connection, self.mailbox.id, "audit", [""])
        backfills = [row for row in rows if row.kind is CursorKind.BACKFILL]
        if not backfills or any(row.completed_at is None for row in backfills):
            raise PermanentError("The first sync of this mailbox is not at its end; audit it afterwards.")
        oldest = self.context.oldest_kept(self.mailbox.policy, found.started_at)
        since = get_latest(get_earliest_since(backfills), oldest)
        mirrored = {folder.key for folder in tree if folder.scope is not None and not folder.deleted}
        async for changes in self._listed([row.scope for row in backfills], since):
            await self._compare(changes, since, mirrored, found)
        await self._find_extra(since, mirrored, found)
        found.missing = await self._not_left_out(await self._still_missing(found))
        found.different = await self._still_different(found)
        await self._keep(found)
        return found

    async def _listed(
        self, scopes: Collection[str], since: datetime | None
    ) -> AsyncIterator[Sequence[MessageChange]]:
        """Everything since, without touching the feeds that syncs follow."""
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
        mirrored: set[str],
        found: AuditFindings,
    ) -> None:
        keys = [change.key for change in changes]
        async with self.context.database.transaction(self.mailbox.organization) as connection:
            await cursors.note_listed(connection, self.mailbox.id, "audit", "", keys)
        seen = await self._seen(changes)
        found.listed += len(seen)
        wanted = [each for each in seen if _is_mirrored(each.change.state, since, mirrored)]
        missing, different = await self._unlike(wanted)
        found.missing += missing
        found.different += different

    async def _seen(self, changes: Sequence[MessageChange]) -> Sequence[_ObservedMessage]:
        """As closely as the depth asks for."""
        if self.depth is AuditDepth.CONTENTS:
            return await self._fetched(changes)
        bare = any(not change.version for change in changes)
        if bare and (self.depth is AuditDepth.STATES or random.random() < SAMPLED_SHARE):
            looked = await self._looked([change.key for change in changes])
            changes = [each for each in looked if each.presence is Presence.PRESENT]
        return [_ObservedMessage(change) for change in changes]

    async def _looked(self, keys: Sequence[str]) -> list[MessageChange]:
        """How these stand now. What cannot be looked at cannot be judged."""
        return [each for each in await self.remote.look_up(keys) if isinstance(each, MessageChange)]

    async def _fetched(self, changes: Sequence[MessageChange]) -> Sequence[_ObservedMessage]:
        """As a sync fetches them, so that alike means alike. What cannot be fetched is the sync's failure."""
        policy, accept = self.mailbox.policy, self.context.accept
        return [
            _ObservedMessage(
                MessageChange(each.key, Presence.PRESENT, each.version, each.state),
                content_filter.filter_content(each.content, policy),
                {part.part for part in content_filter.filter_attachments(each.content, policy, accept)},
            )
            async for group in self.remote.fetch(changes, policy)
            for each in group
            if isinstance(each, FetchedMessage)
        ]

    async def _unlike(self, seen: Sequence[_ObservedMessage]) -> tuple[list[str], list[str]]:
        """Which of these are not stored, and which are stored otherwise."""
        keys = [each.change.key for each in seen]
        async with self.context.database.transaction(self.mailbox.organization) as connection:
            rows = await messages.known(connection, self.mailbox.id, keys)
            kept = await audits.kept(connection, self.mailbox.id, keys)
        here = {key for key, row in rows.items() if not row.deleted}
        return (
            [key for key in keys if key not in here],
            [
                each.change.key
                for each in seen
                if each.change.key in here and self._differs(rows[each.change.key], kept, each)
            ],
        )

    def _differs(self, row: Stored, kept: Mapping[str, Kept], seen: _ObservedMessage) -> bool:
        """Whether what the provider tells now is not what is stored. What is on its way differs too."""
        ours, told = kept[row.key], seen.change
        before = message_state.from_row(row)
        after, _ = message_state.merge_change(before, told)
        return (
            bool(message_state.diff_states(before, after, told.version))
            or ours.lacks_content
            or (ours.lacks_bytes and self.mailbox.policy is ContentPolicy.FULL)
            or told.state.thread not in {None, ours.thread}
            or (seen.content is not None and not _is_same_content(ours, seen.content, seen.parts))
        )

    async def _find_extra(self, since: datetime | None, mirrored: set[str], found: AuditFindings) -> None:
        """What is stored and was not listed may have come since, or have no date: a look decides. What lies
        elsewhere now is as good as deleted.
        """
        while True:
            async with self.context.database.transaction(self.mailbox.organization) as connection:
                keys = await cursors.unlisted(
                    connection, self.mailbox.id, "audit", "", folders=None, limit=PAGE, since=since
                )
                await cursors.note_listed(connection, self.mailbox.id, "audit", "", keys)
            if not keys:
                return
            looked = await self._looked(keys)
            here = [each for each in looked if each.presence is Presence.PRESENT]
            here = [each for each in here if _is_mirrored(each.state, None, mirrored)]
            found.extra += [each.key for each in looked if each not in here]
            found.different += (await self._unlike([_ObservedMessage(each) for each in here]))[1]

    async def _still_missing(self, found: AuditFindings) -> list[str]:
        """Those that are there, are not here by now, and did not come just now."""
        missing: list[str] = []
        for start in range(0, len(found.missing), PAGE):
            looked = await self._looked(found.missing[start : start + PAGE])
            late = found.started_at - IN_FLIGHT
            there = [
                each.key
                for each in looked
                if each.presence is Presence.PRESENT
                and (each.state.received_at is None or each.state.received_at < late)
            ]
            async with self.context.database.transaction(self.mailbox.organization) as connection:
                stored = await messages.known(connection, self.mailbox.id, there)
            missing += [key for key in there if key not in stored or stored[key].deleted]
        return missing

    async def _not_left_out(self, missing: list[str]) -> list[str]:
        """Mail of people who were purged is not missed."""
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

    async def _still_different(self, found: AuditFindings) -> list[str]:
        """A change between the listing and the look into the store is none."""
        different: list[str] = []
        for start in range(0, len(found.different), PAGE):
            looked = await self._looked(found.different[start : start + PAGE])
            here = [each for each in looked if each.presence is Presence.PRESENT]
            deep = self.depth is AuditDepth.CONTENTS
            seen = await self._fetched(here) if deep else [_ObservedMessage(each) for each in here]
            different += (await self._unlike(seen))[1]
        return different

    async def _keep(self, found: AuditFindings) -> None:
        organization, mailbox = self.mailbox.organization, self.mailbox.id
        counts = {
            "listed": found.listed,
            "missing": len(found.missing),
            "extra": len(found.extra),
            "different": len(found.different),
        }
        async with self.context.database.transaction(organization) as connection:
            await cursors.forget_listed(connection, mailbox, "audit", [""])
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
        log.info("audit.done", mailbox=mailbox, count=len(found.all_keys))


def _is_mirrored(state: ObservedState, since: datetime | None, mirrored: set[str]) -> bool:
    if since is not None and state.received_at is not None and state.received_at < since:
        return False
    return state.folder is None or state.folder in mirrored


def _is_same_content(ours: Kept, told: Content, context: Collection[str]) -> bool:
    """By the bytes where we had them, and by what people would notice in any case."""
    if ours.raw_sha256 is not None and told.raw_sha256 is not None and ours.raw_sha256 != told.raw_sha256:
        return False
    return (ours.subject, ours.from_address, ours.internet_message_id, ours.parts) == (
        told.subject,
        told.from_address,
        told.internet_message_id,
        set(context),
    )
